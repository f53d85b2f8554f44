/**
 * Pagination of lists: all pages of a listing come from the same list. Also reads all pages of a server's list, within
 * bounds.
 */
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { type Call, type Handler, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError, asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { world } from '../core/world.ts'
import { hasExtension, SESSION_TOKEN, withoutExtension } from '../protocol/meta-keys.ts'
import { method } from '../protocol/methods.ts'
import { keyOfEntries } from '../protocol/server-shapes.ts'

/** The maximum size in bytes of cached lists, from which later pages of a listing are served. */
const MAX_CACHE_BYTES = 16 * 1024 * 1024
const CURSOR_PREFIX = 'gatehouse.'

/**
 * A position in a list that the gateway paginates: the server's page, the list, and the number of entries before it.
 */
interface Place {
  readonly cursor: string | undefined
  readonly digest: string
  readonly start: number
}

/** Splits lists that are longer than a page; a listing continues with the list it began with. */
export function withPages(next: Handler, size: number): Handler {
  const kept = new LRUCache<string, Payload>({
    maxSize: MAX_CACHE_BYTES,
    sizeCalculation: ({ text }) => text.length + 1,
  })

  const keyOf = ({ principal, target, method: name }: Call, digest: string): string =>
    `${principal.id} ${target.upstream} ${name} ${digest}`

  /** @throws INVALID_INPUT if the list has changed since */
  const listAt = async (call: Call, { cursor, digest }: Place): Promise<Payload> => {
    const known = kept.get(keyOf(call, digest))
    if (known) return known
    const result = resultOf(await next({ ...call, params: call.params.with({ cursor }) }))
    if (digestOf(result) === digest) return result
    throw new GatewayError(
      'INVALID_INPUT',
      'Invalid params: the list has changed, so this cursor is no longer valid.',
      {
        suggestion: 'Request the list again without a cursor.',
      },
    )
  }

  const page = (list: string, fullResult: Payload, { start, ...place }: Place): Payload => {
    const entries = fullResult.at(list)?.items ?? []
    const end = start + size
    const following =
      end < entries.length ? write({ ...place, start: end }) : (fullResult.fields.nextCursor ?? undefined)
    return fullResult.with({ [list]: Payload.list(entries.slice(start, end)), nextCursor: following })
  }

  const paged = async (call: Call, list: string): Promise<Outcome> => {
    const { cursor } = call.params.fields
    const place = read(cursor)
    if (place) return { kind: 'result', result: page(list, await listAt(call, place), place) }
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    const entries = outcome.result.fields[list]
    if (!Array.isArray(entries) || entries.length <= size) return outcome
    const digest = digestOf(outcome.result)
    kept.set(keyOf(call, digest), outcome.result)
    const first = { cursor: typeof cursor === 'string' ? cursor : undefined, digest, start: 0 }
    return { kind: 'result', result: page(list, outcome.result, first) }
  }

  return (call) => {
    const { list } = method(call.method)
    return list === undefined ? next(call) : paged(call, list)
  }
}

function digestOf({ text }: Payload): string {
  return createHash('sha256').update(text).digest('base64url').slice(0, 22)
}

function write({ cursor = '', digest, start }: Place): string {
  return `${CURSOR_PREFIX}${start}.${digest}.${Buffer.from(cursor).toString('base64url')}`
}

function read(cursor: unknown): Place | undefined {
  if (typeof cursor !== 'string' || !cursor.startsWith(CURSOR_PREFIX)) return undefined
  const [, start = '', digest = '', before = ''] =
    /^gatehouse\.(\d{1,9})\.([\w-]{22})\.([\w-]*)$/.exec(cursor) ?? []
  if (start === '') throw new GatewayError('INVALID_INPUT', 'Invalid params: this cursor is not valid.')
  const text = Buffer.from(before, 'base64url').toString()
  return { cursor: text === '' ? undefined : text, digest, start: Number(start) }
}

const MAX_PAGES = 1000
/** The maximum number of entries of one server, over all pages. */
const MAX_LIST_ENTRIES = 2000

/** How the pages of a list are read. */
interface Listing {
  /** When no further page is read, on the monotonic clock; absent if only their number is limited. */
  readonly until?: number
  /** Called with why the list is not complete, or undefined if it is. */
  onCut?(problem: string | undefined): void
}

/** All entries of a list; empty if the server does not support it. */
export async function listAllPages(handle: Handler, call: Call, list: string): Promise<Payload[]> {
  return (await walkIfThere(handle, call, list)) ?? []
}

/**
 * All entries of a list, page by page, for the caller of a call that may have another method; undefined if the server
 * does not support the list.
 */
export async function walkIfThere(
  handle: Handler,
  call: Call,
  list: string,
  { until = Number.POSITIVE_INFINITY, onCut }: Listing = {},
): Promise<Payload[] | undefined> {
  const key = method(list).list ?? ''
  const { upstream } = call.target
  const target = { method: list, ...(upstream !== undefined && { upstream }) }
  // Input responses and their request state belong to the call itself, not to the list.
  const { inputResponses: _answers, ...rest } = call
  const id = keyOfEntries(key)
  const entries = new Map<unknown, Payload>()
  const seen = new Set<unknown>()
  let cursor: unknown
  for (let page = 0; ; page++) {
    const problem = problemOf({ page, entries: entries.size, isRepeated: seen.has(cursor), until })
    if (problem !== undefined) {
      onCut?.(problem)
      break
    }
    seen.add(cursor)
    const params = Payload.of({ ...(cursor !== undefined && { cursor }) }).withMeta(sentMeta(call))
    const listing: Call = { ...rest, method: list, params, target, requestState: {} }
    const outcome = await handle(listing).catch(absentList)
    if (!outcome) return undefined
    const result = resultOf(outcome)
    // A page may repeat entries of another one.
    for (const entry of listed(result, key)) {
      const name = entry.fields[id] ?? entry
      if (!entries.has(name)) entries.set(name, entry)
    }
    cursor = result.fields.nextCursor
    if (typeof cursor === 'string' && cursor !== '') continue
    onCut?.(undefined)
    break
  }
  return [...entries.values()]
}

/** Why no further page is read; undefined if it is. */
function problemOf({
  page,
  entries,
  isRepeated,
  until,
}: {
  readonly page: number
  readonly entries: number
  readonly isRepeated: boolean
  readonly until: number
}): string | undefined {
  if (isRepeated) return 'a cursor leads to itself again, so the list ends there'
  if (page >= MAX_PAGES || entries >= MAX_LIST_ENTRIES)
    return `there are more than ${MAX_PAGES} pages or ${MAX_LIST_ENTRIES} entries, so the rest is left out`
  const isOver = page > 0 && world.monotonic() > until
  return isOver ? `they take too long, so those after the first ${page} are left out` : undefined
}

/** The client's `_meta`, without members for the gateway alone. */
function sentMeta(call: Call): Readonly<Record<string, unknown>> {
  return hasExtension(call, SESSION_TOKEN) ? withoutExtension(call, SESSION_TOKEN).meta : call.meta
}

function absentList(error: unknown): undefined {
  if (asGatewayError(error).rpc === -32601) return undefined
  throw error
}

function listed(result: Payload, key: string): Payload[] {
  const list = result.at(key)
  return list && Array.isArray(list.value) ? list.items : []
}
