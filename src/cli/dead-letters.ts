/**
 * Dead letters for `gatehouse events dead-letters` and `redeliver`: events that a webhook receiver refused or never
 * accepted. A redelivery is requested in the store; a running gateway makes it.
 */
import { isObject } from '../core/json/json.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { DeadLetter } from '../records/dead-letters.ts'
import type { SubscriptionRecord } from '../records/event-subscriptions.ts'
import { tableLines, timeText } from './table.ts'

/** A dead letter, with its subscription unless that has ended. */
export interface ListedLetter {
  readonly letter: DeadLetter
  readonly subscription: SubscriptionRecord | undefined
}

/** Dead letters with their subscriptions. */
export function withSubscriptions(
  letters: readonly DeadLetter[],
  subscriptions: readonly SubscriptionRecord[],
): readonly ListedLetter[] {
  const byId = new Map(subscriptions.map((record) => [record.id, record]))
  return letters.map((letter) => ({ letter, subscription: byId.get(letter.subscription) }))
}

/** The id of an event. */
export function eventIdOf({ event }: DeadLetter): string {
  return String(event.id)
}

// Dead letters as text and as JSON. Text of servers and callers is escaped.

/** Dead letters as a table, the oldest first. */
export function letterLines(letters: readonly ListedLetter[]): string[] {
  if (letters.length === 0) return ['No dead letters.']
  const rows = letters.map(({ letter, subscription }) => [
    timeText(letter.at),
    letter.subscription,
    eventIdOf(letter),
    letter.upstream ?? 'all',
    letter.name,
    letter.failure,
    subscription?.principal.id ?? 'subscription ended',
  ])
  return tableLines([['given up', 'subscription', 'event', 'server', 'type', 'failure', 'caller'], ...rows])
}

/** One dead letter as JSON. */
export function letterView({ letter, subscription }: ListedLetter): Readonly<Record<string, unknown>> {
  const { id, upstream, name, event, failure, at } = letter
  return {
    id,
    subscription: letter.subscription,
    is_ended: subscription === undefined,
    ...(subscription && { caller: subscription.principal.id }),
    server: upstream ?? null,
    type: name,
    event: {
      id: eventIdOf(letter),
      ...(typeof event.at === 'number' && { at: isoTime(event.at) }),
      data: isObject(event.data) ? event.data : {},
    },
    failure,
    given_up_at: isoTime(at),
  }
}
