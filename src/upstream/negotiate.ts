/**
 * Finds out which revision and transport a server speaks, and which eras it has. Probes only say what every
 * revision understands.
 */
import { LRUCache } from 'lru-cache'
import type { Call, Client } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { excerpt } from '../core/text/redact.ts'
import { pause, untilAborted } from '../core/time/waiting.ts'
import { standardHeaders } from '../protocol/headers.ts'
import { canBeAsked } from '../protocol/input-requests.ts'
import { JsonRpcPeer } from '../protocol/json-rpc-peer.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import { findRevision, latestLegacy, latestModern, modernRevisions } from '../protocol/revisions.ts'
import { isPassing } from './failures.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { isOfCredentials } from './transport/auth-retry.ts'
import type { HttpClient } from './transport/http-client.ts'
import { httpConnect } from './transport/http.ts'
import { sseConnect } from './transport/sse.ts'
import type { OpenTransport, OpenTransportAs, UpstreamTransport, StepTimeout } from './transport/transport.ts'

/** How a server is spoken to. */
export interface Route {
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  /** Some of each request is repeated in headers. */
  readonly mirrors: boolean
  readonly connect: OpenTransportAs
  /** How clients of older revisions may be served in their own era, where the server has both. */
  readonly older?: Route
}

interface NegotiationContext {
  /** Ends the time to start in, which everything here shares. */
  readonly deadline: AbortSignal
  readonly log: Log
}

/** How long a child process gets to answer the question which era it is of, in milliseconds. */
const PROBE_TIMEOUT_MS = 15_000
/** The share of the time to start in that it gets at most. */
const PROBE_SHARE = 0.5
/**
 * After how long without an answer it is asked to shake hands, in milliseconds: it may still be starting, or have no
 * answer to what it does not know. A process takes messages in turn, so an answer to the second tells which it was.
 */
const SILENCE_TIMEOUT_MS = 3000
/** How long an answer may come after that of a later message, in milliseconds. */
const REORDER_MS = 250

/** Finds out how a child process is spoken to, by asking a sibling that is thrown away: some servers end over it. */
export async function negotiateStdio(
  settings: UpstreamSettings,
  connect: OpenTransport,
  { deadline, log }: NegotiationContext,
): Promise<Route> {
  const pinned = findRevision(settings.revision)
  if (pinned) return { era: pinned.era, revision: pinned.name, mirrors: false, connect }
  const time = Math.min(PROBE_TIMEOUT_MS, settings.startTimeout * PROBE_SHARE)
  const signal = AbortSignal.any([AbortSignal.timeout(time), deadline])
  const silenceMs = Math.min(SILENCE_TIMEOUT_MS, time * PROBE_SHARE)
  const revision = await probe({ connect, signal, deadline, log, silenceMs }).catch((error: unknown) => {
    // A command that cannot be started says nothing of eras.
    if (asGatewayError(error).code === 'SERVER_UNAVAILABLE') throw error
    return undefined
  })
  const legacy: Route = { era: 'legacy', revision: latestLegacy.name, mirrors: false, connect }
  // A process speaks one revision at a time, so the older era takes a process of its own.
  return revision === undefined
    ? legacy
    : withLegacyRoute(settings, { ...legacy, era: 'modern', revision }, legacy)
}

/**
 * Finds out how a URL is spoken to. Refused credentials, a failing server or a silent one are no evidence of an
 * era. @throws SERVER_UNAVAILABLE, UPSTREAM_ERROR
 */
export async function negotiateHttp(
  settings: UpstreamSettings,
  client: HttpClient,
  { stepTimeout, deadline, log }: NegotiationContext & { readonly stepTimeout: StepTimeout },
): Promise<Route> {
  const { transport } = settings
  const pinned = findRevision(settings.revision)
  const modern = (revision: string): Route => ({
    era: 'modern',
    revision,
    mirrors: true,
    connect: httpConnect({ client, modern: revision, log }),
  })
  const legacy = (connect: OpenTransportAs): Route => ({
    era: 'legacy',
    revision: pinned?.name ?? latestLegacy.name,
    mirrors: false,
    connect,
  })
  if (transport === 'sse') return legacy(sseConnect(client, stepTimeout))
  if (pinned?.era === 'modern') return modern(pinned.name)
  if (pinned && transport === 'streamable') return legacy(httpConnect({ client, log }))
  if (!pinned) {
    const found = await probeHttp(client, deadline, log)
    if (found !== undefined)
      return withLegacyRoute(settings, modern(found), legacy(httpConnect({ client, log })))
  }
  if (transport === 'streamable') return legacy(httpConnect({ client, log }))
  const takesPosts = await canInitialize(client, pinned?.name ?? latestLegacy.name, deadline, log)
  return legacy(takesPosts ? httpConnect({ client, log }) : sseConnect(client, stepTimeout))
}

/**
 * The newest way to a server, with the way for older clients beside it. What all clients share can tell a server of an
 * older revision nothing of any of them, whereas each request of 2026-07-28 says what its client can do.
 */
function withLegacyRoute({ revision, isolation }: UpstreamSettings, newest: Route, older: Route): Route {
  return revision === 'follow' && isolation !== 'shared' ? { ...newest, older } : newest
}

/** Statuses that say something of credentials or health, not of an era. */
function isNoEvidence(error: unknown): boolean {
  const failure = asGatewayError(error)
  const status = failure.extra.details?.http_status
  return (
    status === 401 ||
    status === 403 ||
    ['SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'OPERATION_TIMEOUT'].includes(failure.code)
  )
}

async function probeHttp(client: HttpClient, deadline: AbortSignal, log: Log): Promise<string | undefined> {
  const connect = httpConnect({ client, modern: latestModern.name, log })
  try {
    return await probe({ connect, signal: deadline, deadline, log })
  } catch (error) {
    if (isNoEvidence(error)) throw error
    return undefined
  }
}

interface Probe extends NegotiationContext {
  readonly connect: OpenTransport
  /** Ends the wait for the answer. */
  readonly signal: AbortSignal
  /** After how many milliseconds a server that answers messages in the order they were sent gets a second one. */
  readonly silenceMs?: number
}

/** Asks what the server is as a modern one; the revision to use, or nothing where it is of the older era. */
async function probe({ connect, signal, deadline, log, silenceMs }: Probe): Promise<string | undefined> {
  return withPeer(connect, { deadline, log }, async (peer) => {
    const revision = latestModern.name
    const params = Payload.of({
      _meta: { [metaKeys.version]: revision, [metaKeys.capabilities]: {}, [metaKeys.clientInfo]: self },
    })
    const headers = standardHeaders('server/discover', params)
    const discovered = peer
      .request('server/discover', () => params, { signal, headers })
      .then(
        ({ fields: { supportedVersions } }) =>
          Array.isArray(supportedVersions) ? sharedRevision(supportedVersions) : undefined,
        (error: unknown) => revisionOfRefusal(error, revision),
      )
    return silenceMs === undefined
      ? discovered
      : Promise.race([discovered, olderWhereSilent(peer, silenceMs, signal)])
  })
}

/** Resolves with nothing once a server that did not answer what came before answers a handshake, if it ever does. */
async function olderWhereSilent(
  peer: JsonRpcPeer,
  silenceMs: number,
  signal: AbortSignal,
): Promise<undefined> {
  const { promise: never } = Promise.withResolvers<undefined>()
  const params = Payload.of({ protocolVersion: latestLegacy.name, capabilities: {}, clientInfo: self })
  await pause(silenceMs)
  const isAnswered = await peer
    .request('initialize', () => params, { signal })
    .then(
      () => true,
      (error: unknown) => asGatewayError(error).extra.relayed !== undefined,
    )
  // Whatever else became of it ends the question it came after, too.
  if (!isAnswered) return never
  return pause(REORDER_MS).then(() => undefined)
}

/** A refusal only a server of 2026-07-28 makes still tells its era. Any other is passed on. */
function revisionOfRefusal(error: unknown, revision: string): string | undefined {
  const { relayed } = asGatewayError(error).extra
  if (!relayed) throw error
  const { code, data } = relayed.fields
  if (code === -32020 || code === -32021) return revision
  if (code !== -32022) return undefined
  return sharedRevision(isObject(data) && Array.isArray(data.supported) ? data.supported : [])
}

/**
 * The modern revision to use with a server that names these; nothing where it names older ones only: a server may
 * answer `server/discover` and still want the handshake. @throws SERVER_UNAVAILABLE where none is shared
 */
function sharedRevision(supported: readonly unknown[]): string | undefined {
  const modern = modernRevisions.find((each) => supported.includes(each))
  if (modern !== undefined) return modern
  if (supported.some((each) => findRevision(each)?.era === 'legacy')) return undefined
  throw new GatewayError('SERVER_UNAVAILABLE', 'The server shares no protocol version with the gateway.', {
    details: { supported },
  })
}

/** Whether the URL takes an `initialize` by POST; one that answers 400, 404 or 405 may be of 2024-11-05. */
async function canInitialize(
  client: HttpClient,
  protocolVersion: string,
  deadline: AbortSignal,
  log: Log,
): Promise<boolean> {
  return withPeer(httpConnect({ client, log }), { deadline, log }, async (peer, transport) => {
    const params = Payload.of({ protocolVersion, capabilities: {}, clientInfo: self })
    try {
      const { fields } = await peer.request('initialize', () => params, { signal: deadline })
      // The session is ended in the words of its revision.
      transport.established?.(String(fields.protocolVersion))
      return true
    } catch (error) {
      if (isNoEvidence(error)) throw error
      const status = asGatewayError(error).extra.details?.http_status
      return status !== 400 && status !== 404 && status !== 405
    }
  })
}

async function withPeer<Result>(
  connect: OpenTransport,
  { deadline, log }: NegotiationContext,
  use: (peer: JsonRpcPeer, transport: UpstreamTransport) => Promise<Result>,
): Promise<Result> {
  const ignore = (): void => undefined
  const transport = await connect({
    receive: (text, about) => peer.receive(text, about),
    isWaiting: (id) => peer.isWaiting(id),
    reject: (id, error) => peer.reject(id, error),
    closed: (error) => peer.fail(new GatewayError('OUTCOME_UNKNOWN', error.message)),
    sessionLost: ignore,
  })
  const noise = (text: string): void => log.debug('upstream.noise', { text: excerpt(text) })
  const peer = new JsonRpcPeer(transport, { request: ignore, notification: ignore, noise })
  try {
    return await use(peer, transport)
  } finally {
    // The next process may want what this one holds, so its end is waited for while there is time.
    await untilAborted(transport.close(), deadline).catch(ignore)
  }
}

// Chooses the era a call travels in at a server that speaks both: a client of an older revision gets a connection of its
// own era, because such servers do things for it there that 2026-07-28 has no words for. Nothing is opened before it is
// needed: whether there is an older side is found out when the first such client calls. Invariant: a session stays in the
// era of its first call, as long as the server offers it.
//
//   unknown ── the handshake opens a session ──▶ sessions    older clients travel in their own era
//           ── it opens none ──────────────────▶ stateless   those do that cannot be asked anything
//           ── it is refused ──────────────────▶ absent      none does
//           ── it is not answered ─────────────▶ absent, until it is tried again for a new session

/** Opens a connection of a route; `isTrial` where it is not known whether the server takes it. */
export type OpenRoute = (route: Route, isTrial: boolean) => Promise<UpstreamConnection>

/** How long the first handshake of the older era may take, in milliseconds: a server may never answer it. */
export const TRIAL_TIMEOUT_MS = 15_000

/** How long a handshake without an answer is not tried again, at first and at most, in milliseconds. */
const FIRST_PAUSE_MS = 60_000
const LAST_PAUSE_MS = 3_600_000

/** How many sessions are remembered that began while there was no older side. */
const MAX_MODERN_SESSIONS = 10_000

type LegacySupport = 'unknown' | 'sessions' | 'stateless' | 'absent'

/** The eras of one server, and which of them a client travels in. */
export class Eras {
  readonly #log: Log
  readonly #now: () => number
  /** Sessions that began in the newer era for want of an older side. */
  readonly #modernSessions = new LRUCache<string, true>({
    maxSize: MAX_MODERN_SESSIONS,
    sizeCalculation: () => 1,
  })
  #legacy: LegacySupport = 'unknown'
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
    switch (this.#legacy) {
      case 'unknown':
        return undefined
      case 'sessions':
        return this.#isModern(client.session) ? newest : older
      case 'stateless':
        // A server without sessions has no way to be answered in this era (2025-11-25 basic/transports).
        return canBeAsked(client.capabilities) || this.#isModern(client.session) ? newest : older
      case 'absent':
        if (this.#triedAgainAt === Number.POSITIVE_INFINITY) return newest
        if (!this.#isModern(client.session) && this.#now() >= this.#triedAgainAt) return undefined
        this.#modernSessions.set(client.session, true)
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
    this.#legacy = 'unknown'
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

  #isModern(session: string): boolean {
    return this.#modernSessions.size > 0 && this.#modernSessions.has(session)
  }

  #found(older: 'sessions' | 'stateless'): void {
    this.#legacy = older
    this.#pause = FIRST_PAUSE_MS
    this.#log.info('upstream.older_side', { older })
  }

  /** The server takes no handshake, or gave no answer to one. @throws what says nothing of that */
  #missed(error: unknown): void {
    const { code, message, extra } = asGatewayError(error)
    if (isOfCredentials(error) || code === 'OVERLOADED' || extra.isUnsent) throw error
    const isOver = isPassing(error)
    this.#legacy = 'absent'
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
