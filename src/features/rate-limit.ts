/**
 * Rate limits by caller, server and tool, counted in the store: sliding windows, all or none of a call's
 * limits taken.
 */
import { randomUUID } from 'node:crypto'
import type { Call, Outcome, RateLimitStatus, Target } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isGatewayRefusal } from '../core/failure.ts'
import { only, Payload } from '../core/payload.ts'
import { limitScope, DEFAULT_RATE } from '../core/principal.ts'
import { settingOf } from '../core/settings.ts'
import { rates, rateSchema, type Rate } from '../core/time/units.ts'
import type { RateLimitWindow, Store, TokenGrant } from '../store/store.ts'
import { callKey, findCall, fingerprintOf } from '../records/calls.ts'
import { hasIdempotencyKey, idempotencyKeyOf, NS } from '../protocol/meta-keys.ts'
import { isVendorRequest, method as known } from '../protocol/methods.ts'
import type { Feature, SettingsOf } from './feature.ts'
import type { Services } from './feature.ts'

type Deps = Pick<Services, 'store' | 'servers' | 'gateway'>

interface Settings {
  readonly rate?: string | readonly string[]
}

/** Bounds how often each caller may call: in all, each server, and each tool. */
export const rateLimit: Feature<Settings> = {
  name: 'rate_limit',
  place: 'limits',
  schema: {
    type: 'object',
    properties: {
      rate: {
        ...rateSchema,
        pattern: `^off$|${rateSchema.pattern}`,
        errorMessage: 'must be off, a rate such as 10/minute or 100/10s, or a list of rates',
        description: `How often each caller may call, in any stretch of time: one rate, or several that all hold. Where it is not given, ${DEFAULT_RATE} with authentication or the corporate profile, else off.`,
        examples: ['60/minute', ['10/second', '1000/day']],
      },
    },
  },
  create: (settings, deps) => {
    const bucketsFor = bucketFinder()
    // One request for a list may be several, to all servers together: all get what the first one got.
    const listed = new WeakMap<object, TokenGrant | Promise<TokenGrant>>()
    return {
      toolFacts: ({ upstream, name }) => {
        const tools = deps.servers.settings(upstream)?.tools
        const own = tools && settingOf(tools, name, 'rate')?.value
        return own === undefined ? {} : { rates: [own].flat() }
      },
      remainingQuota: async (target, { id }) => {
        const limits = limitsOf(target, settings, deps)
        if (limits.length === 0) return undefined
        const taken = await deps.store.peekTokens(bucketsOf(limits, id))
        const at = leastAt(limits, taken)
        const [remaining = 0, left = 0] = [taken.remaining[at], taken.reset[at]]
        // Where nothing was spent yet, whatever is spent now is there again after a whole window.
        const reset = left > 0 ? left : (limits[at]?.window ?? 0)
        // The same time whenever it is asked for: no answer differs from the last by a few milliseconds.
        const resetsAt = Math.ceil((Date.now() + reset) / 1000) * 1000
        return { remaining, resetsAt, of: 'limit' }
      },
      middleware: (target) => {
        const limits = limitsOf(target, settings, deps)
        if (limits.length === 0) return undefined
        const isList = known(target.method).list !== undefined
        const isTool = target.method === 'tools/call' && target.isBuiltin !== true
        const isVendor = isVendorRequest(target.method)
        return (next) => {
          const go = (call: Call, taken: TokenGrant): Promise<Outcome> => {
            const standing = standingOf(limits, taken)
            call.rateLimitReporter?.reportRateLimit?.(standing)
            if (!taken.isGranted) return Promise.reject(refusal(call, standing, taken))
            const refused = (error: unknown): Promise<never> => uncharged(call, error, { limits, deps })
            // What the result of another's method may hold is not known.
            if (isVendor) return next(call).catch(refused)
            return next(call).then((outcome) => concluded(outcome, standing, deps.store), refused)
          }
          const charge = (call: Call): Promise<Outcome> => {
            const taken = deps.store.takeTokens(bucketsFor(limits, call.principal.id))
            if (isList) listed.set(call.logFields, taken)
            return taken instanceof Promise ? taken.then((each) => go(call, each)) : go(call, taken)
          }
          const share = (call: Call, taken: TokenGrant): Promise<Outcome> =>
            taken.isGranted ? next(call) : Promise.reject(refusal(call, standingOf(limits, taken), taken))
          const resume = async (call: Call, ticket: string): Promise<Outcome> => {
            if (!(await isPaid(deps.store, ticket))) return charge(call)
            const outcome = await next(call).catch((error: unknown) =>
              isUnconfirmed(error) ? uncharged(call, error, { limits, deps }) : Promise.reject(error),
            )
            return outcome.kind === 'input_required' ? withTicket(outcome, deps.store) : outcome
          }
          const isKeyed = (call: Call): boolean => isTool && hasIdempotencyKey(call)
          const unlessReplay = async (call: Call): Promise<Outcome> =>
            (await isReplay(call, target.upstream, deps.store)) ? next(call) : charge(call)
          return (call) => {
            if (call.internal) return next(call)
            const ticket = call.requestState[STATE_KEY]
            if (typeof ticket === 'string') return resume(call, ticket)
            const taken = isList ? listed.get(call.logFields) : undefined
            if (taken === undefined) return isKeyed(call) ? unlessReplay(call) : charge(call)
            return taken instanceof Promise ? taken.then((each) => share(call, each)) : share(call, taken)
          }
        }
      },
    }
  },
}

/** A rate that applies to a target. */
interface Limit extends Rate {
  readonly scope: 'principal' | 'upstream' | 'tool'
  /** What follows the caller in the key of its bucket. */
  readonly suffix: string
  /** Its name for callers. */
  readonly name: string
}

/** How many refused calls of a caller cost nothing, in any stretch of time. Those beyond it are charged as calls. */
const FREE_REFUSALS: Rate = { limit: 60, window: 60_000 }

/** A call its server never heard of is not charged, as long as its caller has not too many of them. @throws the error */
async function uncharged(
  call: Call,
  error: unknown,
  { limits, deps }: { readonly limits: readonly Limit[]; readonly deps: Deps },
): Promise<never> {
  if (!isGatewayRefusal(error)) throw error
  const buckets = bucketsOf(limits, call.principal.id).map((bucket) => ({
    ...bucket,
    isReturn: true as const,
  }))
  const refusals = { key: `${ownerOf(call.principal.id)}}:refused`, ...FREE_REFUSALS }
  const left = await deps.store.takeTokens([...buckets, refusals])
  if (left.isGranted) call.rateLimitReporter?.reportRateLimit?.(standingOf(limits, left))
  throw error
}

/** Whether a person did not agree to a call: it asked its own question, and was charged before that. */
function isUnconfirmed(error: unknown): boolean {
  return isGatewayRefusal(error) && error.code.startsWith('CONFIRMATION_')
}

interface Limited extends RateLimitStatus {
  readonly scope: Limit['scope']
}

const charged: ReadonlySet<string> = new Set([
  'tools/call',
  'prompts/get',
  'resources/read',
  'completion/complete',
])

function limitsOf({ upstream, method, name }: Target, settings: SettingsOf<Settings>, deps: Deps): Limit[] {
  const isCharged = charged.has(method) || isVendorRequest(method)
  if (!isCharged && known(method).list === undefined) return []
  const own = upstream === undefined ? undefined : settings(upstream).rate
  const { together, alone } = limitScope(
    settings().rate,
    own,
    deps.gateway.isGuarded ? DEFAULT_RATE : undefined,
  )
  const all = together === undefined ? [] : limitsFrom(together, 'principal', 'all')
  if (!isCharged || upstream === undefined) return all
  const server = alone === undefined ? [] : limitsFrom(alone, 'upstream', upstream)
  const tools = deps.servers.settings(upstream)?.tools
  const rule =
    method === 'tools/call' && name !== undefined && tools ? settingOf(tools, name, 'rate') : undefined
  if (!rule || name === undefined) return [...all, ...server]
  // Names no server has are as long and as many as a caller likes.
  const key = name.length > 128 ? rule.glob : name
  return [...all, ...server, ...limitsFrom(rule.value, 'tool', `${upstream}/${key}`)]
}

function limitsFrom(written: string | readonly string[], scope: Limit['scope'], of: string): Limit[] {
  return rates(written).map(({ limit, window }) => {
    const seconds = window / 1000
    return { limit, window, scope, name: `${scope}-${seconds}s`, suffix: `}:${scope}:${window}:${of}` }
  })
}

/** Names that cannot be taken for a part of a key, nor for another name that was encoded. */
const plain = /^[\w.:@|-]+$/

/** The buckets of a caller. It is who calls that counts, never the session. */
function bucketsOf(limits: readonly Limit[], principal: string): RateLimitWindow[] {
  const owner = ownerOf(principal)
  return limits.map(({ limit, window, suffix }) => ({ key: owner + suffix, limit, window }))
}

/** What the keys of a caller's buckets begin with. */
function ownerOf(principal: string): string {
  return `rate:{${plain.test(principal) ? principal : encodeURIComponent(principal)}`
}

/** How many callers' buckets are remembered at a time. */
const MAX_CACHED_CALLERS = 1000

/** Finds the buckets of a caller; those of the last callers need not be made again. */
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

/** The limit with the least left; of those with nothing left, that with the longest wait. */
function leastAt(limits: readonly Limit[], { remaining, wait }: TokenGrant): number {
  let at = 0
  for (let index = 1; index < limits.length; index++) {
    const [left = 0, least = 0] = [remaining[index], remaining[at]]
    if (left < least || (left === least && (wait[index] ?? 0) > (wait[at] ?? 0))) at = index
  }
  return at
}

/** Where a caller stands with that limit. */
function standingOf(limits: readonly Limit[], taken: TokenGrant): Limited {
  const { remaining, reset } = taken
  const at = leastAt(limits, taken)
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

function refusal(call: Call, standing: Limited, taken: TokenGrant): GatewayError {
  const { limit, window, remaining, scope } = standing
  const seconds = Math.max(1, Math.ceil(Math.max(...taken.wait) / 1000))
  call.logFields.set('limited_by', scope)
  const what = { principal: 'calls', upstream: 'calls to this server', tool: 'calls of this tool' }[scope]
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

/** Whether a call was made before under its key, so that nothing is done for it but to tell again what came of it. */
async function isReplay(call: Call, upstream: string | undefined, store: Store): Promise<boolean> {
  try {
    if (upstream === undefined) return false
    const found = await findCall(store, callKey(call.principal.id, upstream, idempotencyKeyOf(call)))
    const { name, arguments: given } = call.params.fields
    if (!found || found.record.state === 'unknown') return false
    return found.record.fingerprint === fingerprintOf(String(name), given)
  } catch {
    // What is wrong with the key, or with the store, is said by those whose it is.
    return false
  }
}

/** The slot of a call's state that says its first round was charged. */
const STATE_KEY = 'rate'
/** How long answers may take until they are charged again, in milliseconds. */
const INPUT_WAIT_MS = 900_000

/** What a result says of the limit in its `_meta`. */
const META_KEY = `${NS}/rate_limit`

/** A result says what is left. Answers to questions are the same call, so they are not charged, once. */
function concluded(outcome: Outcome, standing: RateLimitStatus, store: Store): Outcome | Promise<Outcome> {
  if (outcome.kind === 'input_required') return withTicket(outcome, store)
  const { limit, remaining, reset } = standing
  // Each call reports it: a template is cheaper than an encoder.
  const text = `{"limit":${limit},"remaining":${remaining},"reset_seconds":${reset}}`
  const said = Payload.text(text, { limit, remaining, reset_seconds: reset })
  return { kind: 'result', result: outcome.result.withMeta(only(META_KEY, said)) }
}

async function withTicket(outcome: Outcome & { kind: 'input_required' }, store: Store): Promise<Outcome> {
  const ticket = randomUUID()
  try {
    await store.put(ticketKey(ticket), '1', INPUT_WAIT_MS)
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: ticket } }
  } catch {
    // Without a store a used ticket cannot be told from a fresh one: the retry is charged.
    return outcome
  }
}

async function isPaid(store: Store, ticket: string): Promise<boolean> {
  return store.delete(ticketKey(ticket)).catch(() => false)
}

function ticketKey(ticket: string): string {
  return `rate:ticket:${ticket}`
}
