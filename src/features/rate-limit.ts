/**
 * Rate limits by caller, server and tool, counted in the store: sliding windows; a call takes tokens of all its limits
 * or of none.
 */
import { NS } from '../core/identity.ts'
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import type { Call, InterimOutcome, Outcome, Target } from '../core/call.ts'
import { type RateLimitStatus, rateLimitSlot } from '../core/exchange.ts'
import { GatewayError } from '../core/error.ts'
import { isGatewayRefusal } from '../core/failure.ts'
import { only, Payload } from '../core/payload.ts'
import { limitScope, DEFAULT_RATE } from '../core/principal.ts'
import { mayRefer } from '../core/used-reference.ts'
import { profileSlot } from '../core/slot.ts'
import { settingOf, isGuarded } from '../core/settings.ts'
import { rates, type Rate } from '../core/time/units.ts'
import type { RateLimitWindow, Store, TokenGrant } from '../store/store.ts'
import { callKey, findCall } from '../records/calls.ts'
import { fingerprintOf, inexactNumbers } from '../records/fingerprint.ts'
import { windowsOf } from '../records/principal.ts'
import { hasIdempotencyKey, idempotencyKeyOf } from '../protocol/meta-keys.ts'
import { isVendorRequest, method as known } from '../protocol/methods.ts'
import { type Feature, type SettingsOf, type Services, toolSetting } from './feature.ts'
import { remainingQuotas, toolFacts, publish } from './offers.ts'
import { type RateSettings, rateLimitSchema } from './settings/admit.ts'

type Deps = Pick<Services, 'store' | 'servers' | 'features' | 'gateway'>

/** Limits how often each caller may call: in total, each server, and each tool. */
export const rateLimit: Feature<RateSettings> = {
  ...rateLimitSchema,
  create: (settings, deps) => {
    const bucketsFor = bucketFinder()
    // A list request may become several, to all servers: it is charged once.
    const listed = new WeakMap<object, TokenGrant | Promise<TokenGrant>>()
    return {
      calls: {
        middleware: (target) => {
          const ofTarget = limitsOf(target, settings, deps)
          const byProfile = profileLimits(target, deps)
          if (ofTarget.length === 0 && byProfile.size === 0) return undefined
          const withProfile = new Map([...byProfile].map(([name, own]) => [name, [...ofTarget, ...own]]))
          const limitsFor = (call: Call): readonly Limit[] =>
            withProfile.size === 0 ? ofTarget : (withProfile.get(profileSlot.of(call) ?? '') ?? ofTarget)
          const isList = known(target.method).list !== undefined
          const isTool = target.method === 'tools/call' && target.isBuiltin !== true
          const isVendor = isVendorRequest(target.method)
          return (next) => {
            const proceed = (call: Call, taken: TokenGrant): Promise<Outcome> => {
              const limits = limitsFor(call)
              const status = statusOf(limits, taken)
              rateLimitSlot.of(call)?.reportRateLimit?.(status)
              if (!taken.isGranted) return Promise.reject(refusal(call, status, taken))
              if (isLow(status)) publishLow(call, status, deps)
              const onError = (error: unknown): Promise<never> => refundAndThrow(call, error, limits, deps)
              // The result format of vendor methods is unknown.
              if (isVendor) return next(call).catch(onError)
              return next(call).then((outcome) => finish(outcome, status, deps.store), onError)
            }
            const charge = (call: Call): Promise<Outcome> => {
              const limits = limitsFor(call)
              if (limits.length === 0) return next(call)
              const taken = deps.store.takeTokens(bucketsFor(limits, call.principal.id))
              if (isList) listed.set(call.logFields, taken)
              return taken instanceof Promise
                ? taken.then((each) => proceed(call, each))
                : proceed(call, taken)
            }
            const reuse = (call: Call, taken: TokenGrant): Promise<Outcome> =>
              taken.isGranted
                ? next(call)
                : Promise.reject(refusal(call, statusOf(limitsFor(call), taken), taken))
            const resume = async (call: Call, ticket: string): Promise<Outcome> => {
              if (!(await isPaid(deps.store, ticket))) return charge(call)
              const outcome = await next(call).catch((error: unknown) =>
                isUnconfirmed(error)
                  ? refundAndThrow(call, error, limitsFor(call), deps)
                  : Promise.reject(error),
              )
              return outcome.kind === 'result' ? outcome : withTicket(outcome, deps.store)
            }
            const isKeyed = (call: Call): boolean => isTool && hasIdempotencyKey(call)
            const unlessReplay = async (call: Call): Promise<Outcome> =>
              (await isReplay(call, target.upstream, deps)) ? next(call) : charge(call)
            return (call) => {
              if (call.internal) return next(call)
              const ticket = call.requestState[STATE_KEY]
              if (typeof ticket === 'string') return resume(call, ticket)
              const taken = isList ? listed.get(call.logFields) : undefined
              if (taken === undefined) return isKeyed(call) ? unlessReplay(call) : charge(call)
              return taken instanceof Promise ? taken.then((each) => reuse(call, each)) : reuse(call, taken)
            }
          }
        },
        dryRun: 'same', // a dry run is a call, so it counts
      },
      offers: [
        toolFacts.offer(({ upstream, name }) => {
          const own = toolSetting(deps, upstream, name, 'rate')
          return own === undefined ? {} : { rates: [own].flat() }
        }),
        remainingQuotas.offer(async (target, { id }) => {
          const limits = limitsOf(target, settings, deps)
          if (limits.length === 0) return undefined
          const taken = await deps.store.peekTokens(bucketsOf(limits, id))
          const index = tightestIndex(limits, taken)
          const [remaining = 0, remainingTime = 0] = [taken.remaining[index], taken.reset[index]]
          // If nothing is spent yet, a token taken now returns after a whole window.
          const reset = remainingTime > 0 ? remainingTime : (limits[index]?.window ?? 0)
          // Rounded to seconds, so that repeated responses do not differ by milliseconds. Windows end at whole seconds of the
          // store: by another clock, or with the time that the answer took, it would be now this second and now the next.
          const resetsAt = Math.ceil((taken.at + reset) / 1000) * 1000
          return { remaining, resetsAt, of: 'limit' }
        }),
      ],
    }
  },
}

/** A rate that applies to a target. */
interface Limit extends Rate {
  readonly scope: 'principal' | 'upstream' | 'tool' | 'profile'
  /** The part of the window's key after the caller. */
  readonly suffix: string
  /** Its name for callers. */
  readonly name: string
}

/** How many refused calls of a caller are free per window. Further ones are charged. */
const FREE_REFUSALS: Rate = { limit: 60, window: 60_000 }

/** Refunds a call that never reached its server, unless its caller has too many of them. @throws the error */
async function refundAndThrow(
  call: Call,
  error: unknown,
  limits: readonly Limit[],
  deps: Deps,
): Promise<never> {
  if (!isGatewayRefusal(error)) throw error
  const buckets = bucketsOf(limits, call.principal.id).map((bucket) => ({
    ...bucket,
    isReturn: true as const,
  }))
  const refusals = { key: `${windowsOf(call.principal.id)}}:refused`, ...FREE_REFUSALS }
  const refund = await deps.store.takeTokens([...buckets, refusals])
  if (refund.isGranted) rateLimitSlot.of(call)?.reportRateLimit?.(statusOf(limits, refund))
  throw error
}

/** Whether a call was not confirmed: its confirmation was requested in an earlier round, which was charged. */
function isUnconfirmed(error: unknown): boolean {
  return isGatewayRefusal(error) && error.code.startsWith('CONFIRMATION_')
}

interface LimitStatus extends RateLimitStatus {
  readonly scope: Limit['scope']
}

const charged: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

function limitsOf(
  { upstream, method, name }: Target,
  settings: SettingsOf<RateSettings>,
  deps: Deps,
): Limit[] {
  const isCharged = charged.has(method) || isVendorRequest(method)
  if (!isCharged && known(method).list === undefined) return []
  const own = upstream === undefined ? undefined : settings(upstream).rate
  const { together: combinedRate, alone: serverRate } = limitScope(
    settings().rate,
    own,
    isGuarded(deps.gateway.settings) ? DEFAULT_RATE : undefined,
  )
  const all = combinedRate === undefined ? [] : limitsFrom(combinedRate, 'principal', 'all')
  if (!isCharged || upstream === undefined) return all
  const server = serverRate === undefined ? [] : limitsFrom(serverRate, 'upstream', upstream)
  const tools = deps.servers.settings(upstream)?.tools
  const rule =
    method === 'tools/call' && name !== undefined && tools ? settingOf(tools, name, 'rate') : undefined
  if (!rule || name === undefined) return [...all, ...server]
  // Unknown names can be arbitrarily long and numerous.
  const key = name.length > 128 ? rule.glob : name
  return [...all, ...server, ...limitsFrom(rule.value, 'tool', `${upstream}/${key}`)]
}

/** The limits of calls of tools by the URLs of profiles, by profile. */
function profileLimits(
  { method }: Target,
  { gateway: { settings } }: Deps,
): ReadonlyMap<string, readonly Limit[]> {
  const limited = method === 'tools/call' ? settings.profiles : []
  return new Map(
    limited.flatMap(({ name, rate }) =>
      rate === undefined ? [] : [[name, limitsFrom(rate, 'profile', name)] as const],
    ),
  )
}

function limitsFrom(written: string | readonly string[], scope: Limit['scope'], subject: string): Limit[] {
  return rates(written).map(({ limit, window }) => {
    const seconds = window / 1000
    return { limit, window, scope, name: `${scope}-${seconds}s`, suffix: `}:${scope}:${window}:${subject}` }
  })
}

/** The windows of a caller; limits apply to the principal, never to the session. */
function bucketsOf(limits: readonly Limit[], principal: string): RateLimitWindow[] {
  const owner = windowsOf(principal)
  return limits.map(({ limit, window, suffix }) => ({ key: owner + suffix, limit, window }))
}

/** For how many callers the windows are cached. */
const MAX_CACHED_CALLERS = 1000

/** Creates the windows of a caller, cached for the most recent callers. */
function bucketFinder(): typeof bucketsOf {
  const known = new WeakMap<readonly Limit[], Map<string, RateLimitWindow[]>>()
  return (limits, principal) => {
    const callers = known.get(limits) ?? new Map<string, RateLimitWindow[]>()
    const found = callers.get(principal)
    if (found) return found
    known.set(limits, callers)
    if (callers.size >= MAX_CACHED_CALLERS) callers.clear()
    const buckets = bucketsOf(limits, principal)
    callers.set(principal, buckets)
    return buckets
  }
}

/** The index of the limit with the least remaining; of exhausted ones, the one with the longest wait. */
function tightestIndex(limits: readonly Limit[], { remaining, wait }: TokenGrant): number {
  let at = 0
  for (let index = 1; index < limits.length; index++) {
    const [candidate = 0, smallest = 0] = [remaining[index], remaining[at]]
    if (candidate < smallest || (candidate === smallest && (wait[index] ?? 0) > (wait[at] ?? 0))) at = index
  }
  return at
}

/** The caller's status under that limit. */
function statusOf(limits: readonly Limit[], taken: TokenGrant): LimitStatus {
  const { remaining, reset } = taken
  const at = tightestIndex(limits, taken)
  const limit = limits[at]
  if (!limit) throw new TypeError('there is no limit')
  return {
    scope: limit.scope,
    name: limit.name,
    limit: limit.limit,
    window: limit.window / 1000,
    remaining: remaining[at] ?? 0,
    reset: Math.ceil((reset[at] ?? 0) / 1000),
  }
}

/** A limit of a shorter window is restored before its caller could do anything. */
const MIN_PUBLISHED_WINDOW_SECONDS = 60

/** Whether the token that was taken is the one that leaves less than a tenth. */
function isLow({ limit, remaining, window }: LimitStatus): boolean {
  const tenth = limit / 10
  return remaining < tenth && remaining + 1 >= tenth && window >= MIN_PUBLISHED_WINDOW_SECONDS
}

/** Publishes once in each window that little is left of a limit. */
function publishLow({ principal, target }: Call, status: LimitStatus, { features }: Deps): void {
  const { scope, name, limit, remaining, window, reset } = status
  const server = scope === 'principal' ? undefined : target.upstream
  const tool = scope === 'tool' ? target.name : undefined
  publish({ features }, undefined, {
    name: 'quota_low',
    caller: principal.id,
    data: {
      limit: 'rate',
      remaining,
      of: limit,
      resets_at: new Date(world.now() + reset * 1000).toISOString(),
      ...(server !== undefined && { server }),
      ...(tool !== undefined && { tool }),
    },
    once: { key: hash('sha256', [principal.id, name, server, tool].join(' ')), for: window * 1000 },
  })
}

function refusal(call: Call, status: LimitStatus, taken: TokenGrant): GatewayError {
  const { limit, window, remaining, scope } = status
  const seconds = Math.max(1, Math.ceil(Math.max(...taken.wait) / 1000))
  call.logFields.set('limited_by', scope)
  const what = {
    principal: 'calls',
    upstream: 'calls to this server',
    tool: 'calls of this tool',
    profile: 'calls by this URL',
  }[scope]
  return new GatewayError(
    'RATE_LIMIT_EXCEEDED',
    `Too many ${what}: each caller may make ${limit} within ${window} s.`,
    {
      suggestion: `Try again in ${seconds} s.`,
      retryAfterSeconds: seconds,
      details: { limit, window, remaining, scope },
      status: 429,
    },
  )
}

/**
 * Whether the call is a replay of a keyed call, so that nothing is executed for it. What references stand for is not known
 * yet: with other data than before, such a call is a conflict, for which nothing is executed either.
 */
async function isReplay(
  call: Call,
  upstream: string | undefined,
  { store, features }: Deps,
): Promise<boolean> {
  try {
    if (upstream === undefined) return false
    const found = await findCall(store, callKey(call.principal.id, upstream, idempotencyKeyOf(call)))
    const { name, arguments: given } = call.params.fields
    if (!found || found.record.state === 'unknown') return false
    const written = call.params.at('arguments')
    if (found.record.fingerprint === fingerprintOf(String(name), given, inexactNumbers(written))) return true
    return (
      found.record.tool === name && mayRefer(written?.text ?? '') && features.isOn('references', upstream)
    )
  } catch {
    // Problems with the key or the store are reported by their own features.
    return false
  }
}

/** The key in the request state of the ticket that shows that the first round was charged. */
const STATE_KEY = 'rate'
/** How long input responses may take before the call is charged again, in milliseconds. */
const INPUT_WAIT_MS = 900_000

/** The `_meta` key of the rate limit status in a result. */
const META_KEY = `${NS}/rate_limit`

/** Adds the status to a result. Input responses belong to the same call, so they are not charged again. */
function finish(outcome: Outcome, status: RateLimitStatus, store: Store): Outcome | Promise<Outcome> {
  if (outcome.kind !== 'result') return withTicket(outcome, store)
  const { limit, remaining, reset } = status
  // Written for each call: a template is cheaper than an encoder.
  const text = `{"limit":${limit},"remaining":${remaining},"reset_seconds":${reset}}`
  const statusPayload = Payload.text(text, { limit, remaining, reset_seconds: reset })
  return { kind: 'result', result: outcome.result.withMeta(only(META_KEY, statusPayload)) }
}

async function withTicket(outcome: InterimOutcome, store: Store): Promise<Outcome> {
  const ticket = world.randomUUID()
  try {
    await store.put(ticketKey(ticket), '1', INPUT_WAIT_MS)
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: ticket } }
  } catch {
    // Without a store, a used ticket cannot be detected: the retry is charged.
    return outcome
  }
}

async function isPaid(store: Store, ticket: string): Promise<boolean> {
  return store.delete(ticketKey(ticket)).catch(() => false)
}

function ticketKey(ticket: string): string {
  return `rate:ticket:${ticket}`
}
