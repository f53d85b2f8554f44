/** Shortens results above the size limit: texts, then arrays and objects, so that they stay valid. */
import type { Call, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { cut, isLongerThan, sizeOf } from '../core/json/shorten.ts'
import { Payload } from '../core/payload.ts'
import { type JsonSchema, shortenedFor } from '../core/schema/schema.ts'
import { TRUNCATED_KEY } from '../protocol/meta-keys.ts'
import { type Settings as GatewaySettings } from '../core/settings.ts'
import { type Feature, settingsFor } from './feature.ts'
import { type ResultLimitSettings, resultLimitSchema } from './settings/upstream.ts'

/** Limits the size of results. Larger ones are visibly shortened and still match their output schema. */
export const resultLimit: Feature<ResultLimitSettings> = {
  ...resultLimitSchema,
  create: (settings) => ({
    calls: {
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
            outcome.kind === 'result' && isLongerThan(outcome.result.text, limit)
              ? fit(call, outcome.result)
              : outcome,
          )
      },
      dryRun: 'absent',
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
  const structured = isTooLarge ? shortenedFor(structuredContent, schema, available) : structuredContent
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

/** @throws PAYLOAD_TOO_LARGE if it is still too large */
function withNotice(result: Payload, fields: Readonly<Record<string, unknown>>, limit: number): Payload {
  const short = Payload.of(result.with(fields).value)
  const sizes = {
    original_bytes: sizeInBytes(result),
    returned_bytes: sizeInBytes(short),
    limit_bytes: limit,
  }
  const complete = short.withMeta({ [TRUNCATED_KEY]: sizes })
  if (isLongerThan(complete.text, limit)) throw tooLarge(limit)
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
