/**
 * Accepts what is sent again until it is accepted, such as a webhook, once for all gateways with one store.
 *
 * Invariant: what was accepted is marked for a day, so that a replay is dropped also after a restart. A gateway that ends
 * before it can mark it leaves a mark that expires soon: what is sent again must lead to the same event.
 */
import { GatewayError } from '../../../core/error.ts'
import type { Store } from '../../../store/store.ts'

/** How long it is marked that something was accepted, and that it is being stored, in milliseconds. */
const ACCEPTED_TTL_MS = 24 * 60 * 60_000
const STORING_TTL_MS = 30_000
const ACCEPTED = 'accepted'
const STORING = 'storing'

/** Stores something, unless it was accepted before. @throws SERVER_UNAVAILABLE if another gateway is storing it */
export async function acceptOnce(store: Store, digest: string, accept: () => Promise<void>): Promise<void> {
  const key = `hook:${digest}`
  const marked = await store.setIfAbsent(key, STORING, STORING_TTL_MS)
  if (marked === ACCEPTED) return
  if (marked !== undefined)
    throw new GatewayError('SERVER_UNAVAILABLE', 'Another gateway is storing this webhook.')
  try {
    await accept()
    await store.put(key, ACCEPTED, ACCEPTED_TTL_MS)
  } catch (error) {
    await store.delete(key).catch(() => false)
    throw error
  }
}
