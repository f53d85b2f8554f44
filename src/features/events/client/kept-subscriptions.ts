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

/** Keeps them open from now on, until the signal is aborted. Never rejects. */
export async function keepSubscriptions(parts: ClientParts, signal: AbortSignal): Promise<void> {
  const keep = (): Promise<void> => keepAll(parts, signal)
  repeatedly(keep, KEEP_INTERVAL_MS, signal)
  await keep()
}

async function keepAll({ events, subscriptions }: ClientParts, signal: AbortSignal): Promise<void> {
  const { log } = events.deps
  try {
    for (const record of (await subscriptions.all()).filter(isOfClient)) {
      if (signal.aborted) return
      await keepOne(record, events).catch((error: unknown) => {
        const { message: reason } = asGatewayError(error)
        log.debug('events.not_kept_open', { subscription: record.id, reason })
      })
    }
  } catch (error) {
    log.debug('events.not_kept_open', { reason: asGatewayError(error).message })
  }
}

async function keepOne(record: SubscriptionRecord, parts: ClientParts['events']): Promise<void> {
  const principal = fromStoredPrincipal(record.principal)
  const call = parts.deps.invoker.onBehalf(principal, record.upstream)
  const { requests } = await findRequests(asSubscription(record), call, parts)
  await keepOpen(requests, call.principal, parts)
}
