/** Charges calls that cost something to the caller's budget. What was not done is not paid. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { canonical } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import type { Cost } from '../../core/descriptor.ts'
import { settingOf } from '../../core/settings.ts'
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../services.ts'
import { Account, type Budget, LEFT, stretches } from './budget.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'features'>

interface Settings {
  readonly budget?: Budget
}

/** Says what calls cost, as their owner says, and keeps callers within a budget where there is one. */
export const cost: Feature<Settings> = {
  name: 'cost',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      budget: {
        type: 'object',
        required: ['units', 'per'],
        additionalProperties: false,
        errorMessage: 'must be a mapping such as { units: 100, per: day }',
        properties: {
          units: { type: 'number', minimum: 0, errorMessage: 'must be a number', description: 'How many.' },
          per: {
            enum: stretches,
            errorMessage: `must be one of ${stretches.join(', ')}`,
            description: 'In what time; it begins anew at the full one, UTC.',
          },
          label: {
            type: 'string',
            minLength: 1,
            errorMessage: 'must be text',
            description: 'Only costs with this label count; all that have units unless given.',
          },
        },
        description: 'How many units each caller may spend. A call that would cost more is refused.',
        examples: [{ units: 100, per: 'day' }],
      },
    },
  },
  create: (settings, deps) => ({
    middleware: ({ upstream, method, name, isBuiltin }) => {
      if (method !== 'tools/call' || isBuiltin || upstream === undefined || name === undefined)
        return undefined
      const price = costOf(upstream, name, deps)
      const account = accountOf(upstream, price, settings, deps)
      const units = unitsOf(price)
      if (!account || units === 0) return undefined
      return (next) => (call) => (call.internal ? next(call) : charged(call, { next, account, units, deps }))
    },
    remainingQuota: async ({ upstream, name }, { id }) => {
      if (upstream === undefined || name === undefined) return undefined
      const price = costOf(upstream, name, deps)
      const account = accountOf(upstream, price, settings, deps)
      if (!account || unitsOf(price) === 0) return undefined
      return { ...(await account.left(id, Date.now())), of: 'budget' }
    },
    toolFacts: ({ upstream, name }) => {
      const price = costOf(upstream, name, deps)
      return price ? { cost: price } : {}
    },
    problems: async () => deps.servers.names().flatMap((upstream) => unapproved(upstream, deps)),
  }),
}

/** How many units a call takes of a budget: what is free takes none, whatever it would be in units. */
function unitsOf(price: Cost | undefined): number {
  return price === undefined || price.category === 'free' ? 0 : (price.units ?? 0)
}

/** What a call of a tool costs, as its owner says. */
function costOf(upstream: string, name: string, deps: Deps): Cost | undefined {
  const tools = deps.servers.settings(upstream)?.tools
  return tools && settingOf(tools, name, 'cost')?.value
}

function accountOf(
  upstream: string,
  price: Cost | undefined,
  settings: SettingsOf<Settings>,
  { store }: Deps,
): Account | undefined {
  const { budget } = settings(upstream)
  if (!budget || !price || (budget.label !== undefined && budget.label !== price.label)) return undefined
  // A server with a budget of its own has its own account.
  const isCommon = canonical(budget) === canonical(settings().budget)
  return new Account(store, budget, isCommon ? 'all' : upstream)
}

interface Charging {
  readonly next: Handler
  readonly account: Account
  readonly units: number
  readonly deps: Deps
}

/** Charges a call before it is made, and gives back what was charged for one that was not. */
async function charged(call: Call, { next, account, units, deps }: Charging): Promise<Outcome> {
  const { id } = call.principal
  const at = Date.now()
  const left = await account.spend(id, units, at).catch((error: unknown) => {
    if (error instanceof GatewayError && error.code === 'QUOTA_EXHAUSTED') throw error
    // Costs are estimates: a store that is away is no reason to stop.
    deps.log.warn('cost.uncounted', { reason: String(error) })
  })
  if (!left) return next(call)
  const giveBack = (): void => background(account.spend(id, -units, at), deps.log)
  try {
    const outcome = await next(call)
    if (isMade(outcome)) call.logFields.set(LEFT, left)
    else giveBack()
    return outcome
  } catch (error) {
    if (isUnmade(error)) giveBack()
    throw error
  }
}

/** What asks is not done yet, be it the server or the gateway. */
function isMade(outcome: Outcome): boolean {
  if (outcome.kind === 'input_required') return false
  const { result } = outcome
  return !(result.member('isError') === true && result.meta(CONFIRMATION_KEY) !== undefined)
}

function isUnmade(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false
  const { code, extra } = error
  return extra.isUnsent === true || code.startsWith('CONFIRMATION_') || code === 'COMPENSATION_UNAVAILABLE'
}

/** What requires approval has to be asked about. */
function unapproved(upstream: string, deps: Deps): Finding[] {
  const tools = deps.servers.settings(upstream)?.tools ?? {}
  if (deps.features.isOn('confirm', upstream)) return []
  return Object.entries(tools)
    .filter(([, tool]) => tool.cost?.category === 'requires_approval')
    .map(([glob]) => ({
      path: ['upstreams', upstream, 'tools', glob, 'cost'],
      message: 'requires approval, but the feature `confirm` that asks for it is off',
    }))
}
