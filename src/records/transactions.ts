/** Transactions in the store. Every change is a pure transition from `transitions.ts`, applied by compare-and-swap. */
import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../core/error.ts'
import { asObject, isObject, readJson } from '../core/json/json.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import { Slot } from '../core/slot.ts'
import { expiryByWorld, world } from '../core/world.ts'
import { casUpdate, type CasUpdate, casUpdateSeen } from '../durable/cas-update.ts'
import { Collection, hasMembers, type RecordKind } from '../durable/collection.ts'
import { FOREVER, type KeyPrefix, type Store } from '../store/store.ts'
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
  readonly #store: Store
  readonly #retention: number
  readonly #kept: Collection<StoredForm>
  #cache: Cache | undefined

  /** `retention` is in milliseconds. */
  constructor(store: Store, retention: number) {
    this.#store = store
    this.#retention = retention
    this.#kept = new Collection(store, transactionKind)
  }

  /** Stores a new transaction; false if its caller already has one with this id. */
  async open(transaction: Transaction): Promise<boolean> {
    const id = idOf(transaction.principal.id, transaction.id)
    return (await this.#kept.insert(id, transaction, {}, this.#ttlOf(transaction))) === undefined
  }

  async find(key: string): Promise<Transaction | undefined> {
    return this.#read(key, await this.#store.get(key))
  }

  /** What this process read or wrote last: others may have changed it since. */
  lastSeen(key: string): Transaction | undefined {
    return this.#cache?.seen.get(key)?.transaction
  }

  /**
   * Applies a transition and returns the new state; it is durable once this resolves.
   * @throws RESOURCE_NOT_FOUND, errors of the transition
   */
  async change(key: string, transition: Transition): Promise<Transaction> {
    let written: Written | undefined
    const decide = async (text: string | undefined): Promise<CasUpdate<Transaction>> => {
      // It was written after all: its page has an id that no other change has.
      if (written?.page && text === written.text) return { result: written.transaction }
      await this.#withdraw(written)
      written = undefined
      const before = await this.#read(key, text)
      if (!before) throw unknownTransaction()
      const after = transition(before)
      if (after === before) return { result: after }
      written = await this.#written(key, before, after)
      return { result: after, write: { text: written.text, ttl: this.#ttlOf(after) } }
    }
    const seen = this.#cache?.seen.get(key)?.text
    const found = seen === undefined ? undefined : await casUpdateSeen(this.#store, key, seen, decide)
    const result = found?.result ?? (await casUpdate(this.#store, key, decide, () => busy()))
    if (written) {
      this.#remember(key, written.text, written.transaction)
      await this.#expire(key, written.left)
    }
    return result
  }

  /** The transactions of one caller, or all. */
  list(principal?: string): Promise<readonly StoredTransaction[]> {
    return this.#listed(principal === undefined ? undefined : transactionOwner(principal))
  }

  /** Those in progress, or to be retried. */
  unfinished(): Promise<readonly StoredTransaction[]> {
    return this.#listed(undefined, (text) => UNFINISHED_PREFIXES.some((start) => text.startsWith(start)))
  }

  async #listed(owner?: string, matches?: (text: string) => boolean): Promise<readonly StoredTransaction[]> {
    const found = await Promise.all(
      [...(await this.#kept.list(owner, matches))].map(async ([id, form]) => {
        const key = this.#kept.keyOf(id)
        const transaction = await this.#whole(key, form)
        return transaction ? [{ key, transaction }] : []
      }),
    )
    return found.flat()
  }

  #ttlOf(transaction: Transaction): number {
    return hasEnded(transaction) && !needsAttention(transaction) ? this.#retention : FOREVER
  }

  async #read(key: string, text: string | undefined): Promise<Transaction | undefined> {
    const seen = this.#cache?.seen.get(key)
    if (text !== undefined && seen?.text === text) return seen.transaction
    const form = text === undefined ? undefined : formOf(text)
    const transaction = form && (await this.#whole(key, form))
    if (text !== undefined && transaction) this.#remember(key, text, transaction)
    return transaction
  }

  #remember(key: string, text: string, transaction: Transaction): void {
    this.#cache ??= newCache()
    this.#cache.seen.set(key, { text, transaction })
  }

  /** A transaction with its earlier steps; undefined if some of them are gone. */
  async #whole(key: string, { earlier, ...form }: StoredForm): Promise<Transaction | undefined> {
    if (earlier === undefined) return form
    const pages = await this.#pagesTo(key, earlier)
    return (
      pages && withPages({ ...form, steps: [...pages.flatMap(({ steps }) => steps), ...form.steps] }, pages)
    )
  }

  /** The pages of earlier steps, the oldest first; undefined if one is gone. */
  async #pagesTo(key: string, last: string): Promise<readonly StepPage[] | undefined> {
    const pages: StepPage[] = []
    for (let id: string | undefined = last; id !== undefined;) {
      const page = await this.#page(key, id)
      if (!page || pages.some((each) => each.id === page.id)) return undefined
      pages.unshift(page)
      id = page.before
    }
    return pages
  }

  async #page(key: string, id: string): Promise<StepPage | undefined> {
    const known = this.#cache?.pages.get(pageKey(key, id))
    if (known) return known
    const text = await this.#store.get(pageKey(key, id))
    const page = text === undefined ? undefined : readPage(id, text)
    if (page) (this.#cache ??= newCache()).pages.set(pageKey(key, id), page)
    return page
  }

  /** The text of a changed transaction; steps that ended are moved to a page first, while it is open. */
  async #written(key: string, before: Transaction, after: Transaction): Promise<Written> {
    const known = pagesOf.get(before) ?? []
    // A transaction that is rolled back or has ended is one record, as is one whose earlier steps have changed.
    const isKept = after.status === 'active' && isPrefix(known, after.steps)
    const pages = isKept ? known : []
    const left = isKept ? [] : known
    const open = after.steps.slice(countOf(pages))
    const pending = open.findIndex(({ status }) => status === 'pending')
    const movable = open.slice(0, pending === -1 ? undefined : pending)
    const isLong = after.status === 'active' && movable.length >= PAGE_STEPS
    const page = isLong ? newPage(movable, pages.at(-1)?.id) : undefined
    if (page) await this.#store.put(pageKey(key, page.id), page.text, FOREVER)
    const all = page ? [...pages, page] : pages
    const transaction = all.length === 0 ? after : withPages({ ...after }, all)
    const text = textOf(after, after.steps.slice(countOf(all)), all.at(-1)?.id)
    return { key, text, transaction, left, ...(page && { page }) }
  }

  /** Removes the page of a change that was not written. */
  async #withdraw(written: Written | undefined): Promise<void> {
    if (written?.page) await this.#store.delete(pageKey(written.key, written.page.id))
  }

  /** Readers of the record before still read its pages. A page that cannot be shortened stays. */
  async #expire(key: string, pages: readonly StepPage[]): Promise<void> {
    const shortened = pages.map(({ id, text }) => this.#store.put(pageKey(key, id), text, LEFT_PAGE_TTL_MS))
    await Promise.allSettled(shortened)
  }
}

// The stored form. A transaction that is open has its last steps in its record, and the others in pages, each of which
// names the one before it: so a step writes as much at the end of a long transaction as at its beginning. A page never
// changes, and is written before the record that names it. Versions that know no pages do not read such a record, since
// they would roll back only a part of it; all other transactions are one record, as they were.

/** How many steps that ended become a page. */
const PAGE_STEPS = 8
/** How long pages are kept that no record names any more, in milliseconds. */
const LEFT_PAGE_TTL_MS = 60_000
/** How many transactions a process remembers, how many pages, and for how long, in milliseconds. */
const MAX_SEEN = 500
const MAX_PAGES = 2000
const SEEN_TTL_MS = 60_000

/** A transaction as its record has it: `steps` follow those of the page `earlier`. */
interface StoredForm extends Transaction {
  readonly earlier?: string
}

/** Steps that ended, and the page before them. */
interface StepPage {
  readonly id: string
  readonly text: string
  readonly steps: readonly Step[]
  readonly before: string | undefined
}

interface Written {
  readonly key: string
  readonly text: string
  readonly transaction: Transaction
  /** The page that was written for it. */
  readonly page?: StepPage
  /** The pages that it does not name any more. */
  readonly left: readonly StepPage[]
}

interface Cache {
  readonly seen: LRUCache<string, { readonly text: string; readonly transaction: Transaction }>
  readonly pages: LRUCache<string, StepPage>
}

function newCache(): Cache {
  return {
    seen: new LRUCache({ max: MAX_SEEN, ttl: SEEN_TTL_MS, ...expiryByWorld }),
    pages: new LRUCache({ max: MAX_PAGES }),
  }
}

/** The pages of transactions that have some. */
const pagesOf = new WeakMap<Transaction, readonly StepPage[]>()

function withPages(transaction: Transaction, pages: readonly StepPage[]): Transaction {
  pagesOf.set(transaction, pages)
  return transaction
}

function countOf(pages: readonly StepPage[]): number {
  return pages.reduce((sum, { steps }) => sum + steps.length, 0)
}

/** Whether steps begin with those of the pages, unchanged. */
function isPrefix(pages: readonly StepPage[], steps: readonly Step[]): boolean {
  return pages.flatMap((page) => page.steps).every((step, index) => steps[index] === step)
}

function pageKey(key: string, page: string): string {
  return `${STEPS_PREFIX}${key.slice(transactionKind.prefix.length)}:${page}`
}

const STEPS_PREFIX: KeyPrefix = 'transaction-steps:'

function newPage(steps: readonly Step[], before: string | undefined): StepPage {
  const id = world.randomBytes(9).toString('base64url')
  return { id, text: JSON.stringify({ steps, ...(before !== undefined && { before }) }), steps, before }
}

function readPage(id: string, text: string): StepPage | undefined {
  const value = readJson(text)
  if (!isObject(value) || !Array.isArray(value.steps) || !value.steps.every(isObject)) return undefined
  const { before } = value
  // The members of a step are read where they are shown, as those of a record.
  const steps = value.steps as unknown as readonly Step[]
  return { id, text, steps, before: typeof before === 'string' ? before : undefined }
}

function busy(): never {
  throw new GatewayError('TRANSACTION_CONFLICT', 'Too many concurrent changes of one transaction.')
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

/** A transaction of its text, with the steps that are in its record; undefined if it is none. */
export function readTransaction(text: string): Transaction | undefined {
  return formOf(text)
}

/** How the texts of unfinished transactions start, so that the many ended ones need not be parsed. */
const UNFINISHED_PREFIXES = [
  '{"status":"active"',
  '{"status":"rolling_back"',
  '{"status":"partially_rolled_back","retry":',
]

const isRecord = hasMembers<Transaction>({
  string: ['id', 'status'],
  number: ['expiresAt', 'endsAt'],
  principal: ['principal'],
  list: ['compensations'],
})

function formOf(text: string): StoredForm | undefined {
  const value = readJson(text)
  if (!isRecord(value) || !value.compensations.every(isObject)) return undefined
  const { lastSteps, earlier, ...rest }: StoredForm & { readonly lastSteps?: unknown } = value
  const isPaged = typeof earlier === 'string'
  const steps = isPaged ? lastSteps : rest.steps
  if (!Array.isArray(steps) || !steps.every(isObject)) return undefined
  // The members of a step are read where they are shown, as what others wrote.
  return { ...rest, steps: steps as unknown as readonly Step[], ...(isPaged && { earlier }) }
}

function textOf(
  { status, retry, steps, ...rest }: Transaction,
  last: readonly Step[],
  earlier?: string,
): string {
  const start = { status, ...(retry && { retry }) }
  if (earlier === undefined) return JSON.stringify({ ...start, ...rest, steps })
  return JSON.stringify({ ...start, ...rest, lastSteps: last, earlier })
}

const transactionKind: RecordKind<StoredForm> = {
  name: 'transaction',
  prefix: 'transaction/',
  decode: formOf,
  encode: (transaction) => textOf(transaction, transaction.steps),
}

function idOf(principal: string, id: string): string {
  return `${transactionOwner(principal)}:${encodeURIComponent(id)}`
}

/** A caller as part of the ids of transactions. Persisted since 0.3.0: this hash differs from `callerHash`. */
export function transactionOwner(principal: string): string {
  return createHash('sha256').update(principal).digest('base64url').slice(0, 22)
}
