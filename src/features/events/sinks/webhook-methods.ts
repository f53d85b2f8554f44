/**
 * Answers `events/subscribe` and `events/unsubscribe` (SEP-3415).
 *
 * A subscription is identified by its caller, URL, type and arguments: subscribing again renews it, replaces its secret
 * and activates it. Its receiver is verified within the call, before anything else is sent there.
 */
import { isStoreShared } from '../../../core/settings.ts'
import { toDouble } from '../../../core/json/exact-number.ts'
import { world } from '../../../core/world.ts'
import type { Call, Handler, Outcome } from '../../../core/call.ts'
import type { GatewayError } from '../../../core/error.ts'
import { isObject } from '../../../core/json/json.ts'
import type { Seal } from '../../../core/seal.ts'
import { isWebhookSecret } from '../../../core/standard-webhooks.ts'
import { Secret } from '../../../core/text/secret.ts'
import { isoTime } from '../../../core/time/waiting.ts'
import {
  MAX_SUBSCRIPTIONS,
  NEVER,
  type SubscriptionKey,
  type SubscriptionRecord,
  type WebhookState,
} from '../../../records/event-subscriptions.ts'
import { callerHash } from '../../../records/principal.ts'
import type { Services } from '../../feature.ts'
import { answered } from '../../builtin-tool.ts'
import {
  canSubscribe,
  type PositionedRequest,
  profileOf,
  readRequest,
  sealCursor,
} from '../dialects/extension.ts'
import {
  callbackEndpointError,
  forbidden,
  invalid,
  notFound,
  resourceExhausted,
  unsupported,
} from '../errors.ts'
import { type EventRequest, marksGap, retain } from '../follower.ts'
import type { EventCatalog } from '../types.ts'
import { asEvent } from '../server-events.ts'
import { isAcceptableUrl, originToAllow } from '../../dialer.ts'
import { openSecrets, replaceSecret, sealSecrets, type SubscriptionSecrets } from './subscription-secrets.ts'
import type { WebhookDeliveries } from './webhook-deliveries.ts'

/** How long a subscription lasts that asks for no time, and the shortest time, in milliseconds. */
const DEFAULT_TTL_MS = 3_600_000
const MIN_TTL_MS = 60_000
/** How many events are read at once to find where delivery begins. */
const PAGE_EVENTS = 200

interface SubscriptionContext {
  readonly parts: EventCatalog
  readonly deps: Pick<Services, 'identity' | 'gateway' | 'log'>
  readonly deliveries: WebhookDeliveries
  /** Origins that may use http and private addresses. */
  readonly allow: readonly string[]
  readonly maxTtlMs: number
}

/** The methods of webhooks. */
export function webhookMethods(options: SubscriptionContext): Readonly<Record<string, Handler>> {
  return {
    'events/subscribe': (call) => subscribe(call, options),
    'events/unsubscribe': (call) => unsubscribe(call, options),
  }
}

async function subscribe(call: Call, options: SubscriptionContext): Promise<Outcome> {
  checkCaller(call)
  const { parts, deliveries } = options
  const { subscriptions, outbox } = deliveries
  const request = await readRequest(call, parts)
  const delivery = readDelivery(call, options)
  const expiresAt = readExpiry(call, options)
  await retain([request], call.principal, parts)

  const key = keyOf(call, request, delivery.url)
  const id = subscriptions.idOf(call.principal, key)
  // Whoever subscribes again while the last message is on its way gets a new subscription.
  if (outbox.find(id)?.isOver) await outbox.end(id)
  await outbox.flush(id)
  const before = await subscriptions.find(call.principal, id)
  if (!before && !(await subscriptions.mayAdd(call.principal, id))) throw tooMany()
  const { secrets } = secretsWith(delivery.secret, id, before?.webhook, options.deps.identity.seal)
  await verify(call, id, { url: delivery.url, secrets }, options)

  const start = before ? { watermark: before.watermark, isTruncated: false } : await startOf(request, parts)
  const webhook = (state: WebhookState | undefined): WebhookState =>
    stateAfter(state, { id, secret: delivery.secret, isEndless: expiresAt === NEVER }, options)
  const grant = {
    expiresAt,
    delivery: { codes: profileOf(call.client).codes },
    webhook,
    watermark: start.watermark,
  }
  const record = await subscriptions.subscribe(call.principal, key, grant)
  if (!record) throw tooMany()
  await outbox.added(record)
  const position = outbox.find(id)?.queue.watermark ?? record.watermark
  return answered({
    id,
    refreshBefore: expiresAt === NEVER ? null : isoTime(expiresAt),
    cursor: sealCursor(position, call, request, options.deps.identity.seal),
    truncated: start.isTruncated,
    ...(before && { deliveryStatus: statusOf(record) }),
  })
}

async function unsubscribe(
  call: Call,
  { deliveries: { subscriptions, outbox } }: SubscriptionContext,
): Promise<Outcome> {
  checkCaller(call)
  const { name, arguments: given = {}, delivery } = call.params.fields
  if (typeof name !== 'string') throw invalid('name', 'must be a string')
  if (!isObject(given)) throw invalid('arguments', 'must be an object')
  if (!isObject(delivery) || typeof delivery.url !== 'string')
    throw invalid('delivery.url', 'must be a string')
  const key = keyOf(call, { name, arguments: given }, delivery.url)
  const id = subscriptions.idOf(call.principal, key)
  outbox.removed(id)
  if (!(await subscriptions.unsubscribe(call.principal, id))) throw notFound('subscription')
  return answered({})
}

/** Subscriptions belong to a caller, so callers have to be distinguished. @throws PERMISSION_DENIED */
function checkCaller({ principal, client }: Call): void {
  if (canSubscribe(principal)) return
  const instead = profileOf(client).methods === 'all' ? ' Poll the events instead.' : ''
  throw forbidden('authentication_required', `Webhooks require an authenticated caller.${instead}`)
}

function keyOf(
  { target: { upstream } }: Call,
  { name, arguments: given }: Pick<EventRequest, 'name' | 'arguments'>,
  address: string,
): SubscriptionKey {
  return { upstream, name, arguments: given, address }
}

/** Where events are to be delivered: the URL as the caller wrote it, and the secret. @throws INVALID_INPUT */
function readDelivery({ params }: Call, { allow }: SubscriptionContext) {
  const { delivery } = params.fields
  if (!isObject(delivery)) throw invalid('delivery', 'must be an object')
  const { mode, url, secret } = delivery
  if (typeof mode !== 'string') throw invalid('delivery.mode', 'must be webhook')
  if (mode !== 'webhook') throw unsupported('delivery.mode', mode, 'Events can only be delivered by webhook.')
  if (typeof url !== 'string' || !isAcceptableUrl(url, allow)) {
    const rule = 'must be an https URL without credentials, or of an origin that the operator allows'
    throw withAdvice(invalid('delivery.url', rule), String(url), allow)
  }
  if (typeof secret !== 'string' || !isWebhookSecret(secret))
    throw invalid('delivery.secret', 'must be whsec_ and 24 to 64 bytes in base64')
  return { url, secret: new Secret(secret) }
}

/** A refusal that names the setting which permits a URL: the operator often is the one who subscribes. */
function withAdvice(error: GatewayError, url: string, allow: readonly string[]): GatewayError {
  const origin = originToAllow(url, allow)
  if (origin === undefined) return error
  const suggestion = `Ask the operator of the gateway to add ${origin} to features.events.webhooks.allow.`
  return error.with({ suggestion })
}

/** When the subscription expires: any requested time is granted within bounds. @throws INVALID_INPUT for another type */
function readExpiry({ params }: Call, { maxTtlMs, deps }: SubscriptionContext): number {
  const { ttlMs = DEFAULT_TTL_MS } = params.fields
  const requested = ttlMs === null ? maxTtlMs : toDouble(ttlMs)
  if (requested === undefined) throw invalid('ttlMs', 'must be a number of milliseconds or null')
  if (ttlMs === null && isStoreShared(deps.gateway.settings)) return NEVER
  return world.now() + Math.floor(Math.min(Math.max(requested, MIN_TTL_MS), maxTtlMs))
}

/** Sends a challenge, unless the caller has verified this URL before. @throws INVALID_INPUT if it fails */
async function verify(
  call: Call,
  id: string,
  { url, secrets }: { readonly url: string; readonly secrets: SubscriptionSecrets },
  { deps, deliveries, allow }: SubscriptionContext,
): Promise<void> {
  const owner = callerHash(call.principal.id)
  const check = await deliveries.verifier.verify({ subscription: id, url, secrets, owner }, call.signal)
  if (check.kind === 'verified') return
  deps.log.info('webhook.not_verified', { subscription: id, failure: check.failure })
  throw withAdvice(callbackEndpointError(check.failure), url, allow)
}

/** The secrets of a subscription before it is requested with a secret, if it had some, and after that. */
function secretsWith(secret: Secret, id: string, state: WebhookState | undefined, seal: Seal) {
  const held = state && openSecrets(id, state, seal)
  return { held, secrets: held ? replaceSecret(held, secret, world.now()) : { current: secret } }
}

/** The state of a subscription that was requested again: it is active, and the earlier secret signs for a while. */
function stateAfter(
  state: WebhookState | undefined,
  { id, secret, isEndless }: { readonly id: string; readonly secret: Secret; readonly isEndless: boolean },
  { deps: { identity } }: SubscriptionContext,
): WebhookState {
  const { held, secrets } = secretsWith(secret, id, state, identity.seal)
  const { suspendedAt: _suspended, isVerified: _verified, earlier, ...rest } = state ?? { secret: '' }
  const sealed =
    state && secrets === held
      ? { secret: state.secret, ...(earlier && { earlier }) }
      : sealSecrets(id, secrets, identity.seal)
  return { ...rest, ...sealed, ...(isEndless && { isVerified: true }) }
}

/** Where a new subscription begins, and whether events are missing there. @throws SERVER_UNAVAILABLE */
async function startOf(
  { type, from, notBefore, arguments: given }: PositionedRequest,
  parts: EventCatalog,
): Promise<{ readonly watermark: string; readonly isTruncated: boolean }> {
  const { log } = parts.events(type.upstream)
  if (from === 'now') return { watermark: await log.end(), isTruncated: false }
  let isTruncated = from === 'unknown'
  const mayEndLater = from === 'unknown' && type.endOf !== undefined
  let begin: string | undefined
  for (let at = from === 'unknown' ? undefined : from.position; ;) {
    const page = await log.read(at, PAGE_EVENTS)
    isTruncated ||= page.isGap
    let before = page.start
    for (const { value, cursor } of page.entries) {
      const event = asEvent(value)
      // Whoever does not say how far it got begins after the last end.
      const isEnd = mayEndLater && event !== undefined && type.endOf?.(given, event) !== undefined
      const isGap = event !== undefined && (isEnd || marksGap(event, { type, arguments: given }))
      if (isEnd) begin = undefined
      else if (event && !isGap && event.at >= notBefore) begin ??= before
      if (begin !== undefined && !mayEndLater) return { watermark: begin, isTruncated }
      if (isGap || (event?.name === type.name && type.isRequested(given, event))) isTruncated = true
      before = cursor
    }
    if (!page.hasMore) return { watermark: begin ?? page.cursor, isTruncated }
    at = page.cursor
  }
}

/** How delivery fares, without anything that the receiver wrote. */
function statusOf({ webhook }: SubscriptionRecord) {
  const { lastDeliveryAt, lastError, failedSince, suspendedAt } = webhook ?? {}
  return {
    active: suspendedAt === undefined,
    lastDeliveryAt: lastDeliveryAt === undefined ? null : isoTime(lastDeliveryAt),
    lastError: lastError ?? null,
    ...(failedSince !== undefined && { failedSince: isoTime(failedSince) }),
  }
}

function tooMany(): GatewayError {
  // One caller may have a quarter of all.
  return resourceExhausted('subscriptions', MAX_SUBSCRIPTIONS / 4, 'There are too many subscriptions.')
}
