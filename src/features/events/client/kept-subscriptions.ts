/**
 * Keeps the sources of all subscriptions of `event/subscribe` open until they end, whether their events are sent to a
 * stream or requested now and then, and also after a restart. Every gateway with the store does so: of those, one has
 * the lease of a source.
 */
import { asGatewayError } from '../../../core/error.ts'
import type { SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import { fromStoredPrincipal } from '../../../records/principal.ts'
import { KEEP_INTERVAL_MS, keepOpen, repeatedly } from '../keeping.ts'
import type { ClientParts } from './delivery.ts'
import { findRequests } from './filter.ts'
import { asSubscription, isOfClient } from './subscription.ts'

/** How many subscriptions are looked at together: one whose server takes long to list its tools holds up few others. */
const BATCH_SIZE = 50

/** Keeps them open from now on, until the signal is aborted. Never rejects. */
export async function keepSubscriptions(parts: ClientParts, signal: AbortSignal): Promise<void> {
  const keep = (): Promise<void> => keepAll(parts, signal)
  repeatedly(keep, KEEP_INTERVAL_MS, signal)
  await keep()
}

async function keepAll({ events, subscriptions }: ClientParts, signal: AbortSignal): Promise<void> {
  const failed = (error: unknown, subscription?: string): void => {
    events.deps.log.debug('events.not_kept_open', { subscription, reason: asGatewayError(error).message })
  }
  const keepOne = async (record: SubscriptionRecord): Promise<void> => {
    const { invoker } = events.deps
    const principal = invoker.present(fromStoredPrincipal(record.principal))
    const call = invoker.onBehalf(principal, record.upstream)
    const { requests } = await findRequests(asSubscription(record), call, events)
    // A source can take a while to be ready, which nobody waits for here.
    keepOpen(requests, call.principal, events).catch((error: unknown) => failed(error, record.id))
  }
  try {
    const records = (await subscriptions.all()).filter(isOfClient)
    while (records.length > 0 && !signal.aborted) {
      const batch = records.splice(0, BATCH_SIZE)
      await Promise.all(batch.map((each) => keepOne(each).catch((error: unknown) => failed(error, each.id))))
    }
  } catch (error) {
    failed(error)
  }
}
