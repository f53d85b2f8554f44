/** Reads all pages of a server's list, within bounds. */
import { type Call, type Handler, resultOf } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { world } from '../core/world.ts'
import { hasExtension, SESSION_TOKEN, withoutExtension } from './meta-keys.ts'
import { method } from './methods.ts'
import { keyOfEntries } from './server-shapes.ts'

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
