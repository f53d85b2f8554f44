/**
 * One tool call in progress: who waits for it, and whether it is an operation.
 *
 *     attached ──▶ operation (a record, an id) ──▶ detached (its request is answered, or its client is gone)
 *        │                    │                        │
 *        └────────────────────┴──────────▶ ended ◀─────┘
 *
 * Nearly every call ends attached, within a second, so what only an operation needs is created on first use.
 */
import type { Call, Notification, Outcome } from '../../core/call.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import { PROGRESS } from '../../protocol/methods.ts'
import type { OperationKey, OperationRecord, OperationState } from '../../records/operations.ts'
import { ProgressNotes, type ReportedCall } from './notes.ts'
import { bytesOf, type HeldMemory } from '../../core/holdings.ts'

/** How a call ended. */
export type End =
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'error'; readonly error: unknown }

/** Another caller who waits for the end. */
type Joining = Pick<Call, 'emit' | 'drained' | 'signal' | 'params' | 'meta'>

/** What an additional caller receives. */
type Listener = Pick<Call, 'emit' | 'drained'>

/** What its progress notifications need; asking for the id makes an operation of the call. */
type Reporting = Pick<ReportedCall, 'usualMs' | 'isBeside'> & {
  operationId(running: RunningCall): string | undefined
}

/** A tool call in progress, with all callers that wait for it. */
export class RunningCall {
  readonly call: Call
  /** In milliseconds since 1970. */
  readonly startedAt: number
  /** Which of the calls of its process it is. */
  number = 0
  /** The id and the key of its record, once it is an operation. */
  operation: OperationKey | undefined
  /** Resolves once the record is durable; with false if it could not be written. */
  recorded: Promise<boolean> | undefined
  /** The state of its record, as this process wrote it last. */
  state: OperationState = 'working'
  /** The term of its process in which it owned the record last; absent without a record, or where it is not known. */
  term: number | undefined
  /** Its caller sees a task. */
  isTask = false
  /** Its server may have begun. */
  isSent = false
  /** The approval that it waited for before it was sent. */
  approval: string | undefined
  /** The ids of the references in its arguments, once they are known. */
  references: readonly string[] = []
  /** When its record was last read for changes by other processes, in milliseconds since 1970. */
  polledAt = 0
  /** A background action for it is running. */
  isBusy = false
  readonly #reporting: Reporting
  readonly #first = Promise.withResolvers<Outcome>()
  #isDetached = false
  #ended: { readonly end: End; readonly record: OperationRecord | undefined } | undefined
  #notes: ProgressNotes | undefined
  /** The callers that wait besides the first one. */
  #joined: Set<Listener> | undefined
  #end: PromiseWithResolvers<OperationRecord | undefined> | undefined
  #rest: PromiseWithResolvers<Outcome> | undefined
  #change: PromiseWithResolvers<void> | undefined

  constructor(call: Call, now: number, reporting: Reporting) {
    this.call = call
    this.startedAt = now
    this.#reporting = reporting
  }

  /** The outcome for its first caller. */
  get first(): Promise<Outcome> {
    return this.#first.promise
  }

  /** The end of the call, independent of callers. */
  get rest(): Promise<Outcome> {
    this.#rest ??= Promise.withResolvers<Outcome>()
    if (this.#ended) settle(this.#rest, this.#ended.end)
    return this.#rest.promise
  }

  /** Whether it runs without a request. */
  get isDetached(): boolean {
    return this.#isDetached
  }

  get isEnded(): boolean {
    return this.#ended !== undefined
  }

  /** Its progress notifications. */
  get notes(): ProgressNotes {
    if (this.#notes) return this.#notes
    this.#notes = new ProgressNotes({
      startedAt: this.startedAt,
      token: this.call.params.at('_meta')?.at('progressToken'),
      ...this.#reporting,
      operationId: () => this.#reporting.operationId(this),
      emit: (note) => this.#emit(note),
      hasReceiver: () => !this.#isDetached || (this.#joined?.size ?? 0) > 0,
    })
    // A server may send a notification after its response.
    if (this.#ended) this.#notes.stop()
    return this.#notes
  }

  /** The last message of its server. */
  get message(): string | undefined {
    return this.#notes?.message
  }

  /** Answers the first caller; the call continues without its request. */
  detach(answer: Outcome): void {
    this.#isDetached = true
    this.#first.resolve(answer)
  }

  /**
   * Waits for the end with another caller, which gets the notifications meanwhile. Resolves with the record of the end;
   * undefined if there is none. @throws the reason of the caller's signal
   */
  async join(caller: Joining): Promise<OperationRecord | undefined> {
    if (this.#ended) return this.#ended.record
    this.#end ??= Promise.withResolvers<OperationRecord | undefined>()
    const joined = (this.#joined ??= new Set())
    const listener = { ...caller, emit: emitterOf(caller) }
    joined.add(listener)
    try {
      return await untilAborted(this.#end.promise, caller.signal)
    } finally {
      joined.delete(listener)
    }
  }

  /** Resolves once all waiting callers have read what was sent, or are gone. */
  async drained(): Promise<void> {
    await Promise.all([
      this.#isDetached ? undefined : this.call.drained?.(),
      ...[...(this.#joined ?? [])].map((each) => each.drained?.()),
    ])
  }

  /** Delivers the end to all waiting callers; `record` is its stored form, if it was stored. */
  end(end: End, record: OperationRecord | undefined): void {
    this.#ended = { end, record }
    this.#notes?.stop()
    this.#end?.resolve(record)
    if (this.#rest) settle(this.#rest, end)
    settle(this.#first, end)
    this.wake()
  }

  /** Resolves when `wake` is called next: its record may have changed. */
  changed(): Promise<void> {
    this.#change ??= Promise.withResolvers<void>()
    return this.#change.promise
  }

  /** Wakes what waits for a change; `record` is what the record was changed to. */
  wake(record?: Pick<OperationRecord, 'state'>): void {
    if (record) this.state = record.state
    this.#change?.resolve()
    this.#change = undefined
  }

  #emit(note: Notification): void {
    if (!this.#isDetached) this.call.emit(note)
    if (this.#joined) for (const { emit } of this.#joined) emit(note)
  }
}

/** How many of the calls work, and how many wait for input. */
export function countByState(
  calls: Iterable<Pick<RunningCall, 'state'>>,
): Readonly<Record<'working' | 'input_required', number>> {
  const counts = { working: 0, input_required: 0 }
  for (const { state } of calls) if (state === 'working' || state === 'input_required') counts[state]++
  return counts
}

/** Sends notifications to another caller: progress under its own token, and none without one. */
function emitterOf({ emit, params, meta }: Joining): (note: Notification) => void {
  // A built-in tool has its arguments as params.
  const token = params.at('_meta')?.at('progressToken') ?? meta.progressToken
  return (note) => {
    if (note.method !== PROGRESS || !note.params) return emit(note)
    if (token !== undefined) emit({ ...note, params: note.params.with({ progressToken: token }) })
  }
}

function settle(waiting: PromiseWithResolvers<Outcome>, end: End): void {
  if (end.kind === 'error') waiting.reject(end.error)
  else waiting.resolve(end.outcome)
}

/*
 * The operations that a gateway runs. They outlive the runtime that started them, and count toward the memory that their
 * callers may make the gateway hold.
 */

/** The operations of a gateway, by key. */
export class RunningCalls {
  readonly #byKey = new Map<string, RunningCall>()
  /** What they take of the memory of the gateway; set before the first one. */
  held: HeldMemory | undefined

  get byKey(): ReadonlyMap<string, RunningCall> {
    return this.#byKey
  }

  /** Whether there is memory for one more. */
  fits(call: Call): boolean {
    return this.held?.fits(call.principal, bytesOf(call)) !== false
  }

  add(key: string, running: RunningCall): void {
    this.delete(key)
    this.#byKey.set(key, running)
    this.held?.change(running.call.principal, bytesOf(running.call))
  }

  delete(key: string): void {
    const running = this.#byKey.get(key)
    if (!running) return
    this.#byKey.delete(key)
    this.held?.change(running.call.principal, -bytesOf(running.call))
  }

  close(): void {
    for (const key of this.#byKey.keys()) this.delete(key)
  }
}
