// Finds out whom a notification of a server is for. Over HTTP the stream of a request tells; over stdio many requests
// share one pipe, and most servers mark nothing but progress and subscriptions. Invariant: what may belong to another
// caller goes to none, and nothing is dropped without a reason: `why` gives it.
import type { Notification } from '../core/call.ts'
import { isObject } from '../core/json.ts'
import type { Registry } from '../core/registry.ts'
import type { UpstreamCall } from '../bridge/park.ts'
import { metaKeys } from '../wire/extensions.ts'
import { asksFor, isChange, readFilter } from '../wire/filter.ts'
import { severity } from '../wire/methods.ts'

/** A call under way, by the id of its request. */
export interface Under {
  readonly id: number
  readonly working: UpstreamCall
}

/** Who hears a notification; where that is none, why. */
export interface Recipients {
  readonly to: readonly UpstreamCall[]
  readonly why?: 'unsubscribed' | 'ended' | 'unasked' | 'ambiguous'
}

/** Whom a notification of a 2026-07-28 server is for; `about` is the request whose stream carried it, where the transport tells. */
export function recipientsOf(
  note: Notification,
  about: number | undefined,
  underWay: Registry<number, Under>,
): Recipients {
  const subscription = numberAt(note, metaKeys.subscription)
  const carrier = about === undefined ? undefined : underWay.get(about)?.working
  if (subscription !== undefined) return toListener(note, underWay.get(subscription)?.working)
  if (isChange(note)) {
    if (carrier && isListening(carrier)) return toListener(note, carrier)
    const to = listeners(underWay).filter((each) => isAskedFor(each, note))
    return to.length > 0 ? { to } : { to, why: 'unsubscribed' }
  }
  if (about !== undefined) return carrier ? { to: [carrier] } : { to: [], why: 'ended' }
  const named = namedBy(note, underWay)
  if (named) return { to: [named] }
  const calls = underWay.values().flatMap(({ working }) => (isOfClient(working) ? [working] : []))
  const asked = calls.filter((each) => wants(each, note))
  // Some servers log unasked. On the stream of a request that reaches its client, so on a shared pipe it does, too.
  return amongCalls(asked.length > 0 ? asked : calls.filter((each) => logLevelOf(each) < 0))
}

function toListener(note: Notification, listener: UpstreamCall | undefined): Recipients {
  if (!listener) return { to: [], why: 'ended' }
  const isWanted = !isChange(note) || isAskedFor(listener, note)
  return isWanted ? { to: [listener] } : { to: [], why: 'unsubscribed' }
}

/** Who gets a notification about one of these calls: each client once; several clients only where one caller owns all. */
export function amongCalls(calls: readonly UpstreamCall[]): Recipients {
  const [first] = calls
  if (!first) return { to: [], why: 'unasked' }
  const { principal } = first.call
  const clients = new Map(calls.map((each) => [clientOf(each), each]))
  const isOneCaller = calls.every(({ call }) => call.principal.id === principal.id)
  // Sessions of anonymous callers may belong to different people.
  if (!isOneCaller || (clients.size > 1 && principal.isEverybody)) return { to: [], why: 'ambiguous' }
  return { to: calls.filter((each) => each.call.client.session === undefined || isLast(each, clients)) }
}

function isLast(working: UpstreamCall, clients: ReadonlyMap<string, UpstreamCall>): boolean {
  return clients.get(clientOf(working)) === working
}

/** Clients of 2026-07-28 have no sessions: there only callers can be told apart. */
function clientOf({ call: { client, principal } }: UpstreamCall): string {
  return client.session === undefined ? `caller ${principal.id}` : `session ${client.session}`
}

/** Members of `_meta` by which servers may say which request they speak of. */
const marks = ['io.modelcontextprotocol/requestId', 'requestId', 'progressToken']

/** The request a notification names. A number of something else may stand there, too. */
function namedBy(note: Notification, underWay: Registry<number, Under>): UpstreamCall | undefined {
  for (const mark of marks) {
    const id = numberAt(note, mark)
    const found = id === undefined ? undefined : underWay.get(id)
    if (found) return found.working
  }
  return undefined
}

function numberAt({ params }: Notification, key: string): number | undefined {
  const meta = params?.fields._meta
  const value = isObject(meta) ? meta[key] : undefined
  if (typeof value !== 'number' && typeof value !== 'string') return undefined
  return Number(value)
}

function listeners(underWay: Registry<number, Under>): UpstreamCall[] {
  return underWay.values().flatMap(({ working }) => (isListening(working) ? [working] : []))
}

function isListening({ call }: UpstreamCall): boolean {
  return call.method === 'subscriptions/listen'
}

function isAskedFor({ call }: UpstreamCall, note: Notification): boolean {
  return asksFor(readFilter(call.params), note)
}

/** Whether a client waits for the answer of a call, and not the gateway itself. */
export function isOfClient(working: UpstreamCall): boolean {
  return working.call.rpcId !== undefined && !isListening(working)
}

/** A log message is for who asked for its level (2026-07-28 server/utilities/logging). */
function wants(working: UpstreamCall, { method, params }: Notification): boolean {
  if (method !== 'notifications/message') return true
  const level = logLevelOf(working)
  return level >= 0 && severity(params?.fields.level) >= level
}

/** The rank of the level of log messages a call asked for; negative where it asked for none. */
function logLevelOf({ call }: UpstreamCall): number {
  return severity(call.meta[metaKeys.logLevel])
}
