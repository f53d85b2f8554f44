/** Shortens results above the size limit: texts, then arrays and objects, so that they stay valid. */
import type { Call, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { type JsonSchema, validator } from '../core/schema/schema.ts'
import { sizeSchema } from '../core/time/units.ts'
import { TRUNCATED_KEY } from '../protocol/meta-keys.ts'
import { type Settings as GatewaySettings } from '../core/settings.ts'
import { type Feature, settingsFor } from './feature.ts'

interface Settings {
  /** In bytes. */
  readonly result: number
}

/** Limits the size of results. Larger ones are visibly shortened and still match their output schema. */
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
          'The maximum size of a result of a tool or resource. Larger results are shortened, with a notice; if they would no longer match the output schema, they are refused.',
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

/** The largest result of a server, in bytes; infinite if nothing limits it. */
export function resultLimitOf(settings: GatewaySettings, upstream: string): number {
  const own = settingsFor(resultLimit, settings, upstream)
  return own === false ? Number.POSITIVE_INFINITY : own.result
}

/** The maximum size of the notice in a shortened result, in bytes. */
const MAX_NOTICE_BYTES = 1024

// A character takes at most three bytes, so that nearly every result need not be measured.
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
  const fitted = fitBlocks(contents, limit - MAX_NOTICE_BYTES - restSize(result, { contents: [] }))
  return withNotice(result, { contents: fitted }, limit)
}

/** @throws PAYLOAD_TOO_LARGE if the shortened result would not match the schema */
function fitTool(result: Payload, schema: JsonSchema | undefined, limit: number): Payload {
  const { content, structuredContent } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const budget = limit - MAX_NOTICE_BYTES - restSize(result, { content: [], structuredContent: undefined })
  const available = Math.max(Math.floor(budget / 2), budget - sizeOf(blocks))
  const isTooLarge = structuredContent !== undefined && sizeOf(structuredContent) > available
  const structured = isTooLarge ? shortened(structuredContent, schema, available) : structuredContent
  if (isTooLarge && structured === undefined && schema) throw tooLarge(limit)
  const remaining = budget - (structured === undefined ? 0 : sizeOf(structured))
  const notice = { type: 'text', text: noticeOf(result, limit) }
  return withNotice(
    result,
    {
      content: [...fitBlocks(blocks, remaining), notice],
      ...(isTooLarge && { structuredContent: structured }),
    },
    limit,
  )
}

/** The size of the rest of a result. */
function restSize(result: Payload, without: Readonly<Record<string, unknown>>): number {
  return sizeOf({ ...result.fields, ...without })
}

/** The structured content with arrays shortened or, if that is not enough, texts too. */
function shortened(value: unknown, schema: JsonSchema | undefined, budget: number): unknown {
  for (const strings of [false, true]) {
    const short = shorten(value, budget, strings)
    if (short !== undefined && (!schema || matchesSchema(short, schema))) return short
  }
  return undefined
}

function matchesSchema(value: unknown, schema: JsonSchema): boolean {
  try {
    return validator(schema)(value).length === 0
  } catch {
    // An unusable schema cannot be enforced.
    return true
  }
}

/** @throws PAYLOAD_TOO_LARGE if it is still too large */
function withNotice(result: Payload, fields: Readonly<Record<string, unknown>>, limit: number): Payload {
  const short = Payload.of(result.with(fields).value)
  const sizes = {
    original_bytes: sizeInBytes(result),
    returned_bytes: sizeInBytes(short),
    limit_bytes: limit,
  }
  const complete = short.withMeta({ [TRUNCATED_KEY]: sizes })
  if (isLarger(complete, limit)) throw tooLarge(limit)
  return complete
}

function sizeInBytes({ text }: Payload): number {
  return Buffer.byteLength(text)
}

function noticeOf(result: Payload, limit: number): string {
  return `[Shortened by the gateway: this result has ${sizeInBytes(result)} bytes, the limit is ${limit}. Request less, such as fewer entries or a part.]`
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    `The call was made, but its result is larger than ${limit} bytes and cannot be shortened.`,
    {
      suggestion: 'Request less, such as fewer entries or a part.',
      details: { limit_bytes: limit },
      isResult: true,
    },
  )
}

/** The minimum size of a shortened block, in bytes. */
const MIN_BLOCK_BYTES = 64

/**
 * The blocks of a tool's result, or the contents of a resource, that fit into a budget in bytes: texts are cut, and binary
 * data is replaced by a notice.
 */
function fitBlocks(blocks: readonly unknown[], budget: number): unknown[] {
  let remaining = budget - 2
  const kept: unknown[] = []
  for (const block of blocks) {
    const fitting = sizeOf(block) < remaining ? block : shrinkBlock(block, remaining - 1)
    if (fitting === undefined) continue
    kept.push(fitting)
    remaining -= sizeOf(fitting) + 1
  }
  return kept
}

function shrinkBlock(block: unknown, budget: number): unknown {
  if (!isObject(block) || budget < MIN_BLOCK_BYTES) return undefined
  if (typeof block.text === 'string') return withText(block, block.text, budget)
  if (isObject(block.resource)) {
    const resource = shrinkBlock(block.resource, budget - sizeOf({ ...block, resource: null }))
    return resource === undefined ? undefined : { ...block, resource }
  }
  const { data, blob, ...rest } = block
  const binary = [data, blob].find((each) => typeof each === 'string')
  if (binary === undefined) return undefined
  const type = typeof rest.mimeType === 'string' ? rest.mimeType.slice(0, 100) : 'binary data'
  const notice = `[${type}, ${Buffer.byteLength(binary, 'base64')} bytes, omitted by the gateway: too large]`
  const text =
    blob === undefined
      ? { type: 'text', text: notice }
      : { uri: rest.uri, mimeType: 'text/plain', text: notice }
  return sizeOf(text) <= budget ? text : undefined
}

function withText(block: Record<string, unknown>, text: string, budget: number): unknown {
  const available = budget - sizeOf({ ...block, text: '' }) + 2
  const start = available < MIN_BLOCK_BYTES ? undefined : cut(text, available)
  return start === undefined ? undefined : { ...block, text: start }
}

/** How deep a value is shortened; deeper values are kept completely or not at all. */
const MAX_DEPTH = 6
const ELLIPSIS = '…'

/** The size of a value as JSON, in bytes. */
export function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null')
}

/**
 * A value of the same shape that fits into a budget in bytes as JSON: the ends of arrays are removed and, with `strings`,
 * those of strings. Undefined if that is not enough.
 */
export function shorten(value: unknown, budget: number, strings: boolean): unknown {
  return fit({ value, size: sizeOf(value) }, budget, { strings, depth: 0 })
}

/** Measured once, because measuring costs as much as encoding. */
interface Measured {
  readonly value: unknown
  readonly size: number
}

interface FitOptions {
  readonly strings: boolean
  readonly depth: number
}

function fit({ value, size }: Measured, budget: number, { strings, depth }: FitOptions): unknown {
  if (size <= budget) return value
  if (depth > MAX_DEPTH) return undefined
  const options = { strings, depth: depth + 1 }
  if (typeof value === 'string') return strings ? cut(value, budget) : undefined
  if (Array.isArray(value)) return fitArray(value, budget, options)
  return isObject(value) ? fitObject(value, budget, options) : undefined
}

/** The start of a text that fits into a budget in bytes as a JSON string; undefined if not even the ellipsis does. */
export function cut(text: string, budget: number): string | undefined {
  if (sizeOf(text) <= budget) return text
  const available = budget - sizeOf(ELLIPSIS)
  if (available < 0) return undefined
  let length = Math.min(text.length, available)
  for (;;) {
    const part = prefixOf(text, length)
    const excess = sizeOf(part) - 2 - available
    if (excess <= 0) return part + ELLIPSIS
    // Every character takes one to six bytes.
    length = Math.max(
      0,
      Math.min(length - Math.ceil(excess / 6), Math.floor((length * available) / (available + excess))),
    )
  }
}

/** A prefix of a text that does not split a surrogate pair. */
function prefixOf(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? length - 1 : length)
}

function fitArray(items: readonly unknown[], budget: number, options: FitOptions): unknown[] | undefined {
  let remaining = budget - 2
  if (remaining < 0) return undefined
  const kept: unknown[] = []
  for (const value of items) {
    const size = sizeOf(value)
    if (size < remaining) {
      kept.push(value)
      remaining -= size + 1
      continue
    }
    const part = kept.length === 0 ? fit({ value, size }, remaining, options) : undefined
    return part === undefined ? kept : [part]
  }
  return kept
}

/** Small members are kept; the large ones share the remaining budget. */
function fitObject(
  object: Readonly<Record<string, unknown>>,
  budget: number,
  options: FitOptions,
): Record<string, unknown> | undefined {
  const members = Object.entries(object).map(([key, value]) => ({ key, value, size: sizeOf(value) }))
  let remaining = budget - 1 - members.reduce((sum, { key }) => sum + sizeOf(key) + 2, 0)
  if (remaining < (members.length === 0 ? 1 : 0)) return undefined
  const short = new Map<string, unknown>()
  const bySize = members.toSorted((one, other) => one.size - other.size)
  for (const [index, member] of bySize.entries()) {
    const share = Math.floor(remaining / (bySize.length - index))
    const part = fit(member, share, options)
    if (part === undefined) return undefined
    short.set(member.key, part)
    remaining -= part === member.value ? member.size : sizeOf(part)
  }
  return Object.fromEntries(members.map(({ key }) => [key, short.get(key)]))
}
