/**
 * Transactions in the store. Every change is a pure move from `transitions.ts`, applied by compare-and-swap.
 */
import { createHash } from 'node:crypto'
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { FOREVER, type Store } from '../store/store.ts'
import type { KeptPrincipal } from './principal.ts'
import { casUpdate, type CasUpdate } from './cas-update.ts'

/** Several calls that can be undone together. Kept under `transaction/…` as JSON; times are milliseconds since 1970. */
export interface Transaction {
  readonly id: string
  readonly principal: KeptPrincipal
  readonly description?: string
  readonly status: 'active' | 'committed' | 'rolling_back' | 'rolled_back' | 'partially_rolled_back'
  /** Why it is rolled back: what the caller said, `timeout`, or who of the operators did it. */
  readonly reason?: string
  readonly startedAt: number
  readonly endedAt?: number
  /** How long it may be idle, in milliseconds. */
  readonly timeout: number
  /** When it is rolled back unless something happens, and the latest that can become. */
  readonly expiresAt: number
  readonly endsAt: number
  /** In the order they began. */
  readonly steps: readonly Step[]
  /** What became of the steps that were undone, the last step first. */
  readonly compensations: readonly CompensationStatus[]
  /** Who rolls it back; another one takes over when that one is gone. */
  readonly runner?: string
  /** What could not be undone is tried again: how often it was, and when it will be, in milliseconds since 1970. */
  readonly retry?: { readonly tries: number; readonly at: number }
  /** An operator acknowledged that not everything could be undone, or that a step of it is in doubt. */
  readonly acknowledged?: { readonly by: string; readonly at: number }
}

export interface Step {
  readonly id: string
  /** Where its deed is kept: what it did, and how that is undone. */
  readonly deed: string
  readonly upstream: string
  readonly tool: string
  /** There is nothing to undo after one that reads, and no way back after a pivot. */
  readonly kind: 'read' | 'write' | 'pivot'
  readonly status: 'pending' | 'ok' | 'failed'
  /** Who works on it while it is pending. */
  readonly runner: string
  /** It is pending because its caller is asked something, and comes back with the answer. */
  readonly isOpen?: true
  /** It failed before its server was called, so its id is free for another try. */
  readonly isUnsent?: true
  /** The structured error, where it failed. */
  readonly error?: Readonly<Record<string, unknown>>
}

export interface CompensationStatus {
  readonly step: string
  readonly status: 'compensated' | 'compensation_failed'
  /** The structured error, where it failed, or where it is unknown whether there was something to undo. */
  readonly error?: Readonly<Record<string, unknown>>
}

/** What a transaction becomes. @throws GatewayError where it may not become that */
export type Move = (transaction: Transaction) => Transaction

/** A transaction, and where it is kept. */
export interface Found {
  readonly key: string
  readonly transaction: Transaction
}

/** Whether it is final, apart from an acknowledgement of what is left. */
export function isOver({ status }: Transaction): boolean {
  return status !== 'active' && status !== 'rolling_back'
}

/** Whether an operator should look at it: something could not be undone, or a committed step may not have been done. */
export function needsAttention(transaction: Transaction): boolean {
  const { status, acknowledged, retry } = transaction
  if (acknowledged !== undefined) return false
  if (status === 'committed') return inDoubt(transaction).length > 0
  return status === 'partially_rolled_back' || (status === 'rolling_back' && retry !== undefined)
}

/** The steps that may have been done, though their answer was lost. */
export function inDoubt({ steps }: Transaction): Step[] {
  return steps.filter(
    ({ kind, isUnsent, error }) => kind !== 'read' && !isUnsent && error?.code === 'OUTCOME_UNKNOWN',
  )
}

/** The order of a list of transactions: those that need attention, then those under way, the last begun first. */
export function urgentFirst(one: Transaction, other: Transaction): number {
  return rankOf(one) - rankOf(other) || other.startedAt - one.startedAt
}

function rankOf(transaction: Transaction): number {
  return needsAttention(transaction) ? 0 : isOver(transaction) ? 2 : 1
}

/** Where a caller's transaction of an id is kept. */
export function transactionKey(principal: string, id: string): string {
  return `${prefixOf(principal)}${encodeURIComponent(id)}`
}

/** Transactions in the store. What is over is kept for a while; what is not, or needs attention, stays. */
export class Transactions {
  readonly #store: Store
  readonly #retention: number

  /** `retention` is in milliseconds. */
  constructor(store: Store, retention: number) {
    this.#store = store
    this.#retention = retention
  }

  /** Writes one down, unless its caller has one of this id. Tells whether it did. */
  async open(transaction: Transaction): Promise<boolean> {
    const key = transactionKey(transaction.principal.id, transaction.id)
    return (await this.#store.setIfAbsent(key, written(transaction), this.#ttl(transaction))) === undefined
  }

  async find(key: string): Promise<Transaction | undefined> {
    return readTransaction(await this.#store.get(key))
  }

  /**
   * Makes a move; it is durable once this resolves. Resolves with what the transaction is then.
   * @throws RESOURCE_NOT_FOUND, what the move throws
   */
  change(key: string, move: Move): Promise<Transaction> {
    const look = (text: string | undefined): CasUpdate<Transaction> => {
      const before = readTransaction(text)
      if (!before) throw unknownTransaction()
      const told = move(before)
      return told === before
        ? { result: told }
        : { result: told, write: { text: written(told), ttl: this.#ttl(told) } }
    }
    return casUpdate(this.#store, key, look, () => {
      throw new GatewayError('TRANSACTION_CONFLICT', 'The transaction is changed by too many at once.')
    })
  }

  /** Those of one caller, or all. */
  async list(principal?: string): Promise<readonly Found[]> {
    return this.#scan((key) => principal === undefined || key.startsWith(prefixOf(principal)))
  }

  /** Those that are not over, or that are to be tried again. */
  async unfinished(): Promise<readonly Found[]> {
    return this.#scan((_key, text) => UNFINISHED_PREFIXES.some((start) => text.startsWith(start)))
  }

  async #scan(isMeant: (key: string, text: string) => boolean): Promise<readonly Found[]> {
    const all = await this.#store.scan(COLLECTION)
    return [...all].flatMap(([key, text]) => {
      const transaction = isMeant(key, text) ? readTransaction(text) : undefined
      return transaction ? [{ key, transaction }] : []
    })
  }

  #ttl(transaction: Transaction): number {
    return isOver(transaction) && !needsAttention(transaction) ? this.#retention : FOREVER
  }
}

/** The answer about a transaction that is not there, or is another caller's. */
export function unknownTransaction(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such transaction.', {
    field: 'transaction_id',
    suggestion: 'Begin a transaction first, with an id of its own.',
  })
}

const COLLECTION = 'transaction'

/** How texts begin of what is not done with: they need not be read to tell them from the many that are. */
const UNFINISHED_PREFIXES = [
  '{"status":"active"',
  '{"status":"rolling_back"',
  '{"status":"partially_rolled_back","retry":',
]

function written({ status, retry, ...others }: Transaction): string {
  return JSON.stringify({ status, ...(retry && { retry }), ...others })
}

/** Persisted since 0.3.0: a hash of its own, not `callerHash`. */
function prefixOf(principal: string): string {
  const hash = createHash('sha256').update(principal).digest('base64url').slice(0, 22)
  return `${COLLECTION}/${hash}:`
}

function readTransaction(text: string | undefined): Transaction | undefined {
  const value = text === undefined ? undefined : readJson(text)
  return isTransaction(value) ? value : undefined
}

/** Whether it is one as this version writes them: another version may have written the store. */
function isTransaction(value: unknown): value is Transaction {
  if (!isObject(value)) return false
  const { id, status, principal, steps, compensations, expiresAt, endsAt } = value
  const isNamed = typeof id === 'string' && typeof status === 'string' && isObject(principal)
  const isTimed = typeof expiresAt === 'number' && typeof endsAt === 'number'
  return isNamed && isTimed && Array.isArray(steps) && Array.isArray(compensations)
}
