/**
 * Runs tool calls that may last. A call that takes over a second, or says how far it is, becomes an operation: it has an
 * id and a durable record, its outcome is kept for a while, and it goes on without its client. A client that takes tasks
 * gets such a call as a task.
 *
 * Invariants: a task is durable before its caller learns of it; an outcome is durable before anyone learns of it; the
 * record of an operation has one owner, and only its owner ends it, but for a cancellation.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { hasReachedShare } from '../../core/principal.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { pause, within } from '../../core/time/waiting.ts'
import { hasIdempotencyKey } from '../../protocol/meta-keys.ts'
import { requestedTask, takesTasks, withoutTask } from '../../protocol/tasks.ts'
import {
  expiryOf,
  isEnded,
  type OperationKey,
  type OperationRecord,
  type OperationState,
  operationName,
  OperationIds,
  Operations,
} from '../../records/operations.ts'
import { toStoredPrincipal } from '../../records/principal.ts'
import type { Services } from '../feature.ts'
import { requestInput } from './input.ts'
import { Durations } from './notes.ts'
import { keptRequest } from './pages.ts'
import { type End, RunningCall } from './running-call.ts'
import { OPERATION_KEY, stillRunningResult, taskOf } from './task-view.ts'

export type Deps = Pick<
  Services,
  'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'features' | 'gateway'
>

/** The settings of the feature for one server; times are milliseconds. */
export interface ProgressSettings {
  /** How long a server may be silent before its caller hears that the call still runs. */
  readonly heartbeat: number
  /** How long the outcome of an operation is kept. */
  readonly keep: number
  readonly tasks: {
    /** How long a call may take before a client that takes tasks gets it as one. */
    readonly after: number
    /** How long a client without tasks waits at most; absent: as long as the call takes. */
    readonly answer_within?: number
  }
}

/** A call that takes longer is an operation, in milliseconds. */
const LASTING_MS = 1000
const TICK_MS = 100
/** A tool whose calls usually take longer is slow, in milliseconds. */
const SLOW_TOOL_MS = 60_000
/** How long a call that is asked for as a task may take to be refused before it is accepted, in milliseconds. */
const REFUSAL_TIMEOUT_MS = 50
/** How many operations a process runs at once; calls beyond that last without an id. */
const MAX_OPERATIONS = 10_000
/** How long an outcome waits for its record, and between two tries to write it, in milliseconds. */
const WRITE_TIMEOUT_MS = 5000
const WRITE_RETRY_DELAY_MS = 250
const MAX_WRITE_ATTEMPTS = 240
/** How often an operation looks whether another process cancelled or answered it, in milliseconds. */
const POLL_INTERVAL_MS = 1000
/** How often a task of a server is followed again after its connection was lost, and how long to wait, in milliseconds. */
const MAX_FOLLOW_ATTEMPTS = 5
const FOLLOW_RETRY_DELAY_MS = 500
/** How often a task may ask for input. */
const MAX_ROUNDS = 10
/** How long a task is kept at most after it was begun, in milliseconds. */
const MAX_TASK_TTL_MS = 86_400_000
/** How long a record lives at least while its call runs, in milliseconds. */
const MIN_RUNNING_TTL_MS = 86_400_000

/** Runs the tool calls of all servers, from their beginning to a durable end. */
export class OperationEngine {
  readonly operations: Operations
  readonly ids: OperationIds
  readonly #deps: Deps
  readonly #settings: (upstream?: string) => ProgressSettings
  readonly #running = new Set<RunningCall>()
  readonly #byKey: Map<string, RunningCall>
  readonly #durations = new Durations()
  readonly #timer: NodeJS.Timeout
  readonly #observers = new Set<(key: string, record: OperationRecord) => void>()
  #isClosed = false

  constructor(settings: (upstream?: string) => ProgressSettings, deps: Deps) {
    this.#deps = deps
    this.#settings = settings
    this.operations = new Operations(deps.store, Date.now)
    const { membership, seal } = deps.identity
    this.ids = new OperationIds(seal, membership.id)
    this.#byKey = operationsOfProcess(membership)
    this.#timer = setInterval(() => this.#tick(Date.now()), TICK_MS).unref()
  }

  /** Makes a call, as long as it takes. */
  run(call: Call, next: Handler): Promise<Outcome> {
    const running = this.#create(call)
    if (call.operation) return this.#takeUp(running, call.operation, next)
    const wanted = requestedTask(call)
    if (wanted) return this.#runAsTask(running, next, wanted.ttl)
    this.#start(running, next)
    return running.first
  }

  /** The call of an operation, where this process runs it. */
  running(key: string): RunningCall | undefined {
    return this.#byKey.get(key)
  }

  /** Hears of every record that changes here, until what it returns is called. */
  observe(observer: (key: string, record: OperationRecord) => void): () => void {
    this.#observers.add(observer)
    return () => void this.#observers.delete(observer)
  }

  /** Changes a record, and wakes what waits for that. Resolves with the record there is then. */
  async change(
    key: string,
    change: (before: OperationRecord) => OperationRecord | undefined,
  ): Promise<OperationRecord | undefined> {
    let hasChanged = false
    const record = await this.operations.change(key, (before) => {
      const after = change(before)
      hasChanged = after !== undefined
      return after && { ...after, updatedAt: Date.now() }
    })
    if (hasChanged && record) {
      this.#byKey.get(key)?.wake(record)
      for (const observer of this.#observers) observer(key, record)
    }
    return record
  }

  /** Takes no calls any more; those under way go on to their end. */
  close(): void {
    this.#isClosed = true
  }

  #create(call: Call): RunningCall {
    const tool = `${call.target.upstream} ${call.target.name}`
    return new RunningCall(call, Date.now(), {
      operationId: (running) => this.#identify(running),
      usualMs: () => this.#durations.usual(tool),
    })
  }

  #start(running: RunningCall, next: Handler): void {
    this.#running.add(running)
    const { call } = running
    const inner: Call = {
      ...withoutTask(call),
      emit: (note) => running.notes.relay(note, Date.now()),
      drained: () => running.drained(),
      isDetached: () => running.isDetached,
      ...((running.isTask || takesTasks(call.client)) && { acceptsTask: true as const }),
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

  /** A call that its client asks for as a task. @throws what refuses it at once */
  async #runAsTask(running: RunningCall, next: Handler, ttl: number | undefined): Promise<Outcome> {
    if (this.#isFull(running.call)) throw overloaded()
    running.isTask = true
    const taskTtl = Math.min(ttl ?? this.#taskTtl(running.call), MAX_TASK_TTL_MS)
    const operation = await this.#record(running, { taskTtl })
    if (!operation) throw notWritten()
    this.#start(running, next)
    try {
      // What is refused at once is no task.
      await within(running.first, REFUSAL_TIMEOUT_MS, undefined)
    } catch (error) {
      await this.operations.delete(operation.key)
      throw error
    }
    this.#accept(running, taskTtl)
    return running.first
  }

  /** The call of an operation whose process ended; its record is ours already. */
  #takeUp(running: RunningCall, operation: OperationKey, next: Handler): Promise<Outcome> {
    running.operation = operation
    running.isTask = true
    running.recorded = Promise.resolve(true)
    this.#byKey.set(operation.key, running)
    running.detach({ kind: 'result', result: EMPTY })
    const { rest } = running
    this.#start(running, next)
    return rest
  }

  /** Makes the call, and goes on with it for as long as its server works or asks. */
  async #drive(running: RunningCall, next: Handler, inner: Call): Promise<Outcome> {
    let current = inner
    for (let round = 1; ; round++) {
      const outcome = await this.#attempt(running, next, current)
      if (outcome.kind === 'result') return outcome
      if (outcome.kind === 'task') {
        // Its server made a task of it, so its caller need not wait either.
        running.notes.message = outcome.task.statusMessage
        await this.#becomeTask(running)
        await this.#keepState(running, outcome.requestState)
        const { inputResponses: _responses, ...rest } = inner
        current = { ...rest, requestState: outcome.requestState }
        continue
      }
      // Whoever waits is asked as the call ends, and makes it again with the responses.
      if (!running.isTask) return outcome
      if (round > MAX_ROUNDS)
        throw new GatewayError('TOO_MANY_ROUNDS', 'The server asked too many times in a row.')
      const inputResponses = await requestInput(running, outcome, {
        round,
        find: (key) => this.operations.find(key),
        change: (key, change) => this.#changeOwn(key, change),
      })
      current = { ...inner, inputResponses, requestState: outcome.requestState }
    }
  }

  /** Makes a call; one that follows a task of its server is made again where the connection to the server is lost. */
  async #attempt({ call: { signal } }: RunningCall, next: Handler, current: Call): Promise<Outcome> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await next(current)
      } catch (error) {
        const isLost = isConnectionLost(error) && current.requestState.upstream_task !== undefined
        if (!isLost || attempt === MAX_FOLLOW_ATTEMPTS) throw error
        await pause(FOLLOW_RETRY_DELAY_MS * attempt, signal)
      }
    }
  }

  /** Records the end of a call, and delivers it. */
  async #finish(running: RunningCall, end: End): Promise<void> {
    this.#running.delete(running)
    const { operation, call, startedAt } = running
    const duration = Date.now() - startedAt
    if (duration >= LASTING_MS) this.#durations.add(`${call.target.upstream} ${call.target.name}`, duration)
    if (!operation) return running.end(end, undefined)
    const isRecorded = await running.recorded
    const isInterim = end.kind === 'outcome' && end.outcome.kind !== 'result'
    const isRefused = running.isTask && !running.isDetached && end.kind === 'error'
    if (!isRecorded || isInterim || isRefused) {
      this.#byKey.delete(operation.key)
      // A client that is asked makes the call again with its responses: that is another operation.
      if (isRecorded && isInterim) background(this.operations.delete(operation.key), this.#deps.log)
      return running.end(end, undefined)
    }
    const stamped = withOperationId(end, operation.id)
    const writing = this.#writeEnd(call, operation.key, stamped)
    const record = await within(writing, WRITE_TIMEOUT_MS, undefined)
    if (running.isTask && record) this.#accept(running, record.taskTtl ?? 0)
    running.end(record ? stamped : end, record)
    await writing
    this.#byKey.delete(operation.key)
  }

  /** Writes the end of an operation until the store takes it, or for a while. Resolves with the record there is then. */
  async #writeEnd(call: Call, key: string, end: End): Promise<OperationRecord | undefined> {
    const { keep } = this.#settings(call.target.upstream)
    const { id } = this.#deps.identity.membership
    for (let attempt = 0; attempt < MAX_WRITE_ATTEMPTS; attempt++) {
      try {
        return await this.change(key, (before) => {
          if (isEnded(before) || before.owner !== id) return undefined
          const { request, input: _input, ...rest } = before
          const fields = endFields(end, call)
          return {
            ...rest,
            ...keptRequest(request, fields.result),
            ...fields,
            expiresAt: expiryOf(before, keep),
          }
        })
      } catch (error) {
        this.#deps.log.warn('operation.unrecorded', { error: asGatewayError(error).message })
        await pause(WRITE_RETRY_DELAY_MS)
      }
    }
    return undefined
  }

  #tick(now: number): void {
    if (this.#isClosed && this.#running.size === 0) clearInterval(this.#timer)
    for (const running of this.#running) {
      const age = now - running.startedAt
      const { call, isDetached } = running
      const { heartbeat, tasks } = this.#settings(call.target.upstream)
      if (age >= LASTING_MS) this.#identify(running)
      if (!isDetached && takesTasks(call.client) && (age >= tasks.after || this.#isSlow(call)))
        background(this.#becomeTask(running), this.#deps.log)
      else if (!isDetached && !takesTasks(call.client) && age >= (tasks.answer_within ?? Infinity))
        background(this.#answer(running, age), this.#deps.log)
      else if (age >= heartbeat && now - running.notes.saidAt >= heartbeat) running.notes.beat(now)
      if (running.operation && now - running.lookedAt >= POLL_INTERVAL_MS) {
        running.lookedAt = now
        if (this.#deps.gateway.isStoreShared) background(this.#look(running), this.#deps.log)
      }
    }
  }

  /** Makes an operation of a call: its id for messages to its caller. */
  #identify(running: RunningCall): string | undefined {
    if (!running.recorded) background(this.#record(running, {}), this.#deps.log)
    return running.operation?.id
  }

  /** Writes the record of a call that becomes an operation, where there is room and the store takes it. */
  async #record(
    running: RunningCall,
    more: Pick<OperationRecord, 'taskTtl'>,
  ): Promise<OperationKey | undefined> {
    const { call } = running
    if (!running.recorded && this.#isFull(call)) return undefined
    const operation = (running.operation ??= this.ids.mint(call.principal))
    if (!running.recorded) {
      this.#byKey.set(operation.key, running)
      call.logFields.set('operation', operationName(operation.key))
      running.recorded = this.#write(operation.key, this.#newRecord(running, { id: operation.id, ...more }))
      // A client without a session that is gone has cancelled; others come back for what is kept.
      if (call.client.era === 'legacy' || hasIdempotencyKey(call)) call.retain?.()
    }
    if (await running.recorded) return operation
    this.#byKey.delete(operation.key)
    running.operation = undefined
    return undefined
  }

  async #write(key: string, record: OperationRecord): Promise<boolean> {
    try {
      await this.#deps.identity.membership.register()
      await this.operations.create(key, record)
      return true
    } catch (error) {
      this.#deps.log.warn('operation.unrecorded', { error: asGatewayError(error).message })
      return false
    }
  }

  #newRecord(
    { call, startedAt }: RunningCall,
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
      request: { params, meta, client: { ...client }, requestState: {} },
    }
  }

  /** Gives the caller a task in place of the result, if it takes tasks and the record is durable. */
  async #becomeTask(running: RunningCall): Promise<void> {
    const { call } = running
    if (running.isTask || !takesTasks(call.client)) return
    const operation = await this.#record(running, {})
    if (!operation) return
    const taskTtl = this.#taskTtl(call)
    const record = await this.change(operation.key, (before) =>
      isEnded(before) ? undefined : { ...before, taskTtl },
    )
    if (!record || isEnded(record) || running.isEnded) return
    running.isTask = true
    this.#accept(running, taskTtl)
  }

  /** Answers the caller with the task. */
  #accept(running: RunningCall, taskTtl: number): void {
    const { operation, call, message } = running
    if (!operation || running.isDetached) return
    call.retain?.()
    // 2025-11-25 basic/utilities/tasks: the first status is `working`.
    const task = taskOf(operation.id, this.#newRecord(running, { id: operation.id, taskTtl }), message)
    running.detach({ kind: 'task', task, requestState: {} })
    this.#deps.invoker.observeRest(call, running.rest)
  }

  /** Tells a client that gives up soon that the call goes on, and how it gets the outcome. */
  async #answer(running: RunningCall, age: number): Promise<void> {
    const operation = await this.#record(running, {})
    if (!operation || running.isDetached || running.isEnded) return
    const { call } = running
    call.retain?.()
    running.detach({ kind: 'result', result: stillRunningResult(operation.id, age) })
    this.#deps.invoker.observeRest(call, running.rest)
  }

  /** Has another process go on where this one ends: with the state that the server's own task needs. */
  async #keepState({ operation }: RunningCall, requestState: Call['requestState']): Promise<void> {
    if (!operation) return
    await this.#changeOwn(operation.key, (before) =>
      before.request ? { ...before, request: { ...before.request, requestState } } : before,
    )
  }

  #changeOwn(
    key: string,
    change: (before: OperationRecord) => OperationRecord,
  ): Promise<OperationRecord | undefined> {
    const { id } = this.#deps.identity.membership
    return this.change(key, (before) => (isEnded(before) || before.owner !== id ? undefined : change(before)))
  }

  /** Looks whether another process cancelled a call of this one, or answered it. */
  async #look(running: RunningCall): Promise<void> {
    const { operation, call } = running
    const stored = operation && (await this.operations.find(operation.key))
    if (stored?.record.state === 'cancelled') call.abort(cancelled())
    else running.wake()
  }

  /** Whether calls of a tool take minutes, by its owner's word or by its earlier calls. */
  #isSlow({ target: { upstream = '', name = '' } }: Call): boolean {
    const tools = this.#deps.servers.settings(upstream)?.tools ?? {}
    return isSlowTool(tools, name) || (this.#durations.usual(`${upstream} ${name}`) ?? 0) >= SLOW_TOOL_MS
  }

  #taskTtl({ target: { upstream = '', name = '' } }: Call): number {
    const { total } = this.#deps.servers.callBounds(upstream, name)
    return Math.min(total + this.#settings(upstream).keep, MAX_TASK_TTL_MS)
  }

  #isFull({ principal }: Call): boolean {
    if (this.#byKey.size >= MAX_OPERATIONS) return true
    return hasReachedShare(principal, this.#byKey, ({ call }) => call.principal.id, MAX_OPERATIONS)
  }
}

/** Whether calls of a tool take minutes, by the configuration. */
export function isSlowTool(tools: UpstreamSettings['tools'], name: string): boolean {
  return settingOf(tools, name, 'latency')?.value === 'minutes'
}

const processes = new WeakMap<object, Map<string, RunningCall>>()

/** The operations that a process runs, by key: they outlive the runtime that began them. */
export function operationsOfProcess(membership: object): Map<string, RunningCall> {
  const known = processes.get(membership) ?? new Map<string, RunningCall>()
  processes.set(membership, known)
  return known
}

const EMPTY = Payload.of({})

/** Why the call of a cancelled operation is aborted. */
export function cancelled(): GatewayError {
  return new GatewayError('CANCELLED', 'The operation was cancelled.')
}

function isConnectionLost(error: unknown): boolean {
  return (
    error instanceof GatewayError && (error.code === 'OUTCOME_UNKNOWN' || error.code === 'SERVER_UNAVAILABLE')
  )
}

function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many operations are under way.', {
    isUnsent: true,
    suggestion: 'Wait until some of them have ended.',
  })
}

function notWritten(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The task cannot be recorded, so the call was not made.', {
    isUnsent: true,
    suggestion: 'Try again later, or make the call without "task".',
  })
}

function withOperationId(end: End, id: string): End {
  if (end.kind === 'error' || end.outcome.kind !== 'result') return end
  const result = end.outcome.result.withMeta({ [OPERATION_KEY]: id })
  return { kind: 'outcome', outcome: { kind: 'result', result } }
}

/** The states of operations that failed with some codes. */
const failedStates: Readonly<Record<string, OperationState>> = {
  OUTCOME_UNKNOWN: 'unknown',
  CANCELLED: 'cancelled',
}

/** An end as its record keeps it: the result as its caller gets it, an unforeseen error without its text. */
function endFields(end: End, call: Call): Pick<OperationRecord, 'state' | 'result' | 'failure'> {
  if (end.kind === 'error') {
    const failure = asGatewayError(end.error)
    return { state: failedStates[failure.code] ?? 'failed', failure }
  }
  if (end.outcome.kind !== 'result') throw new TypeError('an operation ends with a result or an error')
  const { result } = end.outcome
  return { state: 'completed', result: call.rewriteResult?.(result) ?? result }
}
