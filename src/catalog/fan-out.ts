/**
 * Asks all servers of the combined address at once, each until a deadline. A server that misses it is left out of the answer,
 * and is asked again in the background; no client waits for it before it has answered:
 *
 *   waited for ──misses the deadline──▶ silent ──answers, or can be reached──▶ waited for
 *
 * While it is silent about one method, it is waited for shortly where it is asked for another one, so that a client that reads
 * all lists does not wait for each of them.
 *
 * A server may serve one client and hang for another, so silence is remembered for each kind of caller once the server has
 * answered anybody, and for all callers before that. An answer that came late is kept for its kind of caller: a server that is
 * always slower than the deadline is answered for with the last one, while it is asked again.
 */
import { LRUCache } from 'lru-cache'
import type { Call } from '../core/call.ts'
import { asGatewayError, isUnanswered } from '../core/error.ts'
import { canonical } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { excerpt } from '../core/text/redact.ts'
import { delayBefore, reopening } from '../core/time/backoff.ts'
import { pause, within } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'

interface AskedServers {
  readonly names: readonly string[]
  /** How long a server may take, in milliseconds. */
  readonly timeoutMs: number
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
  /** Called when a server answers that was left out before. */
  onReturn(upstream: string): void
  readonly log: Log
}

/** Makes a request to a server. The call is not the caller's own: it continues after the deadline. */
type Ask<Value> = (upstream: string, call: Call) => Promise<Value>

/** The answers of the servers, in the order of the configuration. */
interface Answers<Value> {
  readonly found: readonly Value[]
  /** Whether a server failed or did not answer in time, so that more may come. */
  readonly isPartial: boolean
}

/** The part of the deadline that a server gets for a method if it is silent about another one. */
const SILENT_PART = 1 / 4
/** The first delay before a silent server is asked again, in milliseconds. */
const FIRST_RETRY_MS = 1000
/** How long a silent server is asked again after the last request of a client, in milliseconds. */
const RETRY_WITHIN_MS = 600_000
/** The maximum number of remembered silences and of kept answers of a server: callers determine them. */
const MAX_SILENCES = 100
const MAX_LATE_ANSWERS = 20

/** Precedes the method in findings about the pages of a list. */
const PAGES = 'pages of '

/** The servers of the combined address. */
export class FanOut {
  readonly #servers: ReadonlyMap<string, Server>

  constructor(options: AskedServers) {
    this.#servers = new Map(options.names.map((name) => [name, new Server(name, options)]))
  }

  /**
   * Asks each server. Those that fail are left out, unless `otherwise` has an answer: it is asked of those that do not answer.
   * @throws the first failure, if nothing else is there or may come
   */
  async all<Value>(call: Call, ask: Ask<Value>, otherwise?: Ask<Value>): Promise<Answers<Value>> {
    const instead = async (upstream: string): Promise<{ readonly value: Value } | undefined> =>
      otherwise?.(upstream, call).then(
        (value) => ({ value }),
        () => undefined,
      )
    const settled = await Promise.allSettled(
      [...this.#servers].map(async ([name, server]) => {
        const known = async (): Promise<{ readonly value: Value } | undefined> => {
          const answer = await instead(name)
          server.isAnsweredFor ||= answer !== undefined
          return answer
        }
        try {
          return (await server.ask(call, ask)) ?? (await known())
        } catch (error) {
          const answer = isUnanswered(error) ? await known() : undefined
          if (answer) return answer
          throw error
        }
      }),
    )
    const answers = settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    const [failure] = settled.filter((each) => each.status === 'rejected')
    if (answers.length === 0 && failure) throw failure.reason
    const found = answers.flatMap((answer) => (answer ? [answer.value] : []))
    return { found, isPartial: found.length < this.#servers.size }
  }

  /** Resolves when a request of the caller's own is settled, or its server misses the deadline or did so before. */
  settled(upstream: string, call: Call, request: Promise<unknown>): Promise<void> {
    return this.#servers.get(upstream)?.settled(call, request) ?? Promise.resolve()
  }

  /** Notes whether a server can be reached: with a new connection, it may answer again. */
  reachable(upstream: string, isReachable: boolean): void {
    this.#servers.get(upstream)?.reachable(isReachable)
  }

  /** Says why further pages of a server's list were not read; undefined if all were. */
  notePages(upstream: string, method: string, problem: string | undefined): void {
    this.#servers.get(upstream)?.note(`${PAGES}${method}`, problem)
  }

  /** What a server does not answer, and why, for people. */
  problems(upstream: string): readonly string[] {
    return this.#servers.get(upstream)?.problems ?? []
  }
}

/** A server that is silent about one method, for one kind of caller. */
interface Silence {
  readonly method: string
  readonly caller: string
  /** Makes the last request again that was not waited for, and keeps its answer. */
  again: () => Promise<unknown>
  /** When that was, on the monotonic clock. */
  at: number
  /** Whether it is asked again, or will be. */
  isTried: boolean
}

class Server {
  readonly #name: string
  readonly #options: AskedServers
  readonly #silences = new Map<string, Silence>()
  /** The methods that it does not answer, and why. */
  readonly #problems = new Map<string, string>()
  /** Whether it answered anybody since it could be reached. */
  #hasAnswered = false
  /** The last answers to requests that take longer than the deadline, by method and caller. */
  readonly #late = new LRUCache<string, { readonly value: unknown }>({ max: MAX_LATE_ANSWERS })
  /** Whether clients got its last answers: then its subscribers learn of its return from itself. */
  isAnsweredFor = false
  /** The requests that renew them. */
  readonly #renewing = new Set<string>()

  constructor(name: string, options: AskedServers) {
    this.#name = name
    this.#options = options
  }

  get problems(): readonly string[] {
    return [...this.#problems].map(([method, problem]) => `${method}: ${problem}`)
  }

  /** The answer; undefined if the server is silent. @throws what the request throws */
  async ask<Value>(call: Call, ask: Ask<Value>): Promise<{ readonly value: Value } | undefined> {
    const late = this.#late.get(callerKey(call))
    if (late) {
      void this.#renew(call, ask)
      // Each key is used with one type of answer.
      return late as { readonly value: Value }
    }
    const key = this.#keyOf(call)
    const silence = this.#silences.get(key)
    if (silence) {
      silence.again = this.#detached(call, ask)
      silence.at = world.monotonic()
      if (!silence.isTried) void this.#tryAgain(key, silence)
      return undefined
    }
    const request = detachable(call)
    const answer = ask(this.#name, request.call).then((value) => ({ value }))
    try {
      const found = await within(answer, this.#timeoutFor(call), undefined)
      if (found) {
        this.#answered(call.method)
        this.isAnsweredFor = false
      } else {
        const kept = answer.then((each) => void this.#late.set(callerKey(call), each))
        void this.#tryAgain(key, this.#silent(key, call, this.#detached(call, ask)), kept)
      }
      return found
    } catch (error) {
      this.#failed(call.method, error)
      throw error
    } finally {
      request.detach()
    }
  }

  async settled(call: Call, request: Promise<unknown>): Promise<void> {
    const key = this.#keyOf(call)
    if (this.#silences.has(key)) return
    const waited = request.then(
      () => true,
      () => true,
    )
    if (await within(waited, this.#timeoutFor(call), false)) return
    // The request continues by itself.
    this.#silent(key, call, () => request).isTried = true
    void waited.then(() => this.#hasAnswered && this.#silences.delete(key))
  }

  reachable(isReachable: boolean): void {
    this.#hasAnswered = isReachable
    if (isReachable) this.#waitAgain()
  }

  note(method: string, problem: string | undefined): void {
    const { log } = this.#options
    const before = this.#problems.size
    if (problem === undefined) this.#problems.delete(method)
    else if (!this.#problems.has(method)) {
      this.#problems.set(method, problem)
      const level = before === 0 ? 'warn' : 'debug'
      log[level]('upstream.missing', { upstream: this.#name, method, reason: problem })
    }
    if (before > 0 && this.#problems.size === 0) log.info('upstream.complete', { upstream: this.#name })
  }

  /** How long the server may take, in milliseconds. */
  #timeoutFor(call: Call): number {
    const { timeoutMs } = this.#options
    const caller = callerOf(call)
    const isSilent = [...this.#silences.values()].some((silence) => silence.caller === caller)
    return isSilent ? timeoutMs * SILENT_PART : timeoutMs
  }

  #keyOf(call: Call): string {
    if (this.#hasAnswered) return callerKey(call)
    // After the handshake, one list is waited for: the server may still be starting.
    return call.method === 'server/discover' ? call.method : 'lists'
  }

  #silent(key: string, call: Call, again: Silence['again']): Silence {
    const { method } = call
    const seconds = this.#timeoutFor(call) / 1000
    this.note(method, `the server did not answer within ${seconds} s, so it is left out`)
    const silence = { method, caller: callerOf(call), again, at: world.monotonic(), isTried: false }
    if (this.#silences.size >= MAX_SILENCES) this.#silences.clear()
    this.#silences.set(key, silence)
    return silence
  }

  #answered(method: string): void {
    this.note(method, undefined)
    if (this.#hasAnswered) return
    this.#hasAnswered = true
    this.#waitAgain()
  }

  #waitAgain(): void {
    const problems = [...this.#problems.keys()].filter((method) => !method.startsWith(PAGES))
    for (const method of problems) this.note(method, undefined)
    const isBack = this.#silences.size + problems.length > 0
    this.#silences.clear()
    if (isBack) this.#returned()
  }

  #returned(): void {
    if (!this.isAnsweredFor) this.#options.onReturn(this.#name)
    this.isAnsweredFor = false
  }

  #failed(method: string, error: unknown): void {
    const { code, message } = asGatewayError(error)
    if (faults.has(code))
      this.note(method, `the request failed, so the server is left out: ${excerpt(message)}`)
  }

  /** Asks again until it answers; begins with a request that is not answered yet, if there is one. */
  async #tryAgain(key: string, silence: Silence, first?: Promise<unknown>): Promise<void> {
    const { ended } = this.#options
    const isSilent = (): boolean => this.#silences.get(key) === silence && !ended.aborted
    silence.isTried = true
    let request = first
    for (let attempt = 0; ; attempt++) {
      const answered = await (request ?? silence.again()).then(
        () => true,
        (error: unknown) => !silent.has(asGatewayError(error).code),
      )
      if (!isSilent()) return
      if (answered) {
        this.#answered(silence.method)
        if (this.#silences.delete(key)) this.#returned()
        return
      }
      await pause(delayBefore(attempt, reopening(FIRST_RETRY_MS)), ended).catch(() => undefined)
      if (!isSilent()) return
      if (world.monotonic() - silence.at > RETRY_WITHIN_MS) {
        silence.isTried = false
        return
      }
      request = undefined
    }
  }

  /** Makes a request for a caller who may be gone by then, and keeps the answer. */
  #detached(call: Call, ask: Ask<unknown>): () => Promise<unknown> {
    const { signal } = new AbortController()
    return async () => {
      const value = await ask(this.#name, detachable({ ...call, signal, emit: () => undefined }).call)
      this.#late.set(callerKey(call), { value })
    }
  }

  /** Replaces a kept answer. Once the server is fast enough, it is waited for again. */
  async #renew(call: Call, ask: Ask<unknown>): Promise<void> {
    const key = callerKey(call)
    if (this.#renewing.has(key)) return
    this.#renewing.add(key)
    const start = world.monotonic()
    const before = this.#late.get(key)
    const isKept = await this.#detached(call, ask)().then(
      () => true,
      () => false,
    )
    this.#renewing.delete(key)
    const isSame = JSON.stringify(before?.value) === JSON.stringify(this.#late.get(key)?.value)
    if (!isKept || world.monotonic() - start < this.#options.timeoutMs) this.#late.delete(key)
    if (isKept && !isSame) this.#options.onReturn(this.#name)
  }
}

/** Callers with the same key get the same answers to a method. */
function callerKey(call: Call): string {
  return `${call.method} ${callerOf(call)}`
}

function callerOf({ principal, client }: Call): string {
  const { id, scopes, token } = principal
  const caller = [id, token?.digest ?? '', ...[...(scopes ?? [])].toSorted()]
  return canonical([client.era, client.capabilities, caller])
}

/** Failures without an answer of the server. */
const silent: ReadonlySet<string> = new Set([
  'SERVER_UNAVAILABLE',
  'OPERATION_TIMEOUT',
  'OUTCOME_UNKNOWN',
  'OVERLOADED',
  'CANCELLED',
])

/** Failures that are due to the server, and not to the caller. */
const faults: ReadonlySet<string> = new Set([
  'SERVER_UNAVAILABLE',
  'OPERATION_TIMEOUT',
  'OUTCOME_UNKNOWN',
  'UPSTREAM_ERROR',
])

/** A call that ends with its caller until it is detached; then its notifications are dropped. */
function detachable(call: Call): { readonly call: Call; detach(): void } {
  const controller = new AbortController()
  let isDetached = false
  const stop = (): void => controller.abort(call.signal.reason)
  if (call.signal.aborted) stop()
  call.signal.addEventListener('abort', stop)
  return {
    call: {
      ...call,
      signal: controller.signal,
      abort: (reason) => controller.abort(reason),
      emit: (note) => (isDetached ? undefined : call.emit(note)),
    },
    detach: () => {
      isDetached = true
      call.signal.removeEventListener('abort', stop)
    },
  }
}
