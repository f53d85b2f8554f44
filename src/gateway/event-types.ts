/** The types of events that clients of the gateway have, for `gatehouse events list`. */
import { type Handler, resultOf } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { ownCall } from '../protocol/lift.ts'
import { latestModern } from '../protocol/revisions.ts'

/** How many pages are read at most. */
const MAX_PAGES = 100

/**
 * The entries of `events/list` for a client of 2026-07-28 with every right, at the address of a server, or of all
 * servers; undefined if there is no such method. Only callers that authenticate have webhooks.
 * @throws what listing throws
 */
export async function listEventTypes(
  upstream: string | undefined,
  { handle, isAuthenticated }: { readonly handle: Handler; readonly isAuthenticated: boolean },
): Promise<readonly Payload[] | undefined> {
  const method = 'events/list'
  const target = { method, ...(upstream !== undefined && { upstream }) }
  const caller = isAuthenticated ? { principal: { id: 'command line' } } : {}
  const client = { ...ownCall().client, era: 'modern', revision: latestModern.name } as const
  const entries: Payload[] = []
  let cursor: unknown
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = Payload.of({ ...(cursor !== undefined && { cursor }) })
    const outcome = await handle(ownCall({ method, target, params, client, ...caller })).catch(
      (error: unknown) => {
        if (asGatewayError(error).code === 'UNSUPPORTED_OPERATION') return undefined
        throw error
      },
    )
    if (!outcome) return undefined
    const result = resultOf(outcome)
    entries.push(...(result.at('events')?.items ?? []))
    cursor = result.fields.nextCursor ?? undefined
    if (cursor === undefined) break
  }
  return entries
}
