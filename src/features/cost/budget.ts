/** Budgets of callers in the store, by stretches of time. */
import { GatewayError } from '../../core/error.ts'
import type { Quota } from '../../core/descriptor.ts'
import { callerHash } from '../../records/principal.ts'
import { casUpdate, type CasUpdate } from '../../records/cas-update.ts'
import type { Store } from '../../store/store.ts'

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
export const stretches = Object.keys(lengths)

/** The fact of a call that says what is left of the budget of its caller: a `Quota`. */
export const LEFT = 'budget'

/** What callers have spent of one budget. */
export class Account {
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
