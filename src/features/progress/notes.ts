/**
 * Progress notifications of one call: those of its server, with an estimate of the remaining time, and a heartbeat while
 * the server is silent.
 *
 * Invariants: the values of a call only grow; no value is invented; a heartbeat never prevents a later value of the
 * server.
 */
import { NS } from '../../core/identity.ts'
import type { Notification } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import { CHUNK_KEY } from '../../protocol/meta-keys.ts'
import { PROGRESS } from '../../protocol/methods.ts'
import { toDouble } from '../../core/json/exact-number.ts'

/** The `_meta` key of the progress object in a progress notification. */
export const PROGRESS_KEY = `${NS}/progress`
/** How much of the message of a server is kept and repeated, in characters; it is passed on whole. */
const MAX_MESSAGE_LENGTH = 1000
/** How many values an estimate of the remaining time needs. */
const MIN_SAMPLES = 3

/** The call that the notifications are about, and who receives them. */
export interface ReportedCall {
  readonly startedAt: number
  /** The token of the caller as it came; absent if it requested no progress. */
  readonly token: Payload | undefined
  /** The id of the operation; asking for it makes one of the call. */
  operationId(): string | undefined
  /** How long calls of this tool usually take, in milliseconds. */
  usualMs(): number | undefined
  emit(note: Notification): void
  /** Whether a caller receives the notifications. */
  hasReceiver(): boolean
  /** Whether what the gateway knows is also beside the token. */
  readonly isBeside: boolean
}

/** One value of the server. */
interface Sample {
  readonly at: number
  readonly fraction: number
}

/** Sends the progress notifications of one call. Times are milliseconds since 1970. */
export class ProgressNotes {
  readonly #call: ReportedCall
  /** The last value that was sent, and the last one of the server. */
  #sent = Number.NEGATIVE_INFINITY
  #reported = Number.NEGATIVE_INFINITY
  #first: Sample | undefined
  #samples = 0
  #isStopped = false
  /** When the last notification was sent, or the call started. */
  notifiedAt: number
  #message: string | undefined

  constructor(call: ReportedCall) {
    this.#call = call
    this.notifiedAt = call.startedAt
  }

  /** The last message of the server. */
  get message(): string | undefined {
    return this.#message
  }

  set message(message: string | undefined) {
    this.#message = message?.slice(0, MAX_MESSAGE_LENGTH)
  }

  /** Passes a notification of the server on; adds the estimate to progress. */
  relay(note: Notification, now: number): void {
    const { emit, hasReceiver } = this.#call
    if (this.#isStopped) return
    if (note.method !== PROGRESS || !note.params) return emit(note)
    const { message, ...counted } = note.params.fields
    const progress = toDouble(counted.progress)
    // A JSON number can exceed the largest double: no value could follow it.
    if (progress === undefined || !Number.isFinite(progress)) return
    if (progress <= this.#reported && !note.mustArrive) return
    this.#reported = Math.max(progress, this.#reported)
    this.notifiedAt = now
    if (typeof message === 'string') this.message = message
    const fraction = fractionOf(progress, toDouble(counted.total))
    if (fraction !== undefined) this.#sample({ at: now, fraction })
    // Without a receiver nothing need be encoded.
    if (!hasReceiver()) return
    const value = this.#grown(progress)
    const params = value === progress ? note.params : note.params.with({ progress: value })
    this.#send(note.mustArrive ? { ...note, params: this.#withOperation(params) } : { ...note, params }, {
      fraction,
      message,
      remaining: this.#remaining(now, fraction),
    })
  }

  /** Sends that the call still runs. */
  heartbeat(now: number): void {
    const { token, startedAt, usualMs } = this.#call
    this.notifiedAt = now
    if (!token || this.#isStopped) return
    const usual = usualMs()
    const elapsed = now - startedAt
    const message = stillRunning(elapsed, usual)
    const value = this.#grown(Number.isFinite(this.#sent) ? this.#sent : 0)
    const params = Payload.of({ progress: value, message }).with({ progressToken: token })
    this.#send({ method: PROGRESS, params }, { message, remaining: untilUsual(elapsed, usual) })
  }

  /** Ends the notifications. */
  stop(): void {
    this.#isStopped = true
  }

  #send(
    note: Notification & { readonly params: Payload },
    known: {
      readonly fraction?: number | undefined
      readonly message?: unknown
      readonly remaining?: number | undefined
    },
  ): void {
    const id = this.#call.operationId()
    const { fraction, message, remaining } = known
    if (id === undefined) return this.#call.emit(note)
    const named = { type: 'progress', operation_id: id }
    const left = remaining !== undefined && { estimated_remaining_seconds: remaining }
    const object = {
      ...named,
      ...(fraction !== undefined && { progress: fraction }),
      ...(typeof message === 'string' && { message: message.slice(0, MAX_MESSAGE_LENGTH) }),
      ...left,
    }
    const whole = note.params.withMeta({ [PROGRESS_KEY]: object })
    if (!this.#call.isBeside) return this.#call.emit({ ...note, params: whole })
    // What the server says itself stays.
    const { fields } = note.params
    const unsaid = Object.entries({ ...named, ...left }).filter(([key]) => !Object.hasOwn(fields, key))
    this.#call.emit({ ...note, params: whole.with(Object.fromEntries(unsaid)) })
  }

  /** A chunk of the result, with the id of the operation that resumes it. */
  #withOperation(params: Payload): Payload {
    const chunk = params.at('_meta')?.at(CHUNK_KEY)
    const id = chunk && this.#call.operationId()
    return id === undefined ? params : params.withMeta({ [CHUNK_KEY]: chunk?.with({ operation_id: id }) })
  }

  /** The value to send for a value of the server: itself, or the smallest number above the last one sent. */
  #grown(value: number): number {
    this.#sent = value > this.#sent ? value : nextAbove(this.#sent)
    return this.#sent
  }

  #sample(sample: Sample): void {
    this.#first ??= sample
    this.#samples++
  }

  /** Seconds until the end: linear from the values of the server, else from earlier calls of the tool. */
  #remaining(now: number, fraction: number | undefined): number | undefined {
    const first = this.#first
    if (fraction !== undefined && first && this.#samples >= MIN_SAMPLES && fraction > first.fraction) {
      // The clock may have been set back meanwhile.
      const left = (Math.max(now - first.at, 0) * (1 - fraction)) / (fraction - first.fraction)
      return Math.round(left / 100) / 10
    }
    return untilUsual(now - this.#call.startedAt, this.#call.usualMs())
  }
}

/** The completed part, from 0 to 1; undefined if unknown. */
function fractionOf(progress: number, total: number | undefined): number | undefined {
  if (total === undefined || !Number.isFinite(total) || total <= 0) return undefined
  return progress >= 0 && progress <= total ? progress / total : undefined
}

/** Seconds until a call has taken as long as usual; undefined once it has. */
function untilUsual(elapsed: number, usual: number | undefined): number | undefined {
  return usual !== undefined && usual > elapsed ? Math.round((usual - elapsed) / 100) / 10 : undefined
}

/** The message of a heartbeat, from the elapsed and the usual duration in milliseconds. */
export function stillRunning(elapsed: number, usual: number | undefined): string {
  const since = `still running, ${Math.round(elapsed / 1000)} s`
  return usual === undefined ? since : `${since}, usually ${Math.max(1, Math.round(usual / 1000))} s`
}

/** The next number above one: a difference that no client sees, yet a larger value. */
function nextAbove(value: number): number {
  if (value === 0) return Number.MIN_VALUE
  const step = Math.abs(value) * Number.EPSILON
  return Math.min(value + Math.max(step, Number.MIN_VALUE), Number.MAX_VALUE)
}

/** How many durations are kept for each tool, and for how many tools. */
const MAX_DURATIONS = 20
const MAX_TOOLS = 1000
const MIN_DURATIONS = 3

/** The durations of the last long calls, by tool. */
export class UsualDurations {
  readonly #tools = new Map<string, number[]>()

  add(tool: string, ms: number): void {
    const known = this.#tools.get(tool) ?? []
    // The tool that was called least recently is forgotten first.
    this.#tools.delete(tool)
    if (this.#tools.size >= MAX_TOOLS) this.#tools.delete(this.#tools.keys().next().value ?? '')
    this.#tools.set(tool, [...known.slice(1 - MAX_DURATIONS), ms])
  }

  /** The median duration in milliseconds; undefined before the third call. */
  usual(tool: string): number | undefined {
    const known = this.#tools.get(tool)
    if (!known || known.length < MIN_DURATIONS) return undefined
    return known.toSorted((one, other) => one - other)[Math.floor(known.length / 2)]
  }
}
