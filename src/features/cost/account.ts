/** What callers may spend in a period, kept in the store, and how a call is charged: before it runs, and refunded if it did not. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Quota } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { reservationSlot } from '../../core/slot.ts'
import { type Decimal, decimalOf, decimalText, isMore, plus, ZERO } from '../../core/json/exact-number.ts'
import { Collection, type RecordKind } from '../../durable/collection.ts'
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import { callerHash } from '../../records/principal.ts'
import { isoTime } from '../../core/time/waiting.ts'
import type { Store } from '../../store/store.ts'
import { PERIOD_MS } from '../settings/effect.ts'

const MINUTE_MS = 60_000

/** How much may be spent in each period; `what` names it in messages. */
export interface Allowance {
  readonly limit: Decimal
  readonly per: keyof typeof PERIOD_MS
  readonly what: string
}

/** The spending of callers against one allowance. Amounts are exact. */
export class Account {
  /** Distinguishes accounts, such as those of several servers. */
  readonly scope: string
  readonly #spending: Collection<Spending>
  readonly #allowance: Allowance

  constructor(store: Store, allowance: Allowance, scope: string) {
    this.#spending = new Collection(store, spendingKind)
    this.#allowance = allowance
    this.scope = scope
  }

  /** How much there is in a period. */
  get limit(): Decimal {
    return this.#allowance.limit
  }

  /** What a caller has left before a call. @throws QUOTA_EXHAUSTED if that is not enough, errors of the store */
  async check(caller: string, amount: Decimal, now: number): Promise<Quota> {
    const resetsAt = this.#end(now)
    const { spent } = (await this.#spending.get(this.#idOf(caller, resetsAt))) ?? NOTHING
    if (isMore(plus(spent, amount), this.limit)) throw this.#exhausted(spent, amount, now)
    return this.#left(spent, resetsAt)
  }

  /** Charges an amount to a caller; a negative one is a refund. @throws QUOTA_EXHAUSTED, errors of the store */
  spend(caller: string, amount: Decimal, now: number): Promise<Quota> {
    const resetsAt = this.#end(now)
    const change = ({ spent } = NOTHING): readonly [Spending, Quota] => {
      const sum = plus(spent, amount)
      if (amount.digits > 0n && isMore(sum, this.limit)) throw this.#exhausted(spent, amount, now)
      const after = sum.digits < 0n ? ZERO : sum
      return [{ spent: after }, this.#left(after, resetsAt)]
    }
    return this.#spending.change(this.#idOf(caller, resetsAt), change, resetsAt - now + MINUTE_MS)
  }

  /** The remaining quota of a caller. @throws errors of the store */
  remaining(caller: string, now: number): Promise<Quota> {
    const resetsAt = this.#end(now)
    return this.#spending
      .get(this.#idOf(caller, resetsAt))
      .then(({ spent } = NOTHING) => this.#left(spent, resetsAt))
  }

  /** The key of what a caller spends in the period that ends at a time. */
  keyFor(caller: string, resetsAt: number): string {
    return this.#spending.keyOf(this.#idOf(caller, resetsAt))
  }

  #left(spent: Decimal, resetsAt: number): Quota {
    return { remaining: Math.max(0, Number(decimalText(plus(this.limit, spent, -1n)))), resetsAt }
  }

  #idOf(caller: string, resetsAt: number): string {
    return `${callerHash(caller)}:${this.scope}:${resetsAt}`
  }

  #end(now: number): number {
    const length = PERIOD_MS[this.#allowance.per]
    return (Math.floor(now / length) + 1) * length
  }

  #exhausted(spent: Decimal, amount: Decimal, now: number): GatewayError {
    const { limit, per, what } = this.#allowance
    const resetsAt = this.#end(now)
    const resets = isoTime(resetsAt)
    const left = decimalText(plus(limit, spent, -1n))
    return new GatewayError(
      'QUOTA_EXHAUSTED',
      `This call costs ${decimalText(amount)} ${what}, and ${left} of ${decimalText(limit)} are left for this ${per}.`,
      {
        suggestion: `Try again after ${resets}, or ask the operator for a larger budget.`,
        retryAfterSeconds: Math.max(1, Math.ceil((resetsAt - now) / 1000)),
        details: {
          limit: Number(decimalText(limit)),
          used: Number(decimalText(spent)),
          units: Number(decimalText(amount)),
          per,
          resets_at: resets,
        },
        status: 429,
      },
    )
  }
}

/** What a caller spent in one period. */
interface Spending {
  readonly spent: Decimal
}

const NOTHING: Spending = { spent: ZERO }

const spendingKind: RecordKind<Spending> = {
  name: 'budget',
  prefix: 'budget:',
  encode: ({ spent }) => decimalText(spent),
  decode: (text) => ({ spent: decimalOf(text) ?? decimalOf(Number(text)) ?? ZERO }),
  busy: () =>
    new GatewayError('SERVER_UNAVAILABLE', 'Too many concurrent calls of one caller spend from its budget.'),
}

/** What is taken before a call, given back if it was not executed, and done if it was. */
interface Charge<Taken> {
  /** @throws the refusal of the call */
  reserve(): Promise<Taken | undefined>
  refund(): void | Promise<void>
  executed?(taken: Taken): void
}

/** In the request state of a call that is charged already, as its server runs it as a task. */
const CHARGED_KEY = 'charged'

/** Makes a call that is charged. */
export async function settled<Taken>(call: Call, next: Handler, charge: Charge<Taken>): Promise<Outcome> {
  if (call.requestState[CHARGED_KEY] === true) return asCharged(await next(call))
  const taken = await charge.reserve()
  if (taken === undefined) return next(call)
  let isReserved = true
  const giveBack = async (): Promise<void> => {
    if (isReserved) await charge.refund()
    isReserved = false
  }
  const above = reservationSlot.of(call)
  const giveBackAll = async (): Promise<void> => {
    await giveBack()
    await above?.()
  }
  try {
    const outcome = await next(reservationSlot.set(call, giveBackAll))
    if (!isExecuted(outcome)) await giveBack()
    else if (isReserved) charge.executed?.(taken)
    return outcome.kind === 'task' ? asCharged(outcome) : outcome
  } catch (error) {
    if (isNotExecuted(error)) await giveBack()
    throw error
  }
}

function asCharged(outcome: Outcome): Outcome {
  if (outcome.kind === 'result') return outcome
  return { ...outcome, requestState: { ...outcome.requestState, [CHARGED_KEY]: true } }
}

/** A call that requests input is made again and charged then; a task of its server runs from now on. */
function isExecuted(outcome: Outcome): boolean {
  if (outcome.kind !== 'result') return outcome.kind === 'task'
  const { result } = outcome
  return !(result.member('isError') === true && result.meta(CONFIRMATION_KEY) !== undefined)
}

function isNotExecuted(error: unknown): boolean {
  if (!(error instanceof GatewayError)) return false
  const { code, extra } = error
  return extra.isUnsent === true || code.startsWith('CONFIRMATION_') || code === 'COMPENSATION_UNAVAILABLE'
}
