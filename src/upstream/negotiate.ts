/**
 * Finds out which revision and transport the server at a URL supports, and which eras any server does. Probes send only
 * what every revision understands. `negotiate-stdio.ts` is for servers that are started.
 */
import { LRUCache } from 'lru-cache'
import { world } from '../core/world.ts'
import type { Call, Client } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { excerpt } from '../core/text/redact.ts'
import { untilAborted } from '../core/time/waiting.ts'
import { standardHeaders } from '../protocol/headers.ts'
import { canBeAsked } from '../protocol/input-requests.ts'
import { JsonRpcPeer } from '../protocol/json-rpc-peer.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import { findRevision, latestLegacy, latestModern, modernRevisions } from '../core/revisions.ts'
import { isPassing } from './failures.ts'
import type { There } from './placement/placement.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { isOfCredentials } from './transport/auth-retry.ts'
import type { HttpClient } from './transport/http-client.ts'
import { httpConnect, sseConnect } from './transport/http.ts'
import type { OpenTransport, OpenTransportAs, UpstreamTransport, StepTimeout } from './transport/transport.ts'

/** How a server is reached: era, revision and transport. */
export interface Route {
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  /** Whether parts of each request are mirrored in headers. */
  readonly mirrors: boolean
  readonly connect: OpenTransportAs
  /** Another process that runs the server. */
  readonly there?: There
  /** The route for clients of older revisions, if the server supports both eras. */
  readonly older?: Route
}

export interface NegotiationContext {
  /** Aborted at the end of the start timeout, which all steps share. */
  readonly deadline: AbortSignal
  readonly log: Log
}

/**
 * Negotiates with the server at a URL. Refused credentials, a failing server or a missing response are no evidence of
 * an era. @throws SERVER_UNAVAILABLE, UPSTREAM_ERROR
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
 * The modern route, with the legacy route for older clients. A connection shared by all clients cannot describe any of
 * them to a legacy server, whereas each request of 2026-07-28 describes its client.
 */
export function withLegacyRoute(
  { revision, isolation }: UpstreamSettings,
  newest: Route,
  older: Route,
): Route {
  return revision === 'follow' && isolation !== 'shared' ? { ...newest, older } : newest
}

/** Whether a failure concerns credentials or health, and is no evidence of an era. */
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
    return await withPeer(connect, { deadline, log }, (peer) => discover(peer, deadline))
  } catch (error) {
    if (isNoEvidence(error)) throw error
    return undefined
  }
}

/** Asks a server as a modern one: the revision to use, or undefined for a legacy server. */
export async function discover(peer: JsonRpcPeer, signal: AbortSignal): Promise<string | undefined> {
  const revision = latestModern.name
  const params = Payload.of({
    _meta: { [metaKeys.version]: revision, [metaKeys.capabilities]: {}, [metaKeys.clientInfo]: self },
  })
  const headers = standardHeaders('server/discover', params)
  try {
    const { fields } = await peer.request('server/discover', () => params, { signal, headers })
    return Array.isArray(fields.supportedVersions) ? sharedRevision(fields.supportedVersions) : undefined
  } catch (error) {
    return revisionOfRefusal(error, revision)
  }
}

/** An error code that only 2026-07-28 servers send reveals the era. Other errors are rethrown. */
function revisionOfRefusal(error: unknown, revision: string): string | undefined {
  const { relayed } = asGatewayError(error).extra
  if (!relayed) throw error
  const { code, data } = relayed.fields
  if (code === -32020 || code === -32021) return revision
  if (code !== -32022) return undefined
  return sharedRevision(isObject(data) && Array.isArray(data.supported) ? data.supported : [])
}

/**
 * The modern revision to use with a server that supports these; undefined if it lists only older ones: a server may
 * answer `server/discover` and still require the handshake. @throws SERVER_UNAVAILABLE if no revision is shared
 */
function sharedRevision(supported: readonly unknown[]): string | undefined {
  const modern = modernRevisions.find((revision) => supported.includes(revision))
  if (modern !== undefined) return modern
  if (supported.some((item) => findRevision(item)?.era === 'legacy')) return undefined
  throw new GatewayError('SERVER_UNAVAILABLE', 'The server shares no protocol version with the gateway.', {
    details: { supported },
  })
}

/** Whether the URL accepts an `initialize` by POST; one that answers 400, 404 or 405 may be of 2024-11-05. */
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
      // The session is deleted with the headers of its revision.
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
    spool: (about) => peer.spool(about),
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
    await untilAborted(transport.close(), deadline).catch(ignore)
  }
}

// Selects the era of a call at a server that supports both: a client of an older revision gets a connection of its own
// era, because such servers offer it functions that 2026-07-28 does not have. Connections are opened on demand: whether
// the server supports the legacy era is found out by the first call of such a client. Invariant: a session stays in the
// era of its first call, as long as the server offers it.
//
//   unknown ── the handshake opens a session ──▶ sessions    legacy clients use their own era
//           ── it opens none ──────────────────▶ stateless   only those that accept no input requests do
//           ── it is refused ──────────────────▶ absent      none does
//           ── it is not answered ─────────────▶ absent, until it is retried for a new session

/** Opens a connection of a route; `isTrial` if it is unknown whether the server accepts it. */
export type OpenRoute = (route: Route, isTrial: boolean) => Promise<UpstreamConnection>

/** The timeout of the first legacy handshake, in milliseconds: a server may never answer it. */
export const TRIAL_TIMEOUT_MS = 15_000

/** How long an unanswered handshake is not retried, at first and at most, in milliseconds. */
const FIRST_PAUSE_MS = 60_000
const LAST_PAUSE_MS = 3_600_000

/** The maximum number of remembered sessions that began in the modern era. */
const MAX_MODERN_SESSIONS = 10_000

type LegacySupport = 'unknown' | 'sessions' | 'stateless' | 'absent'

/** The eras of one server, and the era of each client. */
export class Eras {
  readonly #log: Log
  readonly #now: () => number
  /** Sessions of legacy clients that began in the modern era because the legacy one was not available. */
  readonly #modernSessions = new LRUCache<string, true>({
    maxSize: MAX_MODERN_SESSIONS,
    sizeCalculation: () => 1,
  })
  #legacy: LegacySupport = 'unknown'
  #pause = FIRST_PAUSE_MS
  #triedAgainAt = Number.POSITIVE_INFINITY
  #trial: Promise<unknown> | undefined

  constructor(log: Log, now: () => number = world.now) {
    this.#log = log
    this.#now = now
  }

  /** The route of a client, given the newest route of the server; undefined if it has to be found out first. */
  route(client: Client, newest: Route): Route | undefined {
    const { older } = newest
    // The gateway's own calls have no session: they describe a server as its newest revision does.
    if (!older || client.era === 'modern' || client.session === undefined) return newest
    switch (this.#legacy) {
      case 'unknown':
        return undefined
      case 'sessions':
        return this.#isModern(client.session) ? newest : older
      case 'stateless':
        // A server without sessions cannot receive input responses in this era (2025-11-25 basic/transports).
        return canBeAsked(client.capabilities) || this.#isModern(client.session) ? newest : older
      case 'absent':
        if (this.#triedAgainAt === Number.POSITIVE_INFINITY) return newest
        if (!this.#isModern(client.session) && this.#now() >= this.#triedAgainAt) return undefined
        this.#modernSessions.set(client.session, true)
        return newest
    }
  }

  /** The connection of a call, in its era. @throws the error of opening it */
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

  /** Forgets the findings, because the server may have been replaced. */
  forget(): void {
    this.#legacy = 'unknown'
    this.#pause = FIRST_PAUSE_MS
  }

  /**
   * Tries the legacy era for the first client that needs it; other clients wait. @throws errors that are no evidence of
   * the server's eras
   */
  async #try(older: Route, open: OpenRoute): Promise<void> {
    // One caller's failed credentials are no evidence for other callers.
    if (this.#trial) return void (await this.#trial.catch(() => undefined))
    this.#trial = open(older, true)
      .then(
        ({ canAsk }) => this.#found(canAsk ? 'sessions' : 'stateless'),
        (error: unknown) => this.#recordFailure(error),
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

  /** Records a refused or unanswered handshake. @throws errors that are no evidence of either */
  #recordFailure(error: unknown): void {
    const { code, message, extra } = asGatewayError(error)
    if (isOfCredentials(error) || code === 'OVERLOADED' || extra.isUnsent) throw error
    const isOver = isPassing(error)
    this.#legacy = 'absent'
    this.#triedAgainAt = isOver ? this.#now() + this.#pause : Number.POSITIVE_INFINITY
    if (isOver) this.#pause = Math.min(this.#pause * 2, LAST_PAUSE_MS)
    this.#log.info('upstream.older_side', { older: 'absent', reason: message })
  }

  /** A server that accepted handshakes refuses one: it was replaced. @throws temporary errors */
  #withdrawn(error: unknown): undefined {
    if (isPassing(error)) throw error
    this.#recordFailure(error)
  }
}
