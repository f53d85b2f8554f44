/**
 * Subscriptions to events for `gatehouse events subscriptions`: who subscribes to what, where it is delivered, and how far.
 *
 * Invariant: neither secrets, nor arguments, nor the query of a URL are printed, which may contain a secret.
 */
import { oneLine } from '../core/text/escape.ts'
import { withoutSecrets } from '../core/text/redact.ts'
import { isoTime } from '../core/time/waiting.ts'
import { isBefore } from '../durable/log.ts'
import { NEVER, type SubscriptionRecord } from '../records/event-subscriptions.ts'
import { asEvent } from '../records/logged-events.ts'
import type { ReadLog } from './event-tail.ts'
import { tableLines, timeText } from './table.ts'

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
    ...(waiting !== undefined && { waiting }),
    ...(hasGap && { has_gap: true }),
    ...(owner !== undefined && { owner }),
    ...(suspendedAt !== undefined && { suspended_at: isoTime(suspendedAt) }),
    ...(lastDeliveryAt !== undefined && { last_delivery_at: isoTime(lastDeliveryAt) }),
    ...(lastError !== undefined && { last_error: lastError }),
    ...(failedSince !== undefined && { failing_since: isoTime(failedSince) }),
  }
}

/** What became of a subscription that was dropped. */
export function droppedLine({ id, principal, upstream, ...record }: SubscriptionRecord): string {
  const types = typesOf({ id, principal, upstream, ...record }).join(', ')
  return oneLine(`Dropped ${id} of ${principal.id}: ${types} of ${upstream ?? 'all servers'}.`)
}
