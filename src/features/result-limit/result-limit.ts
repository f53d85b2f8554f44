import type { Call, Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { type JsonSchema, validator } from '../../core/schema.ts'
import { sizeSchema } from '../../core/units.ts'
import { NS } from '../../wire/extensions.ts'
import type { Feature } from '../feature.ts'
import { fitBlocks } from './blocks.ts'
import { shorten, sizeOf } from './shorten.ts'

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
  create: (settings, { entry }) => ({
    middleware: ({ upstream, method }) => {
      if (method !== 'tools/call' && method !== 'resources/read') return undefined
      const limit = settings(upstream).result
      const fit = async (call: Call, result: Payload): Promise<Outcome> => {
        call.logFields.set('truncated', true)
        if (method === 'resources/read') return { kind: 'result', result: fitContents(result, limit) }
        // Whoever can not be asked for its list any more can not be held to it.
        const tool = await Promise.resolve(entry(call)).catch(() => undefined)
        return { kind: 'result', result: fitTool(result, schemaOf(tool), limit) }
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
    // A schema nobody can use is one nobody can be held to.
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
    `The call was made, but its result is larger than ${limit} bytes and can not be shortened.`,
    {
      suggestion: 'Ask for less, such as fewer entries or a part.',
      details: { limit_bytes: limit },
      isResult: true,
    },
  )
}
