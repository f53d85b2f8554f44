/** Transactions in the store. Every change is a pure transition from `transitions.ts`, applied by compare-and-swap. */
import { createHash } from 'node:crypto'
import { GatewayError } from '../core/error.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { Slot } from '../core/slot.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import { FOREVER, type Store } from '../store/store.ts'
import type { StateAfterUndo } from './actions.ts'
import type { StoredPrincipal } from './principal.ts'

/** Calls that can be undone together. Stored under `transaction/…` as JSON; times are milliseconds since 1970. */
export interface Transaction {
  readonly id: string
  readonly principal: StoredPrincipal
  readonly description?: string
  readonly status: 'active' | 'committed' | 'rolling_back' | 'rolled_back' | 'partially_rolled_back'
  /** Why it is rolled back: the caller's reason, `timeout`, or the operator who did it. */
  readonly reason?: string
  readonly startedAt: number
  readonly endedAt?: number
  /** How long it may be idle, in milliseconds. */
  readonly timeout: number
  /** When it is rolled back unless there is activity, and the upper bound of that time. */
  readonly expiresAt: number
  readonly endsAt: number
  /** In the order in which they started. */
  readonly steps: readonly Step[]
  /** The results of undoing steps, the last step first. */
  readonly compensations: readonly CompensationStatus[]
  /** The worker that rolls it back; another worker takes over if that one is gone. */
  readonly runner?: string
  /** The next retry of failed compensations: how many there have been, and when, in milliseconds since 1970. */
  readonly retry?: { readonly tries: number; readonly at: number }
  /** Steps are undone even if others changed the state since: their changes are overwritten. */
  readonly force?: true
  /** An operator acknowledged that some steps could not be undone, or that the outcome of a step is unknown. */
  readonly acknowledged?: { readonly by: string; readonly at: number }
}

export interface Step {
  readonly id: string
  /** The key of the step's action: what it did, and its compensation. */
  readonly deed: string
  readonly upstream: string
  readonly tool: string
  /** A `read` needs no compensation; after a `pivot` earlier steps can no longer be undone. */
  readonly kind: 'read' | 'write' | 'pivot'
  readonly status: 'pending' | 'ok' | 'failed'
  /** The worker that executes it while it is pending. */
  readonly runner: string
  /** It is pending because input was requested from its caller, who returns with the response. */
  readonly isOpen?: true
  /** It failed before its server was called, so its id may be used again. */
  readonly isUnsent?: true
  /** The structured error of a failed step. */
  readonly error?: Readonly<Record<string, unknown>>
  /** It is undone even if others changed the state since, as with `force` of the transaction. */
  readonly force?: true
}

/** The transaction step that a call belongs to. */
export interface TransactionStepRef {
  readonly transaction: string
  readonly step: string
  /** The key of the record of its action. */
  readonly deed: string
  /** The step must not run if it could not be undone. */
  readonly mustBeUndoable: boolean
}

/** Set if the call is a step of a transaction. */
export const stepSlot = new Slot<TransactionStepRef>('step')

export interface CompensationStatus {
  readonly step: string
  readonly status: 'compensated' | 'compensation_failed'
  /** The structured error, if it failed or if it is unknown whether there was anything to undo. */
  readonly error?: Readonly<Record<string, unknown>>
  /** Whether a read showed the old state after it was undone; `unknown` if that cannot be told. */
  readonly state?: StateAfterUndo
  /** It was undone after steps before it, because that failed when it was its turn. */
  readonly isLate?: true
}

/** What something else changed since, of a step that was not undone because of it. */
export function differenceOf({ error }: CompensationStatus): readonly string[] {
  const { difference } = asObject(error?.details)
  return Array.isArray(difference) ? difference.map(String) : []
}

/** A state transition. @throws GatewayError if the state does not allow it */
export type Transition = (transaction: Transaction) => Transaction

/** A transaction and its store key. */
export interface StoredTransaction {
  readonly key: string
  readonly transaction: Transaction
}

/** Whether it has ended, apart from an acknowledgement. */
export function hasEnded({ status }: Pick<Transaction, 'status'>): boolean {
  return status !== 'active' && status !== 'rolling_back'
}

/** Whether an operator should look at it: a compensation failed, or a committed step has an unknown outcome. */
export function needsAttention(transaction: Transaction): boolean {
  const { status, acknowledged, retry } = transaction
  if (acknowledged !== undefined) return false
  if (status === 'committed') return stepsInDoubt(transaction).length > 0
  return status === 'partially_rolled_back' || (status === 'rolling_back' && retry !== undefined)
}

/** The steps with an unknown outcome: their responses were lost. */
export function stepsInDoubt({ steps }: Transaction): Step[] {
  return steps.filter(
    ({ kind, isUnsent, error }) => kind !== 'read' && !isUnsent && error?.code === 'OUTCOME_UNKNOWN',
  )
}

/** The order of a list: those that need attention, then those in progress, each newest first. */
export function urgentFirst(one: Transaction, other: Transaction): number {
  return rankOf(one) - rankOf(other) || other.startedAt - one.startedAt
}

function rankOf(transaction: Transaction): number {
  return needsAttention(transaction) ? 0 : hasEnded(transaction) ? 2 : 1
}

/** The store key of a caller's transaction. */
export function transactionKey(principal: string, id: string): string {
  return `${transactionKind.prefix}${idOf(principal, id)}`
}

/** Transactions in the store. Ended ones expire after the retention; those in progress or in need of attention stay. */
export class Transactions {
  readonly #kept: Collection<Transaction>

  /** `retention` is in milliseconds. */
  constructor(store: Store, retention: number) {
    const ttlOf = (transaction: Transaction): number =>
      hasEnded(transaction) && !needsAttention(transaction) ? retention : FOREVER
    this.#kept = new Collection(store, { ...transactionKind, ttlOf })
  }

  /** Stores a new transaction; false if its caller already has one with this id. */
  async open(transaction: Transaction): Promise<boolean> {
    const id = idOf(transaction.principal.id, transaction.id)
    return (await this.#kept.insert(id, transaction)) === undefined
  }

  find(key: string): Promise<Transaction | undefined> {
    return this.#kept.get(this.#kept.idIn(key))
  }

  /**
   * Applies a transition and returns the new state; it is durable once this resolves.
   * @throws RESOURCE_NOT_FOUND, errors of the transition
   */
  change(key: string, transition: Transition): Promise<Transaction> {
    return this.#kept.change(this.#kept.idIn(key), (before) => {
      if (!before) throw unknownTransaction()
      const after = transition(before)
      return [after === before ? 'keep' : after, after]
    })
  }

  /** The transactions of one caller, or all. */
  async list(principal?: string): Promise<readonly StoredTransaction[]> {
    return this.#stored(
      await this.#kept.list(principal === undefined ? undefined : transactionOwner(principal)),
    )
  }

  /** Those in progress, or to be retried. */
  async unfinished(): Promise<readonly StoredTransaction[]> {
    const isUnfinished = (text: string): boolean =>
      UNFINISHED_PREFIXES.some((start) => text.startsWith(start))
    return this.#stored(await this.#kept.list(undefined, isUnfinished))
  }

  #stored(found: ReadonlyMap<string, Transaction>): readonly StoredTransaction[] {
    return [...found].map(([id, transaction]) => ({ key: this.#kept.keyOf(id), transaction }))
  }
}

/** How long ended transactions are kept if the feature is not configured, in milliseconds. */
const RETENTION_MS = 86_400_000

/** The transactions in the store of a configuration. */
export function transactionsIn(store: Store, settings: Pick<Settings, 'features'>): Transactions {
  const feature = featureSettings(settings, 'transactions')
  const retention = isObject(feature) ? feature.retention : undefined
  return new Transactions(store, typeof retention === 'number' ? retention : RETENTION_MS)
}

/** The error for a transaction that does not exist or belongs to another caller. */
export function unknownTransaction(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such transaction.', {
    field: 'transaction_id',
    suggestion: 'Begin a transaction first, with a unique id.',
  })
}

/** A transaction of its text; undefined if it is none. */
export function readTransaction(text: string): Transaction | undefined {
  return transactionKind.decode(text)
}

/** How the texts of unfinished transactions start, so that the many ended ones need not be parsed. */
const UNFINISHED_PREFIXES = [
  '{"status":"active"',
  '{"status":"rolling_back"',
  '{"status":"partially_rolled_back","retry":',
]

const json = asJson<Transaction>({
  string: ['id', 'status'],
  number: ['expiresAt', 'endsAt'],
  principal: ['principal'],
  list: ['steps', 'compensations'],
})

const transactionKind: RecordKind<Transaction> = {
  name: 'transaction',
  prefix: 'transaction/',
  decode: (text) => {
    const read = json.decode(text)
    return read?.steps.every(isObject) && read.compensations.every(isObject) ? read : undefined
  },
  encode: ({ status, retry, ...rest }) => JSON.stringify({ status, ...(retry && { retry }), ...rest }),
  busy: () => new GatewayError('TRANSACTION_CONFLICT', 'Too many concurrent changes of one transaction.'),
}

function idOf(principal: string, id: string): string {
  return `${transactionOwner(principal)}:${encodeURIComponent(id)}`
}

/** A caller as part of the ids of transactions. Persisted since 0.3.0: this hash differs from `callerHash`. */
export function transactionOwner(principal: string): string {
  return createHash('sha256').update(principal).digest('base64url').slice(0, 22)
}
