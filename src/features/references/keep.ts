/**
 * Keeps large parts of tool results, and leaves references in their place. A part is the structured content or a content
 * block. Many servers send both with the same data: it is kept once.
 */
import type { Call } from '../../core/call.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import { shortenedFor } from '../../core/schema/shortened.ts'
import { REFERENCE_KEY, REFERENCES_KEY } from '../../protocol/meta-keys.ts'
import type { Reference, References } from '../../records/references.ts'
import { dataReference, previewOf, uriOf } from './preview.ts'

/** How many parts of a result are kept. */
const MAX_PARTS = 10
/** How large structured content may be that has to match a schema beside its reference, in bytes. */
const MAX_SHORTENED_BYTES = 2048

interface Part {
  readonly bytes: Buffer
  readonly type: string
  readonly name: string
  /** The JSON value of structured content. */
  readonly value?: unknown
  /** The block that it is; absent for structured content. */
  readonly index?: number
}

interface Kept {
  readonly part: Part
  readonly reference: Reference
}

interface Options {
  readonly references: References
  readonly over: number
  readonly ttl: number
  /** Set if at least one part is kept, however small. */
  readonly isRequested: boolean
  /** The id that the caller chose for the first reference. */
  readonly id?: string | undefined
}

/** A result with references in place of its large parts. @throws QUOTA_EXHAUSTED, CONFLICT */
export async function withReferences(result: Payload, call: Call, options: Options): Promise<Payload> {
  if (!options.isRequested && !isLarge(result, options.over)) return result
  const schema = schemaOf(call)
  const kept: Kept[] = []
  for (const part of largeParts(result, schema, options)) {
    const id = kept.length === 0 ? options.id : undefined
    kept.push({ part, reference: await keep(part, call, { ...options, id }) })
  }
  const references = kept.map(({ reference }) => reference)
  const [first] = references
  if (!first) return result
  call.logFields.set(
    'references',
    references.map(({ id, sha256, size }) => ({ id, sha256, size })),
  )
  return replaced(result, kept, schema).withMeta({
    [REFERENCE_KEY]: dataReference(first),
    ...(references.length > 1 && { [REFERENCES_KEY]: references.map(dataReference) }),
  })
}

/** The parts to keep: the largest ones, until what is left is not large. */
function largeParts(result: Payload, schema: JsonSchema | undefined, options: Options): readonly Part[] {
  const { over, isRequested } = options
  const structured = structuredPart(result, schema)
  const parts = [...(structured ? [structured] : []), ...blockParts(result)].toSorted(
    (one, other) => other.bytes.byteLength - one.bytes.byteLength,
  )
  let left = Buffer.byteLength(result.text)
  const large: Part[] = []
  for (const part of parts) {
    const isNeeded = left > over && part.bytes.byteLength > over
    if (large.length === MAX_PARTS || (!isNeeded && (!isRequested || large.length > 0))) break
    // A text with the same JSON as the structured content is dropped with it.
    if (structured && large.includes(structured) && isSameJson(part, structured)) continue
    large.push(part)
    left -= part.bytes.byteLength
  }
  return large
}

// A character takes at most three bytes, so that nearly every result need not be measured.
function isLarge({ text }: Payload, over: number): boolean {
  return text.length * 3 > over && Buffer.byteLength(text) > over
}

function keep(part: Part, { principal, target }: Call, options: Options): Promise<Reference> {
  const { upstream: server = '', name: tool } = target
  const facts = { server, ...(tool !== undefined && { tool }), name: part.name, type: part.type }
  return options.references.add(principal, { ...facts, id: options.id, ttl: options.ttl }, once(part.bytes))
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/**
 * The structured content, unless a block repeats what is large in it, or nothing short enough matches the schema that it
 * has to match.
 */
function structuredPart(result: Payload, schema: JsonSchema | undefined): Part | undefined {
  const structured = result.at('structuredContent')
  if (structured === undefined) return undefined
  const { value, text } = structured
  if (blockParts(result).some((block) => isRepeated(block, value))) return undefined
  if (schema && shortOf(value, schema) === undefined) return undefined
  return { bytes: Buffer.from(text), type: 'application/json', name: 'result.json', value }
}

function blockParts(result: Payload): readonly Part[] {
  const content = result.member('content')
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks.flatMap((block, index) => {
    const part = isObject(block) ? partOfBlock(block) : undefined
    return part ? [{ ...part, index }] : []
  })
}

function partOfBlock(block: Readonly<Record<string, unknown>>): Part | undefined {
  const { type, text, data, mimeType, resource } = block
  if (type === 'text' && typeof text === 'string') return textPart(text)
  if (typeof data === 'string') {
    const media = typeof mimeType === 'string' ? mimeType : 'application/octet-stream'
    return { bytes: Buffer.from(data, 'base64'), type: media, name: `${String(type)}.${endingOf(media)}` }
  }
  return isObject(resource) ? partOfResource(resource) : undefined
}

function textPart(text: string): Part {
  const value = /^\s*[[{]/.test(text) ? readJson(text) : undefined
  if (value === undefined) return { bytes: Buffer.from(text), type: 'text/plain', name: 'result.txt' }
  return { bytes: Buffer.from(text), type: 'application/json', name: 'result.json', value }
}

function partOfResource({ uri, mimeType, text, blob }: Readonly<Record<string, unknown>>): Part | undefined {
  const name = String(uri).split('/').at(-1)?.slice(0, 200) ?? ''
  const named = { name: name === '' ? 'resource' : name }
  if (typeof text === 'string')
    return { ...textPart(text), ...named, ...(typeof mimeType === 'string' && { type: mimeType }) }
  if (typeof blob !== 'string') return undefined
  const type = typeof mimeType === 'string' ? mimeType : 'application/octet-stream'
  return { ...named, bytes: Buffer.from(blob, 'base64'), type }
}

/** The end of a file's name, from its media type. */
function endingOf(type: string): string {
  return /^[a-z]+\/(?:x-)?([a-z0-9]{1,10})/i.exec(type)?.[1] ?? 'bin'
}

function schemaOf({ tool }: Call): JsonSchema | undefined {
  const schema = tool?.definition.outputSchema
  return isObject(schema) ? schema : undefined
}

/** The result with a link and a preview in place of each part that was kept. */
function replaced(result: Payload, kept: readonly Kept[], schema: JsonSchema | undefined): Payload {
  const structured = kept.find(({ part }) => part.index === undefined)
  const byIndex = new Map(kept.map(({ part, reference }) => [part.index, { part, reference }]))
  const content = blockParts(result)
  const blocks = (result.at('content')?.items ?? []).flatMap((block, index): readonly unknown[] => {
    const own = byIndex.get(index)
    if (own) return linkTo(own)
    const part = content.find((each) => each.index === index)
    return structured && part && isSameJson(part, structured.part) ? [] : [block.value]
  })
  const before = result.at('structuredContent')?.value
  const isShort = structured !== undefined || kept.some(({ part }) => isRepeated(part, before))
  const short = isShort && (schema || !structured) ? shortOf(before, schema) : undefined
  return result.with({
    content: structured ? [...linkTo(structured), ...blocks] : blocks,
    ...(isShort && { structuredContent: short ?? (structured ? undefined : before) }),
  })
}

function linkTo({ part, reference }: Kept): readonly unknown[] {
  const link = {
    type: 'resource_link',
    uri: uriOf(reference),
    name: reference.name,
    mimeType: reference.type,
    size: reference.size,
    _meta: { [REFERENCE_KEY]: dataReference(reference) },
  }
  return [link, { type: 'text', text: previewOf(reference, part.bytes, part.value) }]
}

function shortOf(value: unknown, schema: JsonSchema | undefined): unknown {
  return shortenedFor(value, schema, MAX_SHORTENED_BYTES)
}

/** Whether a text block is a member of structured content, as many servers send it. */
function isRepeated({ type, bytes }: Part, structured: unknown): boolean {
  if (!isObject(structured) || !/^text\/|json/.test(type)) return false
  const text = bytes.toString()
  return Object.values(structured).includes(text)
}

function isSameJson(part: Part, structured: Part): boolean {
  return part !== structured && part.value !== undefined && isSame(part.value, structured.value)
}
