import { type Call, type Handler, resultOf } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { hasExtension, SESSION_TOKEN, withoutExtension } from '../wire/extensions.ts'
import { method } from '../wire/methods.ts'

const MAX_PAGES = 1000
/** How many entries of one server are taken, from all pages together. */
const MAX_LIST_ENTRIES = 2000

/** All entries of a list; none where the server has no such lists. */
export async function listAllPages(handle: Handler, call: Call, list: string): Promise<Payload[]> {
  return (await walkIfThere(handle, call, list)) ?? []
}

/**
 * All entries of a list, page by page, for the caller of a call that may be about something else; nothing where
 * the server has no such lists.
 */
export async function walkIfThere(handle: Handler, call: Call, list: string): Promise<Payload[] | undefined> {
  const key = method(list).list ?? ''
  const { upstream } = call.target
  const target = { method: list, ...(upstream !== undefined && { upstream }) }
  // What the call itself was asked is not for its list.
  const { inputResponses: _answers, ...rest } = call
  const entries: Payload[] = []
  const seen = new Set<unknown>()
  let cursor: unknown
  for (let page = 0; page < MAX_PAGES && entries.length < MAX_LIST_ENTRIES && !seen.has(cursor); page++) {
    seen.add(cursor)
    const params = Payload.of({ ...(cursor !== undefined && { cursor }) }).withMeta(sentMeta(call))
    const listing = { ...rest, method: list, params, target, state: {} }
    const outcome = await handle(listing).catch(absentList)
    if (!outcome) return undefined
    const result = resultOf(outcome)
    entries.push(...listed(result, key))
    cursor = result.fields.nextCursor
    if (typeof cursor !== 'string' || cursor === '') break
  }
  return entries
}

/** What the client sent along, without what is for the gateway alone. */
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
