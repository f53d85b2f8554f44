/**
 * Runs tool calls that may take long. A call that takes over a second, or reports progress, becomes an operation: it has
 * an id and a durable record, its outcome is kept for a while, and it continues without its client. A client that supports
 * tasks gets such a call as a task. `journal.ts` writes the records.
 *
 * Invariants: a task is durable before its caller gets its id; an outcome is durable before a caller gets it with an id;
 * the record of an operation has one owner, and only its owner ends it, except for a cancellation.
 */
import { alsoBeforeSend, beforeSendSlot, onSentSlot } from '../../core/exchange.ts'
import { retainSlot, detachedSlot, acceptsTaskSlot, awaitsApprovalSlot } from '../../core/slot.ts'
import { type Timer, world } from '../../core/world.ts'
import {
  type Call,
  type Handler,
  isOpen,
  type Outcome,
  SERVER_TASK_KEY,
  withPresentCaller,
} from '../../core/call.ts'
import { usesReferencesSlot } from '../../core/used-reference.ts'
import { GatewayError, VERIFY_EFFECT } from '../../core/error.ts'
import { isGatewayRefusal } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { background } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { hasReachedShare } from '../../core/principal.ts'
import { Registry } from '../../core/registry.ts'
import { settingOf, type UpstreamSettings, isStoreShared } from '../../core/settings.ts'
import { pause, within } from '../../core/time/waiting.ts'
import { hasIdempotencyKey } from '../../protocol/meta-keys.ts'
import { requestedTask, declaresTasks, withoutTask } from '../../protocol/tasks.ts'
import {
  isEnded,
  type OperationKey,
  type OperationRecord,
  operationName,
  OperationIds,
  type OperationRef,
  operationSlot,
} from '../../records/operations.ts'
import { toStoredPrincipal } from '../../records/principal.ts'
import { keepReferences } from '../../records/references.ts'
import { mustLast } from '../../durable/members.ts'
import { HeldMemory } from '../../core/holdings.ts'
import type { Services } from '../feature.ts'
import { awaitInput } from './input.ts'
import { OperationJournal } from './journal.ts'
import { UsualDurations } from './notes.ts'
import { type End, RunningCall, RunningCalls } from './running-call.ts'
import { interrupted, OPERATION_KEY, stillRunningResult, taskOf } from './task-view.ts'
import type { ProgressSettings } from '../settings/admit.ts'

export type Deps = Pick<
  Services,
  'log' | 'store' | 'scope' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway'
>

/** A call that takes longer is an operation, in milliseconds. */
const LASTING_MS = 1000
const TICK_MS = 100
/** A tool whose calls usually take longer is slow, in milliseconds. */
const SLOW_TOOL_MS = 60_000
/** How long a call that was requested as a task can still be refused with an error, in milliseconds. */
const REFUSAL_TIMEOUT_MS = 50
/** How many operations a process runs at once; further calls run without an id. */
const MAX_OPERATIONS = 10_000
/** How long an outcome waits for its record, in milliseconds. */
const WRITE_TIMEOUT_MS = 5000
/** The interval at which changes of a record by other processes are read, in milliseconds. */
const POLL_INTERVAL_MS = 1000
/** How often a continued call is retried while its server or the store is unavailable, and the delay, in milliseconds. */
const MAX_FOLLOW_ATTEMPTS = 5
const FOLLOW_RETRY_DELAY_MS = 500
/** How many times a task may request input. */
const MAX_ROUNDS = 10
/** The longest lifetime of a task, in milliseconds. */
const MAX_TASK_TTL_MS = 86_400_000
/** The lifetime of a record while its call runs, in milliseconds. */
const MIN_RUNNING_TTL_MS = 86_400_000

/** Runs the tool calls of all servers until their end is durable. */
export class OperationEngine {
  readonly journal: OperationJournal
  readonly ids: OperationIds
  readonly #deps: Deps
  readonly #settings: (upstream?: string) => ProgressSettings
  readonly #running = new Registry<number, RunningCall>()
  #started = 0
  readonly #calls: RunningCalls
  readonly #byKey: ReadonlyMap<string, RunningCall>
  readonly #durations = new UsualDurations()
  #timer: Timer | undefined
  #isClosed = false

  constructor(settings: (upstream?: string) => ProgressSettings, deps: Deps) {
    this.#deps = deps
    this.#settings = settings
    const { membership, seal } = deps.identity
    this.ids = new OperationIds(seal, membership.id)
    this.#calls = deps.scope.once(RunningCalls)
    this.#calls.held = deps.scope.once(HeldMemory)
    this.#byKey = this.#calls.byKey
    this.journal = new OperationJournal(deps, (key, record) => this.#byKey.get(key)?.wake(record))
  }

  /** Makes a call, as long as it takes. */
  run(call: Call, next: Handler): Promise<Outcome> {
    const running = this.#create(call)
    const operation = operationSlot.of(call)
    if (operation) return this.#takeUp(running, operation, next)
    const requested = requestedTask(call)
    if (requested) return this.#runAsTask(running, next, requested.ttl)
    this.#start(running, next)
    return running.first
  }

  /** The call of an operation, where this process runs it. */
  running(key: string): RunningCall | undefined {
    return this.#byKey.get(key)
  }

  /** Stops the timer once the calls in progress have ended. */
  close(): void {
    this.#isClosed = true
  }

  #create(call: Call): RunningCall {
    const tool = `${call.target.upstream} ${call.target.name}`
    return new RunningCall(call, world.now(), {
      operationId: (running) => this.#identify(running),
      usualMs: () => this.#durations.usual(tool),
      isBeside: this.#settings(call.target.upstream).compat,
    })
  }

  #start(running: RunningCall, next: Handler): void {
    running.number = ++this.#started
    this.#running.set(running.number, running)
    this.#timer ??= world.setInterval(() => this.#tick(world.now()), TICK_MS).unref()
    const { call } = running
    const whole = withoutTask(call)
    const usesReferences = (ids: readonly string[]): void => {
      running.references = ids
      if (running.recorded) this.#keepArguments(running)
    }
    const { membership } = this.#deps.identity
    const reported = onSentSlot.of(whole)
    const watched = onSentSlot.put((request) => {
      running.isSent = true
      reported?.(request)
    }, whole.slots)
    const mustBeOwned = (): void => {
      // Another process makes the call of an operation again if it finds this one over.
      if (running.term !== undefined && !running.isSent) mustLast(running.term, membership)
    }
    const owned = beforeSendSlot.put(alsoBeforeSend(whole, mustBeOwned), watched)
    const slots = usesReferencesSlot.put(
      usesReferences,
      awaitsApprovalSlot.put(
        (approval) => this.#keepApproval(running, approval),
        detachedSlot.put(() => running.isDetached, owned),
      ),
    )
    const inner: Call = {
      ...whole,
      emit: (note) => running.notes.relay(note, world.now()),
      drained: () => running.drained(),
      slots: running.isTask || declaresTasks(call.client) ? acceptsTaskSlot.put(true, slots) : slots,
    }
    const finished = this.#drive(running, next, inner).then(
      (outcome): End => ({ kind: 'outcome', outcome }),
      (error: unknown): End => ({ kind: 'error', error }),
    )
    background(
      finished.then((end) => this.#finish(running, end)),
      this.#deps.log,
    )
  }

  /** Runs a call that its client requests as a task. @throws the error of a call that is refused at once */
  async #runAsTask(running: RunningCall, next: Handler, ttl: number | undefined): Promise<Outcome> {
    const { call } = running
    const fits = await this.journal.fits(call.principal).catch(() => true)
    if (!fits || this.#isFull(call)) throw overloaded()
    running.isTask = true
    const taskTtl = Math.min(ttl ?? this.#taskTtl(running.call), MAX_TASK_TTL_MS)
    const operation = await this.#record(running, { taskTtl })
    if (!operation) throw notWritten()
    this.#start(running, next)
    // A call that is refused at once is answered with the error.
    await within(running.first, REFUSAL_TIMEOUT_MS, undefined)
    this.#accept(running, taskTtl)
    return running.first
  }

  /** Continues an operation whose process ended; this process already owns the record. */
  #takeUp(running: RunningCall, operation: OperationRef, next: Handler): Promise<Outcome> {
    running.operation = operation
    running.isTask = operation.isTask === true
    running.recorded = Promise.resolve(true)
    running.term = this.#deps.identity.membership.term
    this.#calls.add(operation.key, running)
    running.detach({ kind: 'result', result: EMPTY })
    const { rest } = running
    this.#start(running, next)
    return rest
  }

  /** Makes the call, and continues it while its server works on a task or requests input. */
  async #drive(running: RunningCall, next: Handler, inner: Call): Promise<Outcome> {
    let current = inner
    for (let round = 1; ; round++) {
      const outcome = await this.#attempt(running, next, current)
      if (outcome.kind === 'result') return outcome
      if (outcome.kind === 'task') {
        // The server runs it as a task, so its caller need not wait either.
        running.notes.message = outcome.task.statusMessage
        // A store that is unavailable must not end the call.
        await this.#becomeTask(running).catch((error: unknown) => this.journal.warn(error))
        await within(this.#keepState(running, outcome.requestState), WRITE_TIMEOUT_MS, undefined)
        const { inputResponses: _responses, ...rest } = inner
        current = { ...rest, requestState: outcome.requestState }
        continue
      }
      if (!running.isTask) {
        if (operationSlot.of(running.call)) throw clientLost(isOpen(outcome))
        // A waiting caller gets the input requests, and makes the call again with the responses.
        return outcome
      }
      if (round > MAX_ROUNDS)
        throw new GatewayError('TOO_MANY_ROUNDS', 'The server asked too many times in a row.')
      const inputResponses = await awaitInput(running, outcome, round, this.journal)
      const present = await withPresentCaller(inner)
      current = { ...present, inputResponses, requestState: outcome.requestState }
    }
  }

  /** Makes a call; retries one that continues earlier work while the server or the store is unavailable. */
  async #attempt({ call }: RunningCall, next: Handler, current: Call): Promise<Outcome> {
    const isFollowing = current.requestState[SERVER_TASK_KEY] !== undefined
    for (let attempt = 1; ; attempt++) {
      try {
        return await next(current)
      } catch (error) {
        if (call.signal.aborted || !(isFollowing || operationSlot.of(call))) throw error
        if (!isUnavailable(error, isFollowing) || attempt === MAX_FOLLOW_ATTEMPTS)
          throw endOfStartedCall(error, call)
        await pause(FOLLOW_RETRY_DELAY_MS * attempt, call.signal)
      }
    }
  }

  /** Records the end of a call, and delivers it. */
  async #finish(running: RunningCall, end: End): Promise<void> {
    this.#running.delete(running.number)
    const { operation, call, startedAt } = running
    const duration = world.now() - startedAt
    if (duration >= LASTING_MS) this.#durations.add(`${call.target.upstream} ${call.target.name}`, duration)
    if (!operation) return running.end(end, undefined)
    const isRecorded = await running.recorded
    const isInterim = end.kind === 'outcome' && end.outcome.kind !== 'result'
    const isRefused = running.isTask && !running.isDetached && end.kind === 'error'
    if (!isRecorded || isInterim || isRefused) {
      this.#calls.delete(operation.key)
      // The client makes the call again with its responses: that is another operation.
      if (isRecorded) background(this.journal.delete(operation.key, call.principal), this.#deps.log)
      return running.end(end, undefined)
    }
    await this.#finishOperation(running, end, operation)
    this.#calls.delete(operation.key)
  }

  /** Writes the end of an operation, and delivers it: with the id only if the outcome is kept. */
  async #finishOperation(running: RunningCall, end: End, { id, key }: OperationKey): Promise<void> {
    const { call } = running
    const stamped = withOperationId(end, id)
    const { keep } = this.#settings(call.target.upstream)
    const writing = this.journal.end(key, stamped, { call, keep })
    const record = await within(writing, WRITE_TIMEOUT_MS, undefined)
    // Another process may have taken the operation up, or its caller cancelled it.
    const isKept =
      record !== undefined && isEnded(record) && record.owner === this.#deps.identity.membership.id
    if (running.isTask && isKept) this.#accept(running, record.taskTtl ?? 0)
    running.end(isKept && record.result ? stamped : end, isKept ? record : undefined)
    await writing
  }

  #tick(now: number): void {
    if (this.#isClosed && this.#running.size === 0) {
      world.clearInterval(this.#timer)
      this.#timer = undefined
    }
    for (const running of this.#running.values()) {
      const age = now - running.startedAt
      const { call, isDetached } = running
      const { heartbeat, tasks } = this.#settings(call.target.upstream)
      if (age >= LASTING_MS) this.#identify(running)
      if (!isDetached && declaresTasks(call.client) && (age >= tasks.after || this.#isSlow(call)))
        this.#once(running, () => this.#becomeTask(running))
      else if (!isDetached && !declaresTasks(call.client) && age >= (tasks.answer_within ?? Infinity))
        this.#once(running, () => this.#answer(running, age))
      else if (age >= heartbeat && now - running.notes.notifiedAt >= heartbeat) running.notes.heartbeat(now)
      if (
        isStoreShared(this.#deps.gateway.settings) &&
        running.operation &&
        now - running.polledAt >= POLL_INTERVAL_MS
      )
        this.#once(running, () => this.#poll(running))
    }
  }

  /** Runs one background action for a call, unless the previous one is still running: a store can be slow. */
  #once(running: RunningCall, act: () => Promise<void>): void {
    if (running.isBusy) return
    running.isBusy = true
    const done = act().finally(() => {
      running.isBusy = false
    })
    background(done, this.#deps.log)
  }

  /** Makes a call an operation, and returns its id. */
  #identify(running: RunningCall): string | undefined {
    if (!running.recorded) background(this.#record(running, {}), this.#deps.log)
    return running.operation?.id
  }

  /** Writes the record of a call that becomes an operation, if the bounds and the store allow it. */
  async #record(
    running: RunningCall,
    more: Pick<OperationRecord, 'taskTtl'>,
  ): Promise<OperationKey | undefined> {
    const { call } = running
    if (!running.recorded && this.#isFull(call)) return undefined
    const operation = (running.operation ??= this.ids.mint(call.principal))
    if (!running.recorded) {
      running.term = this.#deps.identity.membership.term
      this.#calls.add(operation.key, running)
      call.logFields.set('operation', operationName(operation.key))
      running.recorded = this.journal.create(
        operation.key,
        this.#newRecord(running, { id: operation.id, ...more }),
      )
      this.#keepArguments(running)
      // A client without a session cancels by closing the request; others can come back for the outcome.
      if (call.client.era === 'legacy' || hasIdempotencyKey(call)) retainSlot.of(call)?.()
    }
    if (await running.recorded) return operation
    this.#calls.delete(operation.key)
    running.operation = undefined
    return undefined
  }

  /** Another process may make the call again: it needs the data for as long as the call may take, and the time to notice. */
  #keepArguments({ call, references }: RunningCall): void {
    if (references.length === 0) return
    const until = world.now() + this.#taskTtl(call)
    const kept = keepReferences(this.#deps.store, call.principal, { ids: references, until })
    background(kept, this.#deps.log)
  }

  /** Records for which approval a call waits that was not sent yet: another process must not make it without its client. */
  #keepApproval(running: RunningCall, approval: string): void {
    if (running.isSent) return
    running.approval = approval
    const { operation, recorded } = running
    // A record that is made later has it from the beginning.
    if (!operation || !recorded) return
    const kept = recorded.then((isRecorded) =>
      isRecorded ? this.journal.insist(operation.key, (before) => ({ ...before, approval })) : undefined,
    )
    background(kept, this.#deps.log)
  }

  #newRecord(
    { call, startedAt, approval }: RunningCall,
    more: Pick<OperationRecord, 'id' | 'taskTtl'>,
  ): OperationRecord {
    const { principal, client, target, requestId, params, meta } = call
    return {
      expiresAt: startedAt + MIN_RUNNING_TTL_MS,
      state: 'working',
      owner: this.#deps.identity.membership.id,
      startedAt,
      updatedAt: startedAt,
      upstream: target.upstream ?? '',
      tool: target.name ?? '',
      principal: toStoredPrincipal(principal),
      ...(principal.isEverybody && client.session !== undefined && { session: client.session }),
      requestId,
      ...more,
      ...(approval !== undefined && { approval }),
      request: { params, meta, client: { ...client }, requestState: {} },
    }
  }

  /** Answers the caller with a task instead of the result, if it supports tasks and the record is durable. */
  async #becomeTask(running: RunningCall): Promise<void> {
    const { call } = running
    if (running.isTask || !declaresTasks(call.client)) return
    const operation = await this.#record(running, {})
    if (!operation) return
    const taskTtl = this.#taskTtl(call)
    const record = await this.journal.changeOwn(operation.key, (before) => ({ ...before, taskTtl }))
    if (record?.taskTtl === undefined || isEnded(record) || running.isEnded) return
    running.isTask = true
    this.#accept(running, taskTtl)
  }

  /** Answers the caller with the task. */
  #accept(running: RunningCall, taskTtl: number): void {
    const { operation, call, message } = running
    if (!operation || running.isDetached || running.isEnded) return
    retainSlot.of(call)?.()
    // 2025-11-25 basic/utilities/tasks: the first status is `working`.
    const task = taskOf(operation.id, this.#newRecord(running, { id: operation.id, taskTtl }), message)
    running.detach({ kind: 'task', task, requestState: {} })
    this.#deps.invoker.observeRest(call, running.rest)
  }

  /** Answers a client with a short timeout: the call continues, and the id gets its outcome. */
  async #answer(running: RunningCall, age: number): Promise<void> {
    const operation = await this.#record(running, {})
    if (!operation || running.isDetached || running.isEnded) return
    const { call } = running
    retainSlot.of(call)?.()
    running.detach({ kind: 'result', result: stillRunningResult(operation.id, age) })
    this.#deps.invoker.observeRest(call, running.rest)
  }

  /** Stores the state with which another process can continue the task of the server. */
  async #keepState({ operation }: RunningCall, requestState: Call['requestState']): Promise<void> {
    if (!operation) return
    await this.journal.insist(operation.key, (before) =>
      before.request ? { ...before, request: { ...before.request, requestState } } : before,
    )
  }

  /** Reads whether another process cancelled a call of this one, or stored responses for it. */
  async #poll(running: RunningCall): Promise<void> {
    const { operation, call } = running
    const { membership } = this.#deps.identity
    const { term } = membership
    running.polledAt = world.now()
    const stored = operation && (await this.journal.operations.find(operation.key))
    // It is owned in this term too if no other process has taken it up.
    if (stored?.record.owner === membership.id) running.term = term
    if (stored?.record.state === 'cancelled') call.abort(cancelled())
    else running.wake()
  }

  /** Whether calls of a tool take minutes, by the configuration or by earlier calls. */
  #isSlow({ target: { upstream = '', name = '' } }: Call): boolean {
    const tools = this.#deps.servers.settings(upstream)?.tools ?? {}
    return isSlowTool(tools, name) || (this.#durations.usual(`${upstream} ${name}`) ?? 0) >= SLOW_TOOL_MS
  }

  #taskTtl({ target: { upstream = '', name = '' } }: Call): number {
    const { total } = this.#deps.servers.callBounds(upstream, name)
    return Math.min(total + this.#settings(upstream).keep, MAX_TASK_TTL_MS)
  }

  #isFull(call: Call): boolean {
    const { principal } = call
    if (this.#byKey.size >= MAX_OPERATIONS || !this.ids.areLasting || !this.#calls.fits(call)) return true
    return hasReachedShare(principal, this.#byKey, ({ call }) => call.principal.id, MAX_OPERATIONS)
  }
}

/** Whether calls of a tool take minutes, by the configuration. */
export function isSlowTool(tools: UpstreamSettings['tools'], name: string): boolean {
  return settingOf(tools, name, 'latency')?.value === 'minutes'
}

const EMPTY = Payload.of({})

/** Why the call of a cancelled operation is aborted. */
export function cancelled(): GatewayError {
  return new GatewayError('CANCELLED', 'The operation was cancelled.')
}

/** Whether a server or the store cannot be reached. The status of a task can be requested again. */
function isUnavailable(error: unknown, isFollowing: boolean): boolean {
  if (!(error instanceof GatewayError)) return false
  const { code, category, extra } = error
  const isRefused = extra.isUnsent === true && (category === 'transient' || category === 'rate_limited')
  return isRefused || code === 'SERVER_UNAVAILABLE' || (isFollowing && code === 'OUTCOME_UNKNOWN')
}

/** The error of started work that cannot be continued: a refusal by the gateway does not say what the server did. */
function endOfStartedCall(error: unknown, call: Call): unknown {
  const isRead = call.tool !== undefined && asCalled(call.tool, call).classification.op === 'read'
  if (!(error instanceof GatewayError) || isRead) return error
  const { code, extra } = error
  const isInconclusive = extra.isUnsent || code === 'SERVER_UNAVAILABLE' || isGatewayRefusal(error)
  return isInconclusive && !extra.relayed ? interrupted(error) : error
}

function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many operations are under way, or kept for this caller.', {
    isUnsent: true,
    suggestion:
      'Wait until some of them have ended and expired, cancel those that are not needed, or make the call without "task".',
  })
}

function notWritten(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The task cannot be recorded, so the call was not made.', {
    isUnsent: true,
    suggestion: 'Try again later, or make the call without "task".',
  })
}

/** The error of a call that needs input although its client was lost. `isOpen`: its server has started. */
function clientLost(isOpen: boolean): GatewayError {
  const message = 'The call needs input, and its client was lost when the gateway went down.'
  if (isOpen)
    return new GatewayError('OUTCOME_UNKNOWN', `${message} Its server had begun.`, {
      suggestion: VERIFY_EFFECT,
    })
  return new GatewayError('CANCELLED', `${message} Nothing was done.`, {
    category: 'permanent',
    suggestion: 'Make the call again.',
  })
}

function withOperationId(end: End, id: string): End {
  if (end.kind === 'error' || end.outcome.kind !== 'result') return end
  const result = end.outcome.result.withMeta({ [OPERATION_KEY]: id })
  return { kind: 'outcome', outcome: { kind: 'result', result } }
}
