/** Charges calls that cost something to the caller's budget. What was not done is not paid. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Quota, Cost } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { canonical } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import { settingOf } from '../../core/settings.ts'
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import { casUpdate, type CasUpdate } from '../../records/cas-update.ts'
import { callerHash } from '../../records/principal.ts'
import type { Store } from '../../store/store.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../feature.ts'

// Budgets of callers in the store, by stretches of time.

/** How many units each caller may spend in a time. */
export interface Budget {
  readonly units: number
  readonly per: keyof typeof lengths
  /** Only what is counted under this name; everything that has units where it is absent. */
  readonly label?: string
}

const MINUTE_MS = 60_000
const lengths = {
  minute: MINUTE_MS,
  hour: 60 * MINUTE_MS,
  day: 1440 * MINUTE_MS,
  week: 7 * 1440 * MINUTE_MS,
} as const

/** The stretches of time a budget can be for; each begins anew at a full one, UTC. */
const stretches = Object.keys(lengths)

/** The fact of a call that says what is left of the budget of its caller: a `Quota`. */
export const LEFT = 'budget'

/** What callers have spent of one budget. */
class Account {
  readonly #store: Store
  readonly #budget: Budget
  readonly #scope: string

  /** `scope` tells budgets apart: that of one server, or of all. */
  constructor(store: Store, budget: Budget, scope: string) {
    this.#store = store
    this.#budget = budget
    this.#scope = scope
  }

  /** Spends units of a caller; negative ones are given back. @throws QUOTA_EXHAUSTED, and what the store throws */
  spend(principal: string, units: number, now: number): Promise<Quota> {
    const { units: limit } = this.#budget
    const resetsAt = this.#end(now)
    const look = (text: string | undefined): CasUpdate<Quota> => {
      const used = Number(text ?? 0)
      const after = rounded(Math.max(0, used + units))
      if (units > 0 && after > limit) throw this.#exhausted({ used, units, resetsAt, now })
      const write = { text: String(after), ttl: resetsAt - now + MINUTE_MS }
      return { result: { remaining: rounded(limit - after), resetsAt }, write }
    }
    return casUpdate(this.#store, this.#key(principal, resetsAt), look, () => {
      throw new GatewayError('SERVER_UNAVAILABLE', 'Too many calls of one caller spend at the same time.')
    })
  }

  /** What is left to a caller. @throws what the store throws */
  async left(principal: string, now: number): Promise<Quota> {
    const resetsAt = this.#end(now)
    const used = Number((await this.#store.get(this.#key(principal, resetsAt))) ?? 0)
    return { remaining: rounded(Math.max(0, this.#budget.units - used)), resetsAt }
  }

  #key(principal: string, resetsAt: number): string {
    return `budget:${callerHash(principal)}:${this.#scope}:${resetsAt}`
  }

  #end(now: number): number {
    const length = lengths[this.#budget.per]
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

/** Sums of decimals are not exact. */
function rounded(units: number): number {
  return Math.round(units * 1e6) / 1e6
}

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
