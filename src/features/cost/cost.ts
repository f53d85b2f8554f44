/** Charges calls that have a cost to the caller's budget. Calls that were not executed are refunded. */
import type { Finding } from '../../core/findings.ts'
import { world } from '../../core/world.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Quota, Cost } from '../../core/descriptor.ts'
import { withFinding } from '../../core/dry-run.ts'
import { GatewayError } from '../../core/error.ts'
import { canonical } from '../../core/json/json.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { background } from '../../core/log.ts'
import { type Decimal, decimalOf, decimalText, ZERO } from '../../core/json/exact-number.ts'
import { type Feature, type SettingsOf, type Services, toolSetting } from '../feature.ts'
import { remainingQuotas, toolFacts, publish } from '../offers.ts'
import { type CostSettings, costSchema } from '../settings/effect.ts'
import { Account, settled } from './account.ts'

/** The log field of a call with the remaining budget of its caller: a `Quota`. */
export const REMAINING_FIELD = 'budget'

/** The scope of the budget that calls to all servers share. */
const SHARED_SCOPE = 'all'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'features'>

/** Declares what calls cost, as configured, and limits callers to a budget. */
export const cost: Feature<CostSettings> = {
  ...costSchema,
  create: (settings, deps) => ({
    calls: {
      judgesArguments: true,
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
  const { units, per, label = 'units' } = budget
  const limit = decimalOf(units) ?? ZERO
  return new Account(store, { limit, per, what: label }, isShared ? SHARED_SCOPE : upstream)
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
function charge(call: Call, context: ChargeContext): Promise<Outcome> {
  const { next, account, units, deps } = context
  const { id } = call.principal
  const at = world.now()
  return settled(call, next, {
    reserve: () =>
      account.spend(id, amountOf(units), at).catch((error: unknown) => {
        if (error instanceof GatewayError && error.code === 'QUOTA_EXHAUSTED') throw error
        // Costs are estimates: an unavailable store does not stop calls.
        deps.log.warn('cost.uncounted', { reason: String(error) })
        return undefined
      }),
    refund: () => background(account.spend(id, amountOf(-units), at), deps.log),
    executed: (remaining) => {
      call.logFields.set(REMAINING_FIELD, remaining)
      publishLow(id, remaining, context)
    },
  })
}

function amountOf(units: number): Decimal {
  return decimalOf(units) ?? ZERO
}

/** What a caller has left before a call; undefined without a budget, or if it is unknown. @throws QUOTA_EXHAUSTED */
async function leftBefore(
  { principal }: Call,
  account: Account | undefined,
  units: number,
  { log }: Deps,
): Promise<Quota | undefined> {
  if (!account || units === 0) return undefined
  return account.check(principal.id, amountOf(units), world.now()).catch((error: unknown) => {
    if (error instanceof GatewayError && error.code === 'QUOTA_EXHAUSTED') throw error
    log.warn('cost.uncounted', { reason: String(error) })
    return undefined
  })
}

/** Publishes once in each period that a call has left less than a tenth of the budget. */
function publishLow(caller: string, { remaining, resetsAt }: Quota, context: ChargeContext): void {
  const { account, units, upstream, tool, deps } = context
  const limit = Number(decimalText(account.limit))
  if (resetsAt === undefined || remaining >= limit / 10 || remaining + units < limit / 10) return
  const resets = isoTime(resetsAt)
  const server = account.scope === SHARED_SCOPE ? {} : { server: upstream }
  publish(deps, undefined, {
    name: 'quota_low',
    caller,
    data: { limit: 'budget', remaining, of: limit, resets_at: resets, ...server, tool },
    once: { key: account.keyFor(caller, resetsAt), for: Math.max(1, resetsAt - world.now()) },
  })
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
