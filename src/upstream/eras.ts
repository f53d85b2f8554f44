// Chooses the era a call travels in at a server that speaks both: a client of an older revision gets a connection of its
// own era, because such servers do things for it there that 2026-07-28 has no words for. Nothing is opened before it is
// needed: whether there is an older side is found out when the first such client calls. Invariant: a session stays in the
// era of its first call, as long as the server offers it.
//
//   unknown ── the handshake opens a session ──▶ sessions    older clients travel in their own era
//           ── it opens none ──────────────────▶ stateless   those do that cannot be asked anything
//           ── it is refused ──────────────────▶ absent      none does
//           ── it is not answered ─────────────▶ absent, until it is tried again for a new session
import { LRUCache } from 'lru-cache'
import type { Call, Client } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { canBeAsked } from '../wire/questions.ts'
import type { UpstreamConnection } from './connection.ts'
import { isPassing } from './failures.ts'
import { isOfCredentials } from './login.ts'
import type { Route } from './negotiate.ts'

/** Opens a connection of a route; `isTrial` where it is not known whether the server takes it. */
export type OpenRoute = (route: Route, isTrial: boolean) => Promise<UpstreamConnection>

/** How long the first handshake of the older era may take, in milliseconds: a server may never answer it. */
export const TRIAL_TIMEOUT_MS = 15_000

/** How long a handshake without an answer is not tried again, at first and at most, in milliseconds. */
const FIRST_PAUSE_MS = 60_000
const LAST_PAUSE_MS = 3_600_000

/** How many sessions are remembered that began while there was no older side. */
const MAX_STAYING = 10_000

type Older = 'unknown' | 'sessions' | 'stateless' | 'absent'

/** The eras of one server, and which of them a client travels in. */
export class Eras {
  readonly #log: Log
  readonly #now: () => number
  /** Sessions that began in the newer era for want of an older side. */
  readonly #staying = new LRUCache<string, true>({ maxSize: MAX_STAYING, sizeCalculation: () => 1 })
  #older: Older = 'unknown'
  #pause = FIRST_PAUSE_MS
  #triedAgainAt = Number.POSITIVE_INFINITY
  #trial: Promise<unknown> | undefined

  constructor(log: Log, now: () => number = Date.now) {
    this.#log = log
    this.#now = now
  }

  /** The way of a client to a server whose newest way this is; nothing where that has to be found out. */
  route(client: Client, newest: Route): Route | undefined {
    const { older } = newest
    // The gateway's own calls have no session: what it tells of a server is what the newest revision says.
    if (!older || client.era === 'modern' || client.session === undefined) return newest
    switch (this.#older) {
      case 'unknown':
        return undefined
      case 'sessions':
        return this.#isStaying(client.session) ? newest : older
      case 'stateless':
        // A server without sessions has no way to be answered in this era (2025-11-25 basic/transports).
        return canBeAsked(client.capabilities) || this.#isStaying(client.session) ? newest : older
      case 'absent':
        if (this.#triedAgainAt === Number.POSITIVE_INFINITY) return newest
        if (!this.#isStaying(client.session) && this.#now() >= this.#triedAgainAt) return undefined
        this.#staying.set(client.session, true)
        return newest
    }
  }

  /** The connection of a call, in the era it travels in. @throws what opening it throws */
  async connect({ client }: Call, newest: Route, open: OpenRoute): Promise<UpstreamConnection> {
    for (;;) {
      const route = this.route(client, newest)
      if (route === newest) return open(newest, false)
      if (route) {
        const opened = await open(route, false).catch((error: unknown) => this.#withdrawn(error))
        if (opened) return opened
      } else if (newest.older) await this.#try(newest.older, open)
    }
  }

  /** Forgets what was found out, since the server may be another one. */
  forget(): void {
    this.#older = 'unknown'
    this.#pause = FIRST_PAUSE_MS
  }

  /** Tries the older era for the first who needs it; the others wait. @throws what says nothing of the server's eras */
  async #try(older: Route, open: OpenRoute): Promise<void> {
    // What the credentials of one caller fail at says nothing of those of another.
    if (this.#trial) return void (await this.#trial.catch(() => undefined))
    this.#trial = open(older, true)
      .then(
        ({ canAsk }) => this.#found(canAsk ? 'sessions' : 'stateless'),
        (error: unknown) => this.#missed(error),
      )
      .finally(() => {
        this.#trial = undefined
      })
    await this.#trial
  }

  #isStaying(session: string): boolean {
    return this.#staying.size > 0 && this.#staying.has(session)
  }

  #found(older: 'sessions' | 'stateless'): void {
    this.#older = older
    this.#pause = FIRST_PAUSE_MS
    this.#log.info('upstream.older_side', { older })
  }

  /** The server takes no handshake, or gave no answer to one. @throws what says nothing of that */
  #missed(error: unknown): void {
    const { code, message, extra } = asGatewayError(error)
    if (isOfCredentials(error) || code === 'OVERLOADED' || extra.isUnsent) throw error
    const isOver = isPassing(error)
    this.#older = 'absent'
    this.#triedAgainAt = isOver ? this.#now() + this.#pause : Number.POSITIVE_INFINITY
    if (isOver) this.#pause = Math.min(this.#pause * 2, LAST_PAUSE_MS)
    this.#log.info('upstream.older_side', { older: 'absent', reason: message })
  }

  /** A server that took handshakes refuses one: it is another one now. @throws what may be over by the next try */
  #withdrawn(error: unknown): undefined {
    if (isPassing(error)) throw error
    this.#missed(error)
  }
}
