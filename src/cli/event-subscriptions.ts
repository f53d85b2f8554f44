/**
 * `gatehouse events subscriptions`, `subscriptions drop`, `dead-letters` and `redeliver`: who subscribes to what, where it is
 * delivered, and how far; and the events that a webhook receiver refused or never accepted.
 *
 * Invariant: neither secrets, nor arguments, nor the query of a URL are printed, which may contain a secret.
 */
import { asObject } from '../core/json/json.ts'
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import { isoTime } from '../core/time/waiting.ts'
import { type DeadLetter, DeadLetters } from '../records/dead-letters.ts'
import { isBefore } from '../durable/log.ts'
import { EventSubscriptions, NEVER, type SubscriptionRecord } from '../records/event-subscriptions.ts'
import { asEvent } from '../records/logged-events.ts'
import type { Store } from '../store/store.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, userName, withAudit, withStore } from './config-file.ts'
import { logsOf, type ReadLog } from './event-tail.ts'
import type { Io } from './io.ts'
import { countText } from '../core/text/words.ts'
import { type Output, quoted, tableLines, timeText } from './output.ts'
import { idBeginning } from './short-ids.ts'

type Commands = typeof commands

/** The shortest accepted prefix of the id of a subscription. */
const MIN_ID_LENGTH = 10

/** `gatehouse events subscriptions`: the subscriptions of all callers. */
export function list(given: Given<Commands['events subscriptions']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const all = await subscriptionsOf(given.principal, store)
    // A server that was removed from the configuration can have subscriptions.
    const logs = logsOf(store, undefined, [...all.map(({ upstream }) => upstream), ...settings.servers])
    const listed = await withWaiting(all, { logs, hasAllLogs: given.store === undefined })
    return {
      json: { subscriptions: listed.map(subscriptionView) },
      text: subscriptionLines(listed).join('\n'),
    }
  })
}

/** `gatehouse events subscriptions drop ID`. */
export function drop(given: Given<Commands['events subscriptions drop']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const record = subscriptionOf(await subscriptionsOf(given.principal, store), given.id)
    const { id, principal } = record
    await withAudit(settings, io, async (audit) => {
      // It can end between the two.
      if (!(await new EventSubscriptions(store).unsubscribe(principal, id))) throw unknownSubscription(id)
      audit?.ordered({ order: 'unsubscribe', by: userName(), subscription: id, caller: principal.id })
    })
    return { json: { dropped: id }, text: droppedLine(record) }
  })
}

/** The subscriptions of a caller, or of all, the oldest first. */
async function subscriptionsOf(
  principal: string | undefined,
  store: Store,
): Promise<readonly SubscriptionRecord[]> {
  return (await new EventSubscriptions(store).all())
    .filter((record) => principal === undefined || record.principal.id === principal)
    .toSorted((one, other) => one.createdAt - other.createdAt)
}

/** `gatehouse events dead-letters [SUBSCRIPTION]`: the events that were given up. */
export function deadLetters(given: Given<Commands['events dead-letters']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const listed = await lettersOf(given.subscription, store)
    return { json: { dead_letters: listed.map(letterView) }, text: letterLines(listed).join('\n') }
  })
}

/**
 * `gatehouse events redeliver SUBSCRIPTION [EVENT] | --all`: has events delivered again that were given up. A redelivery is
 * requested in the store; a running gateway makes it.
 */
export async function redeliver(
  { subscription: id, event, all, ...given }: Given<Commands['events redeliver']>,
  io: Io,
): Promise<Output> {
  if ((id === undefined) === !all)
    throw new UsageError('give a subscription, and one of its events if only that one is meant, or --all')
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const ofSubscription = await lettersOf(id, store)
    const meant = ofSubscription.filter(({ letter }) => event === undefined || eventIdOf(letter) === event)
    if (event !== undefined && meant.length === 0)
      throw new Error(`no such dead letter: ${quoted(event)}. See gatehouse events dead-letters`)
    const requested: string[] = []
    await withAudit(settings, io, async (audit) => {
      for (const { letter, subscription } of meant) {
        if (!subscription || !(await new DeadLetters(store).requestRedelivery(letter))) continue
        const eventId = eventIdOf(letter)
        requested.push(eventId)
        const { id: caller } = subscription.principal
        audit?.ordered({
          order: 'redeliver',
          by: userName(),
          caller,
          subscription: letter.subscription,
          eventId,
        })
      }
    })
    const ended = meant.length - requested.length
    return {
      json: { requested, not_requested: ended },
      text: redeliveryText(requested.length, ended),
      code: ended > 0 ? 1 : 0,
    }
  })
}

function redeliveryText(count: number, ended: number): string {
  if (count === 0 && ended === 0) return 'No dead letters.'
  const lost = ended === 0 ? '' : ` ${ended} cannot be delivered: the subscription has ended.`
  return `Redelivery of ${countText(count, 'event')} requested: a running gateway begins within seconds.${lost}`
}

/** The dead letters of a subscription by its id or a prefix of it, which may have ended; those of all without an id. */
async function lettersOf(id: string | undefined, store: Store): Promise<readonly ListedLetter[]> {
  const letters = await new DeadLetters(store).list()
  const found =
    id === undefined
      ? undefined
      : idOf(
          letters.map(({ subscription }) => subscription),
          id,
        )
  if (id !== undefined && found === undefined)
    throw new Error(`no dead letters of ${quoted(id)}. See gatehouse events dead-letters`)
  const byId = new Map((await new EventSubscriptions(store).all()).map((record) => [record.id, record]))
  return letters
    .filter(({ subscription }) => found === undefined || subscription === found)
    .map((letter) => ({ letter, subscription: byId.get(letter.subscription) }))
}

/** The subscription of an id or a prefix of it. @throws Error */
function subscriptionOf(all: readonly SubscriptionRecord[], id: string): SubscriptionRecord {
  const found = idOf(
    all.map((record) => record.id),
    id,
  )
  const same = all.filter((record) => record.id === found)
  const [first] = same
  // Callers choose the ids of some subscriptions.
  if (same.length > 1)
    throw new Error(`${same.length} callers have a subscription ${quoted(id)}: add --principal`)
  if (!first) throw unknownSubscription(id)
  return first
}

function idOf(ids: readonly string[], id: string): string | undefined {
  return idBeginning(ids, id, 'subscriptions', MIN_ID_LENGTH)
}

function unknownSubscription(id: string): Error {
  return new Error(`no such subscription: ${quoted(id)}. See gatehouse events subscriptions`)
}

/** How many events of one log are read at once. */
const PAGE_EVENTS = 500

/** A subscription, and what is left to deliver. */
export interface ListedSubscription {
  readonly record: SubscriptionRecord
  /**
   * How many events of its type are in the log behind what was delivered. Those that its arguments or the rights of its
   * caller leave out are counted too. Undefined if that is not known, or if its client fetches the events.
   */
  readonly waiting: number | undefined
}

/** Whether something is delivered: `suspended` after almost all attempts failed, until the subscriber renews it. */
type SubscriptionStatus = 'active' | 'failing' | 'suspended'

/**
 * Finds out what is left to deliver of subscriptions; not of those to all servers, unless `hasAllLogs`.
 * @throws SERVER_UNAVAILABLE
 */
export async function withWaiting(
  records: readonly SubscriptionRecord[],
  { logs, hasAllLogs }: { readonly logs: readonly ReadLog[]; readonly hasAllLogs: boolean },
): Promise<readonly ListedSubscription[]> {
  const ends = records.some(({ webhook }) => webhook) ? await Promise.all(logs.map(positionsByType)) : []
  return records.map((record) => {
    const isCounted = record.webhook && (hasAllLogs || record.upstream !== undefined)
    return { record, waiting: isCounted ? waitingOf(record, ends) : undefined }
  })
}

/** The positions of the events of a log by type, in order. */
interface LogPositions {
  readonly upstream: string | undefined
  readonly byType: ReadonlyMap<string, readonly string[]>
}

async function positionsByType({ upstream, log }: ReadLog): Promise<LogPositions> {
  const byType = new Map<string, string[]>()
  let page = (await log.hasBegun()) ? await log.read(undefined, PAGE_EVENTS) : undefined
  while (page) {
    for (const { value, cursor } of page.entries) {
      const name = asEvent(value)?.name
      if (name === undefined) continue
      const positions = byType.get(name)
      if (positions) positions.push(cursor)
      else byType.set(name, [cursor])
    }
    page = page.hasMore ? await log.read(page.cursor, PAGE_EVENTS) : undefined
  }
  return { upstream, byType }
}

function waitingOf(record: SubscriptionRecord, logs: readonly LogPositions[]): number {
  const { watermark, settled } = record
  const isSettled = new Set(settled)
  let count = 0
  for (const { upstream, byType } of logs) {
    if (record.upstream !== undefined && record.upstream !== upstream) continue
    for (const [name, positions] of byType) {
      if (!isType(record, upstream, name)) continue
      const start = firstAfter(watermark, positions)
      count += positions.slice(start).filter((position) => !isSettled.has(position)).length
    }
  }
  return count
}

/** Whether the events of a log are those of a subscription. At the address of all servers, a name begins with the server. */
function isType(record: SubscriptionRecord, upstream: string | undefined, name: string): boolean {
  if (record.name === name) return record.upstream === upstream
  return (
    record.upstream === undefined &&
    upstream !== undefined &&
    folded(record.name) === folded(`${upstream}_${name}`)
  )
}

/** The same for each way to write a name. */
function folded(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z\d]+/g, '_')
}

/** The index of the first position behind a watermark; the end for the watermark of another log. */
function firstAfter(watermark: string, positions: readonly string[]): number {
  let [from, to] = [0, positions.length]
  while (from < to) {
    const middle = Math.floor((from + to) / 2)
    if (isBefore(watermark, positions[middle] ?? '')) to = middle
    else from = middle + 1
  }
  return from
}

/** Whether it is delivered. */
function statusOf({ webhook }: SubscriptionRecord): SubscriptionStatus {
  if (webhook?.suspendedAt !== undefined) return 'suspended'
  return webhook?.failedSince === undefined ? 'active' : 'failing'
}

/** Where events are delivered to: of a URL, only origin and path. */
function addressText({ address, webhook }: SubscriptionRecord): string {
  if (!webhook) return address
  const url = URL.parse(address)
  return url ? withoutSecrets(`${url.origin}${url.pathname}`) : 'a URL that cannot be read'
}

/** The types of events of a subscription. */
function typesOf({ name, arguments: { events } }: SubscriptionRecord): readonly string[] {
  return name === '*' && Array.isArray(events) ? events.map(String) : [name]
}

// Subscriptions as text and as JSON. Text of callers is escaped.

/** Subscriptions as a table; `now` is in milliseconds since 1970. */
export function subscriptionLines(subscriptions: readonly ListedSubscription[]): string[] {
  if (subscriptions.length === 0) return ['No subscriptions.']
  const rows = subscriptions.map(({ record, waiting }) => [
    record.id,
    statusOf(record),
    record.principal.id,
    record.upstream ?? 'all',
    typesOf(record).join(', '),
    addressText(record),
    waiting === undefined ? '-' : String(waiting),
    record.expiresAt >= NEVER ? 'never' : timeText(record.expiresAt),
    failureText(record),
  ])
  const head = ['id', 'status', 'caller', 'server', 'type', 'address', 'waiting', 'expires', 'last error']
  return tableLines([head, ...rows])
}

function failureText({ webhook }: SubscriptionRecord): string {
  const { lastError, failedSince } = webhook ?? {}
  if (lastError === undefined) return ''
  return failedSince === undefined ? lastError : `${lastError}, since ${timeText(failedSince)}`
}

/** One subscription as JSON. */
export function subscriptionView({ record, waiting }: ListedSubscription): Readonly<Record<string, unknown>> {
  const { id, principal, upstream, createdAt, expiresAt, webhook, hasGap, owner } = record
  const { suspendedAt, lastDeliveryAt, lastError, failedSince } = webhook ?? {}
  return {
    id,
    status: statusOf(record),
    caller: principal.id,
    server: upstream ?? null,
    types: typesOf(record),
    argument_names: Object.keys(record.arguments),
    kind: webhook ? 'webhook' : 'client',
    address: addressText(record),
    created_at: isoTime(createdAt),
    expires_at: expiresAt >= NEVER ? null : isoTime(expiresAt),
    waiting,
    has_gap: hasGap || undefined,
    owner,
    suspended_at: timeOrNone(suspendedAt),
    last_delivery_at: timeOrNone(lastDeliveryAt),
    last_error: lastError,
    failing_since: timeOrNone(failedSince),
  }
}

function timeOrNone(at: number | undefined): string | undefined {
  return at === undefined ? undefined : isoTime(at)
}

/** What became of a subscription that was dropped. */
export function droppedLine({ id, principal, upstream, ...record }: SubscriptionRecord): string {
  const types = typesOf({ id, principal, upstream, ...record }).join(', ')
  return oneLine(`Dropped ${id} of ${principal.id}: ${types} of ${upstream ?? 'all servers'}.`)
}

/** A dead letter, with its subscription unless that has ended. */
export interface ListedLetter {
  readonly letter: DeadLetter
  readonly subscription: SubscriptionRecord | undefined
}

/** The id of an event. */
function eventIdOf({ event }: DeadLetter): string {
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
    caller: subscription?.principal.id,
    server: upstream ?? null,
    type: name,
    event: {
      id: eventIdOf(letter),
      at: typeof event.at === 'number' ? isoTime(event.at) : undefined,
      data: asObject(event.data),
    },
    failure,
    given_up_at: isoTime(at),
  }
}
