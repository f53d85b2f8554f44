import type { Call, Note } from '../core/call.ts'
import { isObject } from '../core/json.ts'
import type { Payload } from '../core/payload.ts'
import { metaKeys } from './extensions.ts'
import { isProtocolMethod } from './methods.ts'
import { findRevision, type Revision } from './revisions.ts'
import { wrapSchema } from './wrap.ts'

/** A result in the words of an older revision: what it does not know is converted, never dropped silently. */
export function lowerResult(name: string, result: Payload, revision: Revision): Payload {
  // What a method of an extension answers is the same for clients of all revisions.
  const stripped = stripModern(result, isProtocolMethod(name) ? modernFields : ['resultType'])
  switch (name) {
    case 'tools/list':
      return lowerTools(stripped)
    case 'tools/call':
      return lowerStructured(lowerContent(stripped, 'content', revision))
    case 'prompts/get':
      return lowerMessages(stripped, revision)
    default:
      return stripped
  }
}

/** What a call came to, as its client will be sent it. */
export function asSent(result: Payload, { client, method: name }: Call): Payload {
  const revision = findRevision(client.revision)
  return revision?.era === 'legacy' ? lowerResult(name, result, revision) : result
}

const modernFields = ['resultType', 'ttlMs', 'cacheScope']

function stripModern(result: Payload, fields: readonly string[]): Payload {
  const found = fields.filter((key) => result.member(key) !== undefined)
  const bare =
    found.length > 0 ? result.with(Object.fromEntries(found.map((key) => [key, undefined]))) : result
  const meta = result.member('_meta')
  if (!isObject(meta) || !Object.hasOwn(meta, metaKeys.serverInfo)) return bare
  return bare.withMeta({ [metaKeys.serverInfo]: undefined })
}

/** Output schemas that are not of an object, in the wrapping the SDKs use; else clients refuse the whole list. */
function lowerTools(result: Payload): Payload {
  const { tools } = result.fields
  if (!Array.isArray(tools) || !tools.some(needsWrap)) return result
  return result.with({
    tools: tools.map((tool) =>
      needsWrap(tool) ? { ...tool, outputSchema: wrapSchema(tool.outputSchema) } : tool,
    ),
  })
}

function needsWrap(tool: unknown): tool is { outputSchema: Record<string, unknown> } {
  return isObject(tool) && isObject(tool.outputSchema) && tool.outputSchema.type !== 'object'
}

/** `structuredContent` was an object before 2026-07-28, and clients before 2025-06-18 read only the text. */
function lowerStructured(result: Payload): Payload {
  const structuredContent = result.member('structuredContent')
  const content = result.member('content')
  if (structuredContent === undefined) return Array.isArray(content) ? result : result.with({ content: [] })
  const hasText = Array.isArray(content) && content.some((each) => isObject(each) && each.type === 'text')
  const raw = result.at('structuredContent')
  const text = { type: 'text', text: raw?.text ?? 'null' }
  const told = hasText ? result : result.with({ content: [...(Array.isArray(content) ? content : []), text] })
  return isObject(structuredContent) ? told : told.with({ structuredContent: { result: structuredContent } })
}

function lowerMessages(result: Payload, revision: Revision): Payload {
  const { messages } = result.fields
  if (!Array.isArray(messages)) return result
  const lowered = messages.map((message) => {
    if (!isObject(message) || !isObject(message.content)) return message
    const content = lowerBlock(message.content, revision)
    return content === message.content ? message : { ...message, content }
  })
  return lowered.every((each, index) => each === messages[index])
    ? result
    : result.with({ messages: lowered })
}

function lowerContent(result: Payload, key: string, revision: Revision): Payload {
  const blocks = result.member(key)
  if (!Array.isArray(blocks)) return result
  const isKnown = (block: unknown): boolean => isObject(block) && lowerBlock(block, revision) === block
  if (blocks.every(isKnown)) return result
  const lowered = blocks.map((block: unknown) => (isObject(block) ? lowerBlock(block, revision) : block))
  return lowered.every((each, index) => each === blocks[index]) ? result : result.with({ [key]: lowered })
}

/** Strict readers fail the whole result over one block type they do not know. */
function lowerBlock(block: Record<string, unknown>, revision: Revision): Record<string, unknown> {
  if (block.type === 'audio' && !revision.content.has('audio')) return audioAsResource(block)
  if (block.type === 'resource_link' && !revision.content.has('resource_link')) return linkAsText(block)
  return block
}

function audioAsResource(block: Record<string, unknown>): Record<string, unknown> {
  const { data, mimeType, annotations } = block
  const resource = { uri: 'audio:inline', mimeType, blob: data }
  return { type: 'resource', resource, ...(annotations !== undefined && { annotations }) }
}

function linkAsText(block: Record<string, unknown>): Record<string, unknown> {
  const name = block.title ?? block.name
  const label = typeof name === 'string' ? `${name}: ` : ''
  const description = typeof block.description === 'string' ? ` (${block.description})` : ''
  return { type: 'text', text: `${label}${String(block.uri)}${description}` }
}

/** A notification in the words of a revision; nothing where it has none for it. */
export function lowerNote(note: Note, revision: Revision): Note | undefined {
  if (followUps.has(note.method) && !revision.followUps) return undefined
  const fields = note.params?.fields
  if (note.method !== 'notifications/progress' || revision.progressMessage || fields?.message === undefined)
    return note
  return { ...note, ...(note.params && { params: note.params.with({ message: undefined }) }) }
}

/** What servers of 2025-11-25 tell by themselves; clients of other revisions learn it by asking again. */
const followUps: ReadonlySet<string> = new Set([
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])
