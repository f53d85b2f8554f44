/**
 * Compensates the steps of a transaction in reverse order, each under a key of its own, and goes on where an
 * earlier worker stopped.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import { pause } from '../../core/time/waiting.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import type { Action, Actions, Compensation } from '../../records/actions.ts'
import { NO_APPROVER_REASON } from '../../records/approvals.ts'
import { fromStoredPrincipal } from '../../records/principal.ts'
import {
  type CompensationStatus,
  hasEnded,
  type Step,
  type Transaction,
  type Transactions,
  unknownTransaction,
} from '../../records/transactions.ts'
import { compensated, rolledBack, takenOver, pendingSteps, stepLost } from '../../records/transitions.ts'
import type { Membership } from '../../records/members.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'gateway'>

interface Parts {
  readonly deps: Deps
  readonly repository: Transactions
  readonly deeds: Actions
  readonly worker: WorkerIdentity
  /** How long what was undone is kept, in milliseconds. */
  readonly retention: number
}

/** Undoes what transactions did that are to be rolled back. */
export interface Rollback {
  /**
   * Resolves once one is rolled back as far as that can be; with nothing where another worker is at it, the
   * gateway closes, or a person has to agree first. What is known of its caller besides what was kept goes with the calls.
   */
  run(key: string, caller?: Principal): Promise<Transaction | undefined>
}

/** How often a compensation is tried, and how long is waited before the second time, in milliseconds. */
const MAX_ATTEMPTS = 3
const RETRY_DELAY_MS = 250

/** Makes what rolls transactions back. Each compensation is written down before the next one begins. */
export function createRollback(parts: Parts): Rollback {
  const { repository, worker, deps } = parts
  const running = new Map<string, Promise<Transaction | undefined>>()

  const work = async (key: string, caller: Principal | undefined): Promise<Transaction | undefined> => {
    const found = await repository.find(key)
    if (!found) throw unknownTransaction()
    if (found.status !== 'rolling_back' || deps.gateway.closing.aborted)
      return hasEnded(found) ? found : undefined
    if (found.runner !== undefined && found.runner !== worker.id && (await worker.isAlive(found.runner)))
      return undefined
    await worker.register()
    const taken = await repository.change(key, takenOver(worker.id, found.runner))
    if (taken.runner !== worker.id) return hasEnded(taken) ? taken : undefined
    const transaction = await quiescent(key, parts)
    const principal = callerOf(transaction, caller)
    const done = new Set(transaction.compensations.map(({ step }) => step))
    const deeds = await parts.deeds.findAll(transaction.steps.map(({ deed }) => deed))
    for (const { step, deed, isStuck } of planOf(transaction, deeds)) {
      if (done.has(step.id)) continue
      const ended = isStuck ? stuck(step) : await undone({ step, deed, transaction, principal }, parts)
      if (!ended) return undefined
      await repository.change(key, compensated(ended, worker.id))
    }
    const end = await repository.change(key, rolledBack(worker.id, Date.now()))
    tell(end, deps)
    return end
  }

  return {
    run: (key, caller) => {
      const known = running.get(key)
      if (known) return known
      const run = worker.during(key, () => work(key, caller)).finally(() => running.delete(key))
      running.set(key, run)
      // It continues where it is no longer awaited.
      background(run, deps.log)
      return run
    },
  }
}

/** The caller with the rights it had at the beginning, and the token it has now. */
function callerOf({ principal }: Transaction, caller: Principal | undefined): Principal {
  const kept = fromStoredPrincipal(principal)
  if (caller?.id !== kept.id) return kept
  const { claims, token } = caller
  return { ...kept, ...(claims && { claims }), ...(token && { token }) }
}

interface Planned {
  readonly step: Step
  readonly deed: Action | undefined
  /** It came before a step after which there is no way back, or is one. */
  readonly isStuck: boolean
}

/** The steps that did something, or may have, the last one first. */
function planOf({ steps }: Transaction, deeds: ReadonlyMap<string, Action>): Planned[] {
  const done = steps.flatMap((step) => {
    const deed = deeds.get(step.deed)
    return isDone(step, deed) ? [{ step, deed }] : []
  })
  const pivot = done.findLastIndex(({ step }) => step.kind === 'pivot')
  return done.map((each, index) => ({ ...each, isStuck: index <= pivot })).toReversed()
}

/** What was not written down as a deed never reached its server, unless it is known to have ended well. */
function isDone({ kind, status }: Step, deed: Action | undefined): boolean {
  if (kind === 'read') return false
  if (!deed) return status === 'ok'
  return deed.status !== 'failed' && deed.way.kind !== 'nothing'
}

function stuck({ id }: Step): CompensationStatus {
  return failed(id, 'A step after which there is no way back was done.', 'pivot')
}

interface Undoing {
  readonly step: Step
  readonly deed: Action | undefined
  readonly transaction: Transaction
  readonly principal: Principal
}

/** Undoes a step. Nothing where the gateway closes, or an approval is pending: it continues later. */
async function undone(
  { step, deed, transaction, principal }: Undoing,
  { deps, deeds, retention }: Parts,
): Promise<CompensationStatus | undefined> {
  if (deed?.undoneAt !== undefined) return { step: step.id, status: 'compensated' }
  const way: Compensation = deed?.way ?? { kind: 'none', reason: 'what it did is not known any more' }
  if (way.kind === 'none')
    return failed(step.id, `The step cannot be undone: ${way.reason}.`, 'no_compensation')
  if (way.kind === 'nothing') return { step: step.id, status: 'compensated' }
  const make = async (idempotencyKey: string): Promise<Outcome> => {
    const { tool, arguments: args } = way
    const order = {
      purpose: 'compensate',
      principal,
      upstream: step.upstream,
      tool,
      arguments: args,
    } as const
    return deps.invoker.call(deps.invoker.internal({ ...order, idempotencyKey, undoes: deed?.trace }))
  }
  const key = keyOf(transaction.id, step.id)
  let error = await attempt(() => make(key), transaction.startedAt)
  // A key of an earlier transaction of the same id says nothing about this one.
  if (error?.code === STALE_KEY_CODE) {
    error = await attempt(() => make(hashed(`${key} ${step.deed}`)), transaction.startedAt)
  }
  const isDoubtful = deed !== undefined && deed.status !== 'ok'
  const isAsked = error?.code === 'CONFIRMATION_REQUIRED' && error.reason !== NO_APPROVER_REASON
  const isPutOff = deps.gateway.closing.aborted || isAsked
  if (error && isPutOff) return undefined
  if (error)
    return { step: step.id, status: 'compensation_failed', error: isDoubtful ? doubtful(error) : error }
  await deeds.markUndone(step.deed, Date.now(), retention)
  if (!isDoubtful || (await isRestored(deed, deps))) return { step: step.id, status: 'compensated' }
  return { step: step.id, status: 'compensated', error: outcomeUnknown }
}

/** Whether all is as before, whether or not the step was done: what was there before was put back. */
async function isRestored({ upstream, tool }: Action, { servers: { undoRule } }: Deps): Promise<boolean> {
  const rule = await Promise.resolve(undoRule(upstream, tool)).catch(() => undefined)
  return rule?.kind === 'restore'
}

/** A step that was not done, and was undone, may have cost what was there before. */
const outcomeUnknown = new GatewayError(
  'OUTCOME_UNKNOWN',
  'It is unknown whether the step was done; it was undone in any case.',
  {
    suggestion: 'See whether everything is as it was before the step.',
  },
).data

type ErrorData = Readonly<Record<string, unknown>>

/** Makes a call until it works, or fails in a way that does not pass. Resolves with why it failed. */
async function attempt(make: () => Promise<Outcome>, since: number): Promise<ErrorData | undefined> {
  for (let tries = 1; ; tries++) {
    const error = await make().then(
      (outcome) => failureOf(outcome, since),
      (thrown: unknown) => asGatewayError(thrown).data,
    )
    if (!error || tries === MAX_ATTEMPTS || error.category !== 'transient') return error
    await pause(RETRY_DELAY_MS * 2 ** (tries - 1))
  }
}

const STALE_KEY_CODE = 'IDEMPOTENCY_CONFLICT'

/** Why a call failed, as its result says; nothing where it did not. */
function failureOf(outcome: Outcome, since: number): ErrorData | undefined {
  if (outcome.kind === 'input_required') {
    return new GatewayError(
      'UPSTREAM_ERROR',
      'The server requested input, and no client is connected to answer.',
    ).data
  }
  const { _meta: meta, isError } = outcome.result.fields
  const told: ErrorData = isObject(meta) ? meta : {}
  if (isError !== true) return isBefore(told, since) ? { code: STALE_KEY_CODE } : undefined
  const error = told[ERROR_KEY]
  return isObject(error) ? error : new GatewayError('UPSTREAM_ERROR', 'The tool failed.').data
}

function isBefore({ was_replay: isReplay, original_timestamp: at }: ErrorData, since: number): boolean {
  return isReplay === true && typeof at === 'string' && Date.parse(at) < since
}

/** The step itself may not have been done, so there may have been nothing to undo. */
function doubtful(error: ErrorData): ErrorData {
  const details = isObject(error.details) ? error.details : {}
  return { ...error, details: { ...details, step_outcome: 'unknown' } }
}

function failed(step: string, message: string, reason: string): CompensationStatus {
  const error = new GatewayError('COMPENSATION_UNAVAILABLE', message, { reason }).data
  return { step, status: 'compensation_failed', error }
}

function keyOf(transaction: string, step: string): string {
  const key = `compensate-${transaction}-${step}`
  return /^[\w\-:.]{1,128}$/.test(key) ? key : hashed(key)
}

function hashed(key: string): string {
  return `compensate-${createHash('sha256').update(key).digest('hex')}`
}

function tell(transaction: Transaction, { log }: Deps): void {
  const { id, principal, reason, compensations, retry } = transaction
  const said = { transaction: id, principal: principal.id, ...(reason !== undefined && { reason }) }
  const left = compensations.filter(({ error }) => error !== undefined)
  if (left.length === 0) return log.info('transaction.rolled_back', said)
  const steps = left.map(({ step, error }) => `${step}: ${String(error?.code)}`)
  // It was said the first time.
  if (retry && retry.tries > 1)
    return log.debug('transaction.retried', { ...said, tries: retry.tries, steps })
  log.error('transaction.needs_attention', { ...said, steps })
}

interface StepParts {
  readonly repository: Transactions
  readonly worker: WorkerIdentity
}

interface Options {
  readonly signal?: AbortSignal
  /** Whether a step that is not over is let be. */
  isLeft?(transaction: Transaction, step: Step): Promise<boolean>
}

/** Interval between looks at another worker's step, in milliseconds. */
const POLL_INTERVAL_MS = 50

/**
 * The transaction, once no worker runs a step of it; a step whose gateway is gone has no known end.
 * @throws RESOURCE_NOT_FOUND, the signal's reason
 */
export async function quiescent(
  key: string,
  { repository, worker }: StepParts,
  { signal, isLeft }: Options = {},
): Promise<Transaction> {
  for (;;) {
    const found = await repository.find(key)
    if (!found) throw unknownTransaction()
    const [step] = pendingSteps(found)
    if (!step || (await isLeft?.(found, step))) return found
    const isAtWork = !step.isOpen && (await worker.isAtWork(step.runner, stepWork(key, step.id)))
    if (isAtWork) await pause(POLL_INTERVAL_MS, signal)
    else await repository.change(key, stepLost(step, Date.now()))
  }
}

/** What a step that is under way is called. */
export function stepWork(key: string, step: string): string {
  return `${key} ${step}`
}

// This process as the runner of steps and rollbacks, known to other members.

/** Those of this process that did not end, by their own part of their names. */
const living = new Set<string>()

/** Who works on transactions: one for each version of the settings of each gateway, so that none does another's. */
export class WorkerIdentity {
  /** Names it in what is written down. */
  readonly id: string
  readonly #own = randomBytes(6).toString('hex')
  readonly #membership: Membership
  readonly #underWay = new Set<string>()
  #isClosed = false

  constructor(membership: Membership) {
    this.#membership = membership
    this.id = `${membership.id}#${this.#own}`
    living.add(this.#own)
  }

  /** Makes others see that it lives; has to be awaited before it writes its name down. */
  register(): Promise<void> {
    return this.#membership.register()
  }

  /** Does some work that others must not take up meanwhile. */
  async during<Value>(work: string, run: () => Promise<Value>): Promise<Value> {
    this.#underWay.add(work)
    try {
      return await run()
    } finally {
      this.#underWay.delete(work)
      this.#leave()
    }
  }

  /** Whether the worker that took up some work is still at it. */
  async isAtWork(who: string, work: string): Promise<boolean> {
    return who === this.id ? this.#underWay.has(work) : this.isAlive(who)
  }

  /** Whether a worker is still alive. */
  async isAlive(who: string): Promise<boolean> {
    const at = who.lastIndexOf('#')
    const gateway = who.slice(0, at)
    if (at === -1) return false
    return gateway === this.#membership.id ? living.has(who.slice(at + 1)) : this.#membership.isAlive(gateway)
  }

  /** Ends it once the work under way is done. */
  close(): void {
    this.#isClosed = true
    this.#leave()
  }

  #leave(): void {
    if (this.#isClosed && this.#underWay.size === 0) living.delete(this.#own)
  }
}
