import type { Call, Handler, Notification, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { stream } from '../../../../src/features/stream/stream.ts'
import { chain, on } from '../../../support/chain.ts'
import type { ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'

export const STREAM = 'dev.gatehouse/stream'
export const CHUNK = 'dev.gatehouse/chunk'

/** A tool that reads, with a cursor. */
export const listing: Descriptor = tool({ cursor: { type: 'string' }, query: { type: 'string' } })

export function tool(properties: Json, given: Partial<Descriptor> = {}): Descriptor {
  return {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object', properties } },
    classification: { op: 'read', risk: 'safe', idempotent: true, evidence: [] },
    ...given,
  }
}

/** What a page is: its document, or an outcome of its own. */
export type PageOf = (cursor: string | undefined, call: Call) => Json | Promise<Json> | Outcome

/** A server whose pages are structured content with the same as text. */
export function paged(pageOf: PageOf) {
  const calls: Call[] = []
  const server: Handler = async (call) => {
    calls.push(call)
    const given = call.params.fields['arguments']
    const cursor = isObject(given) && given['cursor'] !== undefined ? String(given['cursor']) : undefined
    const page = await pageOf(cursor, call)
    if (typeof page['kind'] === 'string') return page as unknown as Outcome
    return { kind: 'result', result: Payload.text(JSON.stringify(resultOf(page))) }
  }
  return { server, calls, cursors: () => calls.map(({ params }) => cursorIn(params)) }
}

function cursorIn(params: Payload): unknown {
  const given = params.fields['arguments']
  return isObject(given) ? given['cursor'] : undefined
}

function resultOf(page: Json): Json {
  return { content: [{ type: 'text', text: JSON.stringify(page) }], structuredContent: page }
}

/** Pages `0` to `count - 1` of two items each; the last one has no cursor. */
export function pagesTo(count: number): PageOf {
  return (cursor) => {
    const page = Number(cursor ?? 0)
    const items = [{ id: page * 2 }, { id: page * 2 + 1 }]
    return { items, nextCursor: page + 1 < count ? String(page + 1) : null }
  }
}

interface Setup {
  readonly server: Handler
  readonly entry?: Descriptor
  readonly settings?: Partial<{ collect: boolean; max_pages: number }>
  readonly stubs?: ServiceStubs
}

/** The feature in front of a server; its seal is the same in all. */
export function collecting({ server, entry = listing, settings = {}, stubs = {} }: Setup) {
  const make = chain([on(stream, { collect: false, max_pages: 50, ...settings })], server, {
    entry: () => entry,
    seal,
    ...stubs,
  })
  return (meta: Json = { [STREAM]: true }, given: Partial<Call> = {}, args: Json = {}) =>
    make({ meta, ...given }, { arguments: args, _meta: meta })
}

export const seal = createSeal(() => Date.now())

export interface Collected {
  readonly pages: number
  readonly items: number
  readonly complete: boolean
  readonly stopped_by?: string
  readonly checkpoint_token?: string
  readonly failed_page?: number
  readonly error?: Json
}

/** What a result says of its collection. */
export function about(outcome: Outcome): Collected {
  if (outcome.kind !== 'result') throw new TypeError(`it is no result: ${outcome.kind}`)
  const found = outcome.result.meta(STREAM)
  if (!isObject(found)) throw new TypeError('it says nothing of a collection')
  return JSON.parse(JSON.stringify(found)) as Collected
}

/** The ids of the items in a result. */
export function idsIn(outcome: Outcome): unknown[] {
  if (outcome.kind !== 'result') throw new TypeError(`it is no result: ${outcome.kind}`)
  const { structuredContent } = JSON.parse(outcome.result.text) as {
    structuredContent: { items: { id: number }[] }
  }
  return structuredContent.items.map(({ id }) => id)
}

export function range(end: number, start = 0): number[] {
  return Array.from({ length: end - start }, (_each, index) => start + index)
}

/** A caller that keeps the chunks it gets. */
export function listener() {
  const notes: Notification[] = []
  return {
    notes,
    emit: (note: Notification): void => void notes.push(note),
    chunks: () => notes.flatMap(({ params }) => (params?.meta(CHUNK) === undefined ? [] : [chunkIn(params)])),
  }
}

export interface Chunk {
  readonly type: string
  readonly sequence: number
  readonly data?: { readonly items: readonly Json[] }
  readonly is_final: boolean
  readonly checkpoint_token?: string
}

function chunkIn(params: Payload): Chunk {
  const { _meta: meta } = JSON.parse(params.text) as { _meta: Record<string, Chunk> }
  const chunk = meta[CHUNK]
  if (!chunk) throw new TypeError('there is no chunk')
  return chunk
}

/** What a call is refused with. */
export async function refusalOf(outcome: Promise<Outcome>): Promise<GatewayError> {
  const thrown: unknown = await outcome.then(
    ({ kind }) => new TypeError(`it was not refused: ${kind}`),
    (error: unknown) => error,
  )
  if (thrown instanceof GatewayError) return thrown
  throw thrown
}
