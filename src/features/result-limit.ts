/** Shortens results above the limit: texts, then arrays and objects, so that they stay valid. */
import type { Call, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { type JsonSchema, validator } from '../core/schema/schema.ts'
import { sizeSchema } from '../core/time/units.ts'
import { NS } from '../protocol/meta-keys.ts'
import type { Feature } from './feature.ts'

interface Settings {
  /** In bytes. */
  readonly result: number
}

/** Bounds how large a result may be. One that is larger is shortened, visibly, and still fits its schema. */
export const resultLimit: Feature<Settings> = {
  name: 'result_limit',
  place: 'limits',
  schema: {
    type: 'object',
    properties: {
      result: {
        ...sizeSchema,
        default: '10MB',
        description:
          'The largest result of a tool or resource. One that is larger is shortened, and says so; where it would not fit the schema of the tool any more it is refused.',
      },
    },
  },
  create: (settings) => ({
    middleware: ({ upstream, method }) => {
      if (method !== 'tools/call' && method !== 'resources/read') return undefined
      const limit = settings(upstream).result
      const fit = async (call: Call, result: Payload): Promise<Outcome> => {
        call.logFields.set('truncated', true)
        if (method === 'resources/read') return { kind: 'result', result: fitContents(result, limit) }
        return { kind: 'result', result: fitTool(result, schemaOf(call.tool), limit) }
      }
      return (next) => (call) =>
        next(call).then((outcome) =>
          outcome.kind === 'result' && isLarger(outcome.result, limit) ? fit(call, outcome.result) : outcome,
        )
    },
  }),
}

/** What the gateway says of a shortened result, in bytes at most. */
const MAX_NOTICE_BYTES = 1024

// A character takes three bytes at most, so that nearly every result need not be measured.
function isLarger({ text }: Payload, limit: number): boolean {
  return text.length * 3 > limit && Buffer.byteLength(text) > limit
}

function schemaOf(tool: Descriptor | undefined): JsonSchema | undefined {
  const schema = tool?.definition.outputSchema
  return isObject(schema) ? schema : undefined
}

function fitContents(result: Payload, limit: number): Payload {
  const { contents } = result.fields
  if (!Array.isArray(contents)) throw tooLarge(limit)
  const fitted = fitBlocks(contents, limit - MAX_NOTICE_BYTES - besides(result, { contents: [] }))
  return marked(result, { contents: fitted }, limit)
}

/** @throws PAYLOAD_TOO_LARGE where what is left would not fit the schema */
function fitTool(result: Payload, schema: JsonSchema | undefined, limit: number): Payload {
  const { content, structuredContent } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const budget = limit - MAX_NOTICE_BYTES - besides(result, { content: [], structuredContent: undefined })
  const room = Math.max(Math.floor(budget / 2), budget - sizeOf(blocks))
  const isOver = structuredContent !== undefined && sizeOf(structuredContent) > room
  const structured = isOver ? shortened(structuredContent, schema, room) : structuredContent
  if (isOver && structured === undefined && schema) throw tooLarge(limit)
  const left = budget - (structured === undefined ? 0 : sizeOf(structured))
  const notice = { type: 'text', text: noticeOf(result, limit) }
  return marked(
    result,
    {
      content: [...fitBlocks(blocks, left), notice],
      ...(isOver && { structuredContent: structured }),
    },
    limit,
  )
}

/** How much the rest of a result takes. */
function besides(result: Payload, without: Readonly<Record<string, unknown>>): number {
  return sizeOf({ ...result.fields, ...without })
}

/** The structured content with arrays cut off or, where that is not enough, texts too. */
function shortened(value: unknown, schema: JsonSchema | undefined, budget: number): unknown {
  for (const strings of [false, true]) {
    const short = shorten(value, budget, strings)
    if (short !== undefined && (!schema || doesFit(short, schema))) return short
  }
  return undefined
}

function doesFit(value: unknown, schema: JsonSchema): boolean {
  try {
    return validator(schema)(value).length === 0
  } catch {
    // An unusable schema cannot be enforced.
    return true
  }
}

/** @throws PAYLOAD_TOO_LARGE where it is too large still */
function marked(result: Payload, fields: Readonly<Record<string, unknown>>, limit: number): Payload {
  const short = Payload.of(result.with(fields).value)
  const said = { original_bytes: sizeInBytes(result), returned_bytes: sizeInBytes(short), limit_bytes: limit }
  const whole = short.withMeta({ [`${NS}/truncated`]: said })
  if (isLarger(whole, limit)) throw tooLarge(limit)
  return whole
}

function sizeInBytes({ text }: Payload): number {
  return Buffer.byteLength(text)
}

function noticeOf(result: Payload, limit: number): string {
  return `[Shortened by the gateway: this result has ${sizeInBytes(result)} bytes, and at most ${limit} are let through. Ask for less, such as fewer entries or a part.]`
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    `The call was made, but its result is larger than ${limit} bytes and cannot be shortened.`,
    {
      suggestion: 'Ask for less, such as fewer entries or a part.',
      details: { limit_bytes: limit },
      isResult: true,
    },
  )
}

/** Below this many bytes what is left of a block says nothing. */
const MIN_BLOCK_BYTES = 64

/**
 * The blocks of a tool's result, or the contents of a resource, that fit into so many bytes: texts end early, and
 * what is binary gives way to a word about it.
 */
function fitBlocks(blocks: readonly unknown[], budget: number): unknown[] {
  let left = budget - 2
  const kept: unknown[] = []
  for (const block of blocks) {
    const fitting = sizeOf(block) < left ? block : smaller(block, left - 1)
    if (fitting === undefined) continue
    kept.push(fitting)
    left -= sizeOf(fitting) + 1
  }
  return kept
}

function smaller(block: unknown, budget: number): unknown {
  if (!isObject(block) || budget < MIN_BLOCK_BYTES) return undefined
  if (typeof block.text === 'string') return withText(block, block.text, budget)
  if (isObject(block.resource)) {
    const resource = smaller(block.resource, budget - sizeOf({ ...block, resource: null }))
    return resource === undefined ? undefined : { ...block, resource }
  }
  const { data, blob, ...rest } = block
  const binary = [data, blob].find((each) => typeof each === 'string')
  if (binary === undefined) return undefined
  const type = typeof rest.mimeType === 'string' ? rest.mimeType.slice(0, 100) : 'binary data'
  const word = `[${type}, ${Buffer.byteLength(binary, 'base64')} bytes, left out by the gateway: too large]`
  const text =
    blob === undefined ? { type: 'text', text: word } : { uri: rest.uri, mimeType: 'text/plain', text: word }
  return sizeOf(text) <= budget ? text : undefined
}

function withText(block: Record<string, unknown>, text: string, budget: number): unknown {
  const room = budget - sizeOf({ ...block, text: '' }) + 2
  const start = room < MIN_BLOCK_BYTES ? undefined : cut(text, room)
  return start === undefined ? undefined : { ...block, text: start }
}

/** How deep a value is shortened; what is nested deeper is kept whole or not at all. */
const MAX_DEPTH = 6
const ELLIPSIS = '…'

/** The size of a value as JSON, in bytes. */
export function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/**
 * A value with the same shape that fits into so many bytes as JSON: the ends of arrays are left out and, with
 * `strings`, those of strings. Nothing where that is not enough.
 */
export function shorten(value: unknown, budget: number, strings: boolean): unknown {
  return fit({ value, size: sizeOf(value) }, budget, { strings, depth: 0 })
}

/** Measured once, as measuring takes as long as encoding. */
interface Measured {
  readonly value: unknown
  readonly size: number
}

interface How {
  readonly strings: boolean
  readonly depth: number
}

function fit({ value, size }: Measured, budget: number, { strings, depth }: How): unknown {
  if (size <= budget) return value
  if (depth > MAX_DEPTH) return undefined
  const how = { strings, depth: depth + 1 }
  if (typeof value === 'string') return strings ? cut(value, budget) : undefined
  if (Array.isArray(value)) return fitArray(value, budget, how)
  return isObject(value) ? fitObject(value, budget, how) : undefined
}

/** The start of a text that fits into so many bytes as a JSON string; nothing where not even its mark does. */
export function cut(text: string, budget: number): string | undefined {
  if (sizeOf(text) <= budget) return text
  const room = budget - sizeOf(ELLIPSIS)
  if (room < 0) return undefined
  let length = Math.min(text.length, room)
  for (;;) {
    const part = whole(text, length)
    const excess = sizeOf(part) - 2 - room
    if (excess <= 0) return part + ELLIPSIS
    // Every character takes at least a byte, and at most six.
    length = Math.max(
      0,
      Math.min(length - Math.ceil(excess / 6), Math.floor((length * room) / (room + excess))),
    )
  }
}

/** So many characters, without half of one. */
function whole(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

function fitArray(items: readonly unknown[], budget: number, how: How): unknown[] | undefined {
  let left = budget - 2
  if (left < 0) return undefined
  const kept: unknown[] = []
  for (const value of items) {
    const size = sizeOf(value)
    if (size < left) {
      kept.push(value)
      left -= size + 1
      continue
    }
    const part = kept.length === 0 ? fit({ value, size }, left, how) : undefined
    return part === undefined ? kept : [part]
  }
  return kept
}

/** Small members are kept; the large ones share what is left. */
function fitObject(
  object: Readonly<Record<string, unknown>>,
  budget: number,
  how: How,
): Record<string, unknown> | undefined {
  const members = Object.entries(object).map(([key, value]) => ({ key, value, size: sizeOf(value) }))
  let left = budget - 1 - members.reduce((sum, { key }) => sum + sizeOf(key) + 2, 0)
  if (left < (members.length === 0 ? 1 : 0)) return undefined
  const short = new Map<string, unknown>()
  const bySize = members.toSorted((one, other) => one.size - other.size)
  for (const [index, member] of bySize.entries()) {
    const share = Math.floor(left / (bySize.length - index))
    const part = fit(member, share, how)
    if (part === undefined) return undefined
    short.set(member.key, part)
    left -= part === member.value ? member.size : sizeOf(part)
  }
  return Object.fromEntries(members.map(({ key }) => [key, short.get(key)]))
}
