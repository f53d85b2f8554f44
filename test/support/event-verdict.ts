import type { Published, Subscriber } from './event-client.ts'

/** How many events a subscriber has to get, got, and got more than once. */
export interface Tally {
  readonly expected: number
  readonly arrived: number
  readonly repeated: number
  readonly lost: number
}

/** What is wrong with what a subscriber got of what was published; nothing where all is well. */
export function faultsOfSubscriber(
  subscriber: Subscriber,
  published: readonly Published[],
  isRequested: (key: string) => boolean,
): readonly string[] {
  const { kind, filter, faults, arrived } = subscriber
  const ids = new Map<string, Set<string>>()
  for (const { key, eventId } of arrived) ids.set(key, (ids.get(key) ?? new Set()).add(eventId))
  const wanted = wantedOf(published, isRequested)
  const known = new Set(published.flatMap(({ keys }) => keys).filter(isRequested))
  const lost = wanted.filter((key) => !ids.has(key))
  const foreign = [...ids.keys()].filter((key) => !known.has(key))
  const doubled = [...ids].filter(([, each]) => each.size > 1).map(([key]) => key)
  const found = [
    ...new Set(faults),
    ...some(lost, 'were lost'),
    ...some(foreign, 'were not requested'),
    ...some(doubled, 'have several ids'),
    ...(kind === 'webhook' ? [] : some(outOfOrder(subscriber, published), 'arrived out of order')),
  ]
  return found.map((fault) => `${kind} ${JSON.stringify(filter.arguments)}: ${fault}`)
}

/** The numbers of a subscriber. */
export function tallyOf(
  { arrived }: Subscriber,
  published: readonly Published[],
  isRequested: (key: string) => boolean,
): Tally {
  const keys = new Set(arrived.map(({ key }) => key))
  const wanted = wantedOf(published, isRequested)
  const lost = wanted.filter((key) => !keys.has(key)).length
  return { expected: wanted.length, arrived: keys.size, repeated: arrived.length - keys.size, lost }
}

function wantedOf(published: readonly Published[], isRequested: (key: string) => boolean): readonly string[] {
  return published.flatMap(({ confirmed }) => [...confirmed].filter(isRequested))
}

/**
 * The events that arrived before an earlier one of their publisher, as they arrived first. A call without a response may
 * still have been under way when the next one was made, so its event has no place in the order.
 */
function outOfOrder({ arrived }: Subscriber, published: readonly Published[]): readonly string[] {
  const places = new Map<string, readonly [publisher: number, place: number]>()
  for (const [publisher, { keys, confirmed }] of published.entries())
    for (const [place, key] of keys.entries()) if (confirmed.has(key)) places.set(key, [publisher, place])
  const last = new Map<number, number>()
  const seen = new Set<string>()
  return arrived.flatMap(({ key }) => {
    const [publisher, place] = places.get(key) ?? []
    if (publisher === undefined || place === undefined || seen.has(key)) return []
    seen.add(key)
    const isBehind = place < (last.get(publisher) ?? -1)
    last.set(publisher, Math.max(place, last.get(publisher) ?? -1))
    return isBehind ? [key] : []
  })
}

function some(keys: readonly string[], what: string): readonly string[] {
  if (keys.length === 0) return []
  return [`${keys.length} events ${what}: ${keys.slice(0, 5).join(', ')}`]
}
