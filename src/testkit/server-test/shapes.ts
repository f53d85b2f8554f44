/** What is wrong with the form of results, by the schema of MCP (`schema/` in its specification). */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import { isBase64 } from '../../lint/resources.ts'
import { findRevision } from '../../core/revisions.ts'

type Check = (value: unknown) => boolean

const isText: Check = (value) => typeof value === 'string'
const isBytes: Check = (value) => typeof value === 'string' && isBase64(value)

/** The required members of each type of content block. */
const blockMembers: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  text: { text: isText },
  image: { data: isBytes, mimeType: isText },
  audio: { data: isBytes, mimeType: isText },
  resource: { resource: isObject },
  resource_link: { uri: isText, name: isText },
}

/** The problems of the result of a `tools/call`. */
export function callProblems(result: Fields, revision: string): string[] {
  const { content, isError, structuredContent } = result
  const problems: string[] = []
  if (!Array.isArray(content)) problems.push('content is not a list')
  else
    problems.push(
      ...content.flatMap((block: unknown, at) => blockProblems(block, `content[${at}]`, revision)),
    )
  if (isError !== undefined && typeof isError !== 'boolean') problems.push('isError is not a boolean')
  const isModern = findRevision(revision)?.era === 'modern'
  if (structuredContent !== undefined && !isObject(structuredContent) && !isModern)
    problems.push('structuredContent is not an object')
  return problems
}

/** The problems of the result of a `prompts/get`. */
export function promptProblems({ messages }: Fields, revision: string): string[] {
  if (!Array.isArray(messages)) return ['messages is not a list']
  return messages.flatMap((message: unknown, at) => {
    const where = `messages[${at}]`
    if (!isObject(message)) return [`${where} is not an object`]
    const isRole = message.role === 'user' || message.role === 'assistant'
    return [
      ...(isRole ? [] : [`${where}.role is neither user nor assistant`]),
      ...blockProblems(message.content, `${where}.content`, revision),
    ]
  })
}

/** The problems of the result of a `resources/read`. */
export function readProblems({ contents }: Fields): string[] {
  if (!Array.isArray(contents)) return ['contents is not a list']
  return contents.flatMap((each: unknown, at) => resourceProblems(each, `contents[${at}]`))
}

/** The members that entries of each list have to have. */
export const entryMembers: Readonly<Record<string, readonly string[]>> = {
  tools: ['name'],
  prompts: ['name'],
  resources: ['uri', 'name'],
  resourceTemplates: ['uriTemplate', 'name'],
}

/** The problems of an entry of a list. */
export function entryProblems(entry: unknown, list: string, at: number): string[] {
  if (!isObject(entry)) return [`${list}[${at}] is not an object`]
  return (entryMembers[list] ?? []).flatMap((name) => {
    const value = entry[name]
    return typeof value === 'string' && value !== '' ? [] : [`${list}[${at}] has no ${name}`]
  })
}

function blockProblems(block: unknown, where: string, revision: string): string[] {
  if (!isObject(block)) return [`${where} is not an object`]
  const { type } = block
  const members =
    typeof type === 'string' && Object.hasOwn(blockMembers, type) ? blockMembers[type] : undefined
  if (!members || !findRevision(revision)?.content.has(String(type)))
    return [`${where}.type is ${JSON.stringify(type) ?? 'missing'}, which ${revision} does not have`]
  const wrong = Object.entries(members).flatMap(([name, isRight]) =>
    isRight(block[name]) ? [] : [`${where}.${name} is missing or malformed`],
  )
  const inner =
    type === 'resource' && wrong.length === 0 ? resourceProblems(block.resource, `${where}.resource`) : []
  return [...wrong, ...inner]
}

function resourceProblems(resource: unknown, where: string): string[] {
  if (!isObject(resource)) return [`${where} is not an object`]
  const { uri, text, blob } = resource
  return [
    ...(typeof uri === 'string' ? [] : [`${where} has no uri`]),
    ...(typeof text === 'string' || typeof blob === 'string' ? [] : [`${where} has neither text nor blob`]),
    ...(blob === undefined || isBytes(blob) ? [] : [`${where}.blob is not base64`]),
  ]
}
