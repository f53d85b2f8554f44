/** Charges calls that have a cost to the caller's budget. Calls that were not executed are refunded. */
import type { Finding } from '../../core/findings.ts'
import { world } from '../../core/world.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Quota, Cost } from '../../core/descriptor.ts'
import { withFinding } from '../../core/dry-run.ts'
import { GatewayError } from '../../core/error.ts'
import { canonical } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import { Collection, type RecordKind } from '../../durable/collection.ts'
import { callerHash } from '../../records/principal.ts'
import type { Store } from '../../store/store.ts'
import { type Feature, type SettingsOf, type Services, toolSetting } from '../feature.ts'
import { remainingQuotas, toolFacts, publish } from '../offers.ts'
import { type Budget, PERIOD_MS, type CostSettings, costSchema } from '../settings/effect.ts'

// Budgets of callers in the store, per period.

const MINUTE_MS = 60_000

/** The log field of a call with the remaining budget of its caller: a `Quota`. */
export const REMAINING_FIELD = 'budget'

/** The scope of the budget that calls to all servers share. */
const SHARED_SCOPE = 'all'

/** The spending of callers against one budget. */
class Account {
  readonly #spending: Collection<Spending>
  readonly #budget: Budget
  readonly #scope: string

  /** `scope` distinguishes budgets: of one server, or of all. */
  constructor(store: Store, budget: Budget, scope: string) {
    this.#spending = new Collection(store, spendingKind)
    this.#budget = budget
    this.#scope = scope
  }

  /** How many units there are in a period. */
  get limit(): number {
    return this.#budget.units
  }

  /** Whether calls to all servers are charged to it. */
  get isShared(): boolean {
    return this.#scope === SHARED_SCOPE
  }

  /** What a caller has left before a call. @throws QUOTA_EXHAUSTED if that is not enough, errors of the store */
  async check(principal: string, units: number, now: number): Promise<Quota> {
    const left = await this.remaining(principal, now)
    const { units: limit } = this.#budget
    const resetsAt = this.#end(now)
    if (units > left.remaining)
      throw this.#exhausted({ used: rounded(limit - left.remaining), units, resetsAt, now })
    return left
  }

  /** Charges units to a caller; negative units are a refund. @throws QUOTA_EXHAUSTED, errors of the store */
  spend(principal: string, units: number, now: number): Promise<Quota> {
    const { units: limit } = this.#budget
    const resetsAt = this.#end(now)
    const spent = (before: Spending = { units: 0 }): readonly [Spending, Quota] => {
      const { units: used } = before
      const after = rounded(Math.max(0, used + units))
      if (units > 0 && after > limit) throw this.#exhausted({ used, units, resetsAt, now })
      return [{ units: after }, { remaining: rounded(limit - after), resetsAt }]
    }
    return this.#spending.change(this.#idOf(principal, resetsAt), spent, resetsAt - now + MINUTE_MS)
  }

  /** The remaining quota of a caller. @throws errors of the store */
  async remaining(principal: string, now: number): Promise<Quota> {
    const resetsAt = this.#end(now)
    const { units: used } = (await this.#spending.get(this.#idOf(principal, resetsAt))) ?? { units: 0 }
    return { remaining: rounded(Math.max(0, this.#budget.units - used)), resetsAt }
  }

  /** The key of what a caller spends in the period that ends at a time. */
  keyFor(principal: string, resetsAt: number): string {
    return this.#spending.keyOf(this.#idOf(principal, resetsAt))
  }

  #idOf(principal: string, resetsAt: number): string {
    return `${callerHash(principal)}:${this.#scope}:${resetsAt}`
  }

  #end(now: number): number {
    const length = PERIOD_MS[this.#budget.per]
    return (Math.floor(now / length) + 1) * length
  }

  #exhausted(spent: { used: number; units: number; resetsAt: number; now: number }): GatewayError {
    const { units: limit, per, label } = this.#budget
    const { used, units, resetsAt, now } = spent
    const resets = new Date(resetsAt).toISOString()
    const what = label === undefined ? 'units' : label
    return new GatewayError(
      'QUOTA_EXHAUSTED',
      `This call costs ${units} ${what}, and ${rounded(limit - used)} of ${limit} are left for this ${per}.`,
      {
        suggestion: `Try again after ${resets}, or ask the operator for a larger budget.`,
        retryAfterSeconds: Math.max(1, Math.ceil((resetsAt - now) / 1000)),
        details: { limit, used, units, per, resets_at: resets },
        status: 429,
      },
    )
  }
}

/** What a caller spent in one period. */
interface Spending {
  readonly units: number
}

const spendingKind: RecordKind<Spending> = {
  name: 'budget',
  prefix: 'budget:',
  encode: ({ units }) => String(units),
  decode: (text) => ({ units: Number(text) }),
  busy: () =>
    new GatewayError('SERVER_UNAVAILABLE', 'Too many concurrent calls of one caller spend from its budget.'),
}

/** Sums of decimals are inexact. */
function rounded(units: number): number {
  return Math.round(units * 1e6) / 1e6
}

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'features'>

/** Declares what calls cost, as configured, and limits callers to a budget. */
export const cost: Feature<CostSettings> = {
  ...costSchema,
  create: (settings, deps) => ({
    calls: {
      middleware: ({ upstream, method, name, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
          return undefined
        const price = toolSetting(deps, upstream, name, 'cost')
        const account = accountOf(upstream, price, settings, deps)
        const units = unitsOf(price)
        if (!account || units === 0) return undefined
        const context = { account, units, deps, upstream, tool: name }
        return (next) => (call) => (call.internal ? next(call) : charge(call, { ...context, next }))
      },
      dryRun: ({ upstream, name, isBuiltin }) => {
        if (isBuiltin || upstream === undefined || name === undefined) return undefined
        const price = toolSetting(deps, upstream, name, 'cost')
        if (!price) return undefined
        const account = accountOf(upstream, price, settings, deps)
        return (next) => async (call) => {
          const left = await leftBefore(call, account, unitsOf(price), deps)
          return next(withFinding(call, { cost: { ...price, ...(left && { left }) } }))
        }
      },
    },
    offers: [
      remainingQuotas.offer(async ({ upstream, name }, { id }) => {
        if (upstream === undefined || name === undefined) return undefined
        const price = toolSetting(deps, upstream, name, 'cost')
        const account = accountOf(upstream, price, settings, deps)
        if (!account || unitsOf(price) === 0) return undefined
        return { ...(await account.remaining(id, world.now())), of: 'budget' }
      }),
      toolFacts.offer(({ upstream, name }) => {
        const price = toolSetting(deps, upstream, name, 'cost')
        return price ? { cost: price } : {}
      }),
    ],
    problems: async () => deps.servers.names().flatMap((upstream) => approvalProblems(upstream, deps)),
  }),
}

/** How many units a call takes from a budget: free calls take none. */
function unitsOf(price: Cost | undefined): number {
  return price === undefined || price.category === 'free' ? 0 : (price.units ?? 0)
}

function accountOf(
  upstream: string,
  price: Cost | undefined,
  settings: SettingsOf<CostSettings>,
  { store }: Deps,
): Account | undefined {
  const { budget } = settings(upstream)
  if (!budget || !price || (budget.label !== undefined && budget.label !== price.label)) return undefined
  // A server with its own budget has its own account.
  const isShared = canonical(budget) === canonical(settings().budget)
  return new Account(store, budget, isShared ? SHARED_SCOPE : upstream)
}

interface ChargeContext {
  readonly next: Handler
  readonly account: Account
  readonly units: number
  readonly deps: Deps
  readonly upstream: string
  readonly tool: string
}

/** Charges a call before it runs, and refunds it if it was not executed. */
async function charge(call: Call, context: ChargeContext): Promise<Outcome> {
  const { next, account, units, deps } = context
  const { id } = call.principal
  const at = world.now()
  const remaining = await account.spend(id, units, at).catch((error: unknown) => {
    if (error instanceof GatewayError && error.code === 'QUOTA_EXHAUSTED') throw error
    // Costs are estimates: an unavailable store does not stop calls.
    deps.log.warn('cost.uncounted', { reason: String(error) })
  })
  if (!remaining) return next(call)
  const refund = (): void => background(account.spend(id, -units, at), deps.log)
  try {
    const outcome = await next(call)
    if (isExecuted(outcome)) {
      call.logFields.set(REMAINING_FIELD, remaining)
      publishLow(id, remaining, context)
    } else refund()
    return outcome
  } catch (error) {
    if (isNotExecuted(error)) refund()
    throw error
  }
}

/** What a caller has left before a call; undefined without a budget, or if it is unknown. @throws QUOTA_EXHAUSTED */
async function leftBefore(
  { principal }: Call,
  account: Account | undefined,
  units: number,
  { log }: Deps,
): Promise<Quota | undefined> {
  if (!account || units === 0) return undefined
  return account.check(principal.id, units, world.now()).catch((error: unknown) => {
    if (error instanceof GatewayError && error.code === 'QUOTA_EXHAUSTED') throw error
    log.warn('cost.uncounted', { reason: String(error) })
    return undefined
  })
}

/** Publishes once in each period that a call has left less than a tenth of the budget. */
function publishLow(caller: string, { remaining, resetsAt }: Quota, context: ChargeContext): void {
  const { account, units, upstream, tool, deps } = context
  const { limit } = account
  if (resetsAt === undefined || remaining >= limit / 10 || remaining + units < limit / 10) return
  const resets = new Date(resetsAt).toISOString()
  const server = account.isShared ? {} : { server: upstream }
  publish(deps, undefined, {
    name: 'quota_low',
    caller,
    data: { limit: 'budget', remaining, of: limit, resets_at: resets, ...server, tool },
    once: { key: account.keyFor(caller, resetsAt), for: Math.max(1, resetsAt - world.now()) },
  })
}

/** A call that requests input, or goes on as a task of its server, is made again and charged then. */
function isExecuted(outcome: Outcome): boolean {
  if (outcome.kind !== 'result') return false
  const { result } = outcome
  return !(result.member('isError') === true && result.meta(CONFIRMATION_KEY) !== undefined)
}

function isNotExecuted(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false
  const { code, extra } = error
  return extra.isUnsent === true || code.startsWith('CONFIRMATION_') || code === 'COMPENSATION_UNAVAILABLE'
}

/** Tools that require approval need the feature `confirm`. */
function approvalProblems(upstream: string, deps: Deps): Finding[] {
  const tools = deps.servers.settings(upstream)?.tools ?? {}
  if (deps.features.isOn('confirm', upstream)) return []
  return Object.entries(tools)
    .filter(([, tool]) => tool.cost?.category === 'requires_approval')
    .map(([glob]) => ({
      path: ['upstreams', upstream, 'tools', glob, 'cost'],
      message: 'requires approval, but the feature `confirm` is off',
    }))
}
