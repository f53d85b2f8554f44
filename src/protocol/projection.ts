/**
 * Converts results, lists and notifications to the revision of a client: content types, structured content, output
 * schemas. Unchanged parts keep their text.
 */
import type { Call, Notification } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { rewrittenSchema } from '../core/schema/schema.ts'
import { metaKeys } from './meta-keys.ts'
import { method } from './methods.ts'
import { findRevision, type Revision } from '../core/revisions.ts'

/** A result for an older revision: unsupported content is converted, never dropped silently. */
export function lowerResult(name: string, result: Payload, revision: Revision): Payload {
  // Elsewhere, and in results of older servers, members with these names are the server's own.
  const isModern = method(name).caches === true && result.member('resultType') !== undefined
  const stripped = stripModern(result, isModern ? modernFields : ['resultType'])
  switch (name) {
    case 'tools/list':
      return lowerTools(stripped)
    case 'tools/call':
      // An accepted task has no content yet (2025-11-25 basic/utilities/tasks).
      if (result.member('task') !== undefined && result.member('content') === undefined) return stripped
      return lowerStructured(lowerContent(stripped, 'content', revision), revision)
    case 'prompts/get':
      return withMessageContent(
        stripped,
        (block) => knows(revision, block),
        (block) => lowerBlock(block, revision),
      )
    default:
      return stripped
  }
}

/** The result of a call, as it is sent to its client. */
export function asSent(result: Payload, call: Call): Payload {
  const named = call.rewriteResult?.(result) ?? result
  const revision = findRevision(call.client.revision)
  return revision?.era === 'legacy' ? lowerResult(call.method, named, revision) : named
}

/** The result of a tool for a client that requested it by another method. */
export function asToolResult(result: Payload, { client }: Call): Payload {
  const revision = findRevision(client.revision)
  return revision?.era === 'legacy' ? lowerResult('tools/call', result, revision) : result
}

const modernFields = ['resultType', 'ttlMs', 'cacheScope']

function stripModern(result: Payload, fields: readonly string[]): Payload {
  const found = fields.filter((key) => result.member(key) !== undefined)
  const bare =
    found.length > 0 ? result.with(Object.fromEntries(found.map((key) => [key, undefined]))) : result
  return result.meta(metaKeys.serverInfo) === undefined
    ? bare
    : bare.withMeta({ [metaKeys.serverInfo]: undefined })
}

/**
 * Wraps output schemas that do not describe an object, like the SDKs do, and writes schemas `true` and `false` as objects;
 * otherwise clients reject the whole list. Removes the mark of tools that only run as tasks: clients would not call them, although the gateway follows their tasks.
 */
function lowerTools(result: Payload): Payload {
  const { tools } = result.fields
  if (!Array.isArray(tools)) return result
  return result.withItems('tools', (tool) => {
    const schema = needsWrap(tool.value) ? tool.at('outputSchema') : undefined
    const lowered = schema
      ? tool.with({ outputSchema: wrapSchema(schema) })
      : withObjects(tool, 'outputSchema')
    const unmarked = needsTask(tool.value) ? lowered.with({ execution: undefined }) : lowered
    return withObjects(unmarked, 'inputSchema')
  })
}

/** A tool whose schema describes each member by an object, which clients before 2026-07-28 require. */
function withObjects(tool: Payload, key: 'inputSchema' | 'outputSchema'): Payload {
  const schema = tool.at(key)
  const properties = schema?.at('properties')
  const booleans = Object.entries(properties?.fields ?? {}).filter(([, each]) => typeof each === 'boolean')
  if (!schema || !properties || booleans.length === 0) return tool
  const objects = Object.fromEntries(booleans.map(([name, isAny]) => [name, isAny ? {} : { not: {} }]))
  return tool.with({ [key]: schema.with({ properties: properties.with(objects) }) })
}

/** Whether a tool only runs as a task (2025-11-25 basic/utilities/tasks). */
function needsTask(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.execution) && tool.execution.taskSupport === 'required'
}

function needsWrap(tool: unknown): boolean {
  return isObject(tool) && isObject(tool.outputSchema) && tool.outputSchema.type !== 'object'
}

/** `structuredContent` was an object before 2026-07-28, and clients before 2025-06-18 read only the text. */
function lowerStructured(result: Payload, revision: Revision): Payload {
  const structuredContent = result.member('structuredContent')
  const content = result.member('content')
  const isMissing = content === undefined || content === null
  if (structuredContent === undefined) return isMissing ? result.with({ content: [] }) : result
  const hasText =
    revision.structured ||
    (Array.isArray(content) && content.some((item) => isObject(item) && item.type === 'text'))
  const raw = result.at('structuredContent')
  const withText = hasText ? result : result.withItem('content', { type: 'text', text: raw?.text ?? 'null' })
  if (isObject(structuredContent)) return withText
  return withText.with({ structuredContent: Payload.of({}).with({ result: raw }) })
}

/** A result with the content of its messages changed, where it may not stay; the same if all of it may. */
export function withMessageContent(
  result: Payload,
  mayStay: (content: unknown) => boolean,
  change: (content: Payload) => Payload,
): Payload {
  const { messages } = result.fields
  if (!Array.isArray(messages)) return result
  if (messages.every((message) => !isObject(message) || mayStay(message.content))) return result
  return result.withItems('messages', (message) => {
    const content = message.at('content')
    return content ? message.with({ content: change(content) }) : message
  })
}

function lowerContent(result: Payload, key: string, revision: Revision): Payload {
  const blocks = result.member(key)
  if (!Array.isArray(blocks)) return result
  if (blocks.every((block) => knows(revision, block))) return result
  return result.withItems(key, (block) => lowerBlock(block, revision))
}

/** Strict clients reject a whole result because of one unknown block type. */
function knows({ content }: Revision, block: unknown): boolean {
  const type = isObject(block) ? block.type : undefined
  return (type !== 'audio' && type !== 'resource_link') || content.has(type)
}

function lowerBlock(block: Payload, revision: Revision): Payload {
  if (knows(revision, block.value)) return block
  return block.fields.type === 'audio' ? audioAsResource(block) : linkAsText(block.fields)
}

function audioAsResource(block: Payload): Payload {
  const { data, mimeType } = block.fields
  const resource = { uri: 'audio:inline', mimeType, blob: data }
  return Payload.of({ type: 'resource', resource }).with({ annotations: block.at('annotations') })
}

function linkAsText({ title, name, uri, description }: Readonly<Record<string, unknown>>): Payload {
  const known = title ?? name
  const label = typeof known === 'string' ? `${known}: ` : ''
  const details = typeof description === 'string' ? ` (${description})` : ''
  return Payload.of({ type: 'text', text: `${label}${String(uri)}${details}` })
}

/** A notification for a revision; undefined if the revision does not have it. */
export function lowerNote(note: Notification, revision: Revision): Notification | undefined {
  if (followUps.has(note.method) && !revision.followUps) return undefined
  const fields = note.params?.fields
  if (note.method !== 'notifications/progress' || revision.progressMessage || fields?.message === undefined)
    return note
  return { ...note, ...(note.params && { params: note.params.with({ message: undefined }) }) }
}

/** Notifications that servers of 2025-11-25 send on their own; clients of other revisions poll instead. */
const followUps: ReadonlySet<string> = new Set([
  'notifications/elicitation/complete',
  'notifications/tasks/status',
])

/**
 * An output schema with any root as one of an object with a member `result`, the form the official SDKs use for clients
 * before 2026-07-28. Object content is not wrapped, so if the root allows objects, the object itself is also valid.
 * References to the old root are adjusted.
 */
export function wrapSchema(schema: Payload): Payload {
  const { $schema, type } = schema.fields
  const objectSchema = Payload.of({ ...(typeof $schema === 'string' && { $schema }), type: 'object' })
  const mayBeObject = type === undefined || (Array.isArray(type) && type.includes('object'))
  if (!mayBeObject) return objectSchema.with(resultOf(moved(schema, '#/properties/result')))
  const wrapped = Payload.of(resultOf({ $ref: EITHER }))
  return objectSchema.with({ anyOf: Payload.list([wrapped, moved(schema, EITHER)]) })
}

/** The location of the schema of an unwrapped object. */
const EITHER = '#/anyOf/1'

function resultOf(schema: unknown): Record<string, unknown> {
  const properties = Payload.of({}).with({ result: schema })
  return { properties, required: ['result'] }
}

/** A schema with its references to its own root adjusted to the new location; without any it keeps its text. */
function moved(schema: Payload, root: string): Payload {
  const hasReferences = /"\$(?:dynamicR|r)ef"/.test(schema.text)
  return hasReferences ? Payload.of(moveRefs(schema.value, root)) : schema
}

function moveRefs(schema: unknown, root: string): unknown {
  return rewrittenSchema(schema, (rules) => {
    if (hasOwnBase(rules)) return undefined
    const { $ref, $dynamicRef } = rules
    return {
      ...rules,
      ...(typeof $ref === 'string' && { $ref: pointer($ref, root) }),
      ...(typeof $dynamicRef === 'string' && { $dynamicRef: pointer($dynamicRef, root) }),
    }
  })
}

/** A subtree with its own `$id` resolves its references against that. */
function hasOwnBase({ $id }: Readonly<Record<string, unknown>>): boolean {
  return typeof $id === 'string' && !$id.startsWith('#')
}

function pointer(reference: string, root: string): string {
  if (reference === '#') return root
  return reference.startsWith('#/') ? `${root}${reference.slice(1)}` : reference
}
