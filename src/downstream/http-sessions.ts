import { randomUUID } from 'node:crypto'
import type { Handler } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { hasItsShare, type Principal } from '../core/principal.ts'
import { ClientSession } from '../bridge/session.ts'
import { Replay } from './replay.ts'

/** A session of a client that comes over HTTP, with the streams it can take up again. */
export interface HttpSession {
  readonly session: ClientSession
  readonly replay: Replay
  readonly upstream: string | undefined
  usedAt: number
}

interface Options {
  readonly handle: Handler
  /** Whether messages come one at a time, whatever the revision has. */
  isStrict?(): boolean
  readonly log: Log
}

/** How many sessions there may be, and how long an unused one is kept, in milliseconds. */
const MAX_SESSIONS = 10_000
const IDLE_TIMEOUT_MS = 30 * 60_000

/** The sessions of clients that come over Streamable HTTP. */
export class HttpSessions {
  readonly #options: Options
  readonly #sessions = new Map<string, HttpSession>()
  readonly #reaper = setInterval(() => this.#reap(), 60_000).unref()

  constructor(options: Options) {
    this.#options = options
  }

  get size(): number {
    return this.#sessions.size
  }

  get isBusy(): boolean {
    return [...this.#sessions.values()].some(({ session }) => session.isBusy)
  }

  /** A session that has not shaken hands yet; it counts only once it is kept. @throws OVERLOADED */
  create(principal: Principal, upstream: string | undefined): HttpSession {
    const isShareTaken = hasItsShare(
      principal,
      this.#sessions,
      ({ session }) => session.principal.id,
      MAX_SESSIONS,
    )
    if (isShareTaken && !this.#makeRoom(principal, true))
      throw new GatewayError('OVERLOADED', 'Too many sessions of one caller.')
    if (this.#sessions.size >= MAX_SESSIONS && !this.#makeRoom(principal))
      throw new GatewayError('OVERLOADED', 'Too many sessions.')
    const replay = new Replay()
    const session = new ClientSession({
      id: randomUUID(),
      upstream,
      principal,
      ...this.#options,
      send: (message) => replay.general.add(message),
    })
    return { session, replay, upstream, usedAt: Date.now() }
  }

  keep(session: HttpSession): void {
    this.#sessions.set(session.session.id, session)
  }

  /** @throws SESSION_NOT_FOUND where there is none, or it is another's */
  get(id: string, principal: Principal, upstream: string | undefined): HttpSession {
    const found = this.#sessions.get(id)
    if (!found || found.session.principal.id !== principal.id || found.upstream !== upstream) {
      throw new GatewayError('SESSION_NOT_FOUND', 'Session not found.', { suggestion: 'Initialize again.' })
    }
    found.usedAt = Date.now()
    return found
  }

  /** Resolves when its calls are answered, or after a while. */
  async end({ session, replay }: HttpSession): Promise<void> {
    this.#sessions.delete(session.id)
    await session.end()
    replay.close()
  }

  async close(): Promise<void> {
    clearInterval(this.#reaper)
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)))
  }

  #reap(): void {
    const before = Date.now() - IDLE_TIMEOUT_MS
    for (const each of this.#sessions.values()) if (each.usedAt < before && isIdle(each)) void this.end(each)
  }

  /** Ends a session that is not used: one of the caller where there is one, so that nobody ends those of others. */
  #makeRoom({ id }: Principal, isForOwn = false): boolean {
    const idle = [...this.#sessions.values()].filter(isIdle)
    const own = idle.filter(({ session }) => session.principal.id === id)
    const [oldest] = (own.length > 0 || isForOwn ? own : idle).toSorted(
      (one, other) => one.usedAt - other.usedAt,
    )
    if (oldest) void this.end(oldest)
    return oldest !== undefined
  }
}

function isIdle({ session, replay }: HttpSession): boolean {
  return !session.isBusy && !replay.general.hasOutlet
}
