/**
 * What a session set up on a server, such as the page of a browser, and that it is gone when the server restarts: its process ended,
 * or it forgot its session with the gateway. The next call of the session is told: a call that reads is made, and its result says
 * so; one that may write is refused once, before it is sent. Connections that belong to a client by its session state have
 * `state.ts` for that.
 *
 * A restart of the gateway ends its connections too, so what sessions set up is also in the store.
 *
 * Invariant: without evidence that the session set something up on the connection that is lost, nothing is added or refused.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { canonical } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { setsContext } from '../../core/judgement/context.ts'
import { CONTEXT_LOST, connectionSlot, contextSlot, type ServerContext } from '../../core/slot.ts'
import { ifAnswered, isoTime } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { CONTEXT_LOST_KEY } from '../../protocol/meta-keys.ts'
import { asJson, Collection, type RecordKind } from '../../durable/collection.ts'
import { callerHash } from '../../records/principal.ts'
import type { Feature, Services } from '../feature.ts'
import { type ContextSettings, contextSchema } from '../settings/effect.ts'

/** The maximum number of sessions of one server whose context is known, and of tools that are named for each. */
const MAX_SESSIONS = 10_000
const MAX_TOOLS = 10

/** What one session set up. */
interface SessionContext {
  /** The context of the server in which it did; that of an earlier process is none that a server has. */
  readonly context: ServerContext
  /** The tools that set it up, in the order of their first calls. */
  readonly tools: readonly string[]
}

/** Stored under `context/…`. */
interface StoredContext {
  readonly upstream: string
  /** The hash of the session, as its id may be a credential. */
  readonly session: string
  /** The hash of its caller; records of earlier versions lack it. */
  readonly owner?: string
  readonly tools: readonly string[]
}

/** How long it is stored, in milliseconds: as long as sessions can be continued. */
const RETENTION_MS = 24 * 3_600_000
/** How long the store may take, in milliseconds: without an answer, a restart of the gateway is not noticed. */
const STORE_TIMEOUT_MS = 1000

const kind: RecordKind<StoredContext> = {
  name: 'context',
  prefix: 'context/',
  ...asJson<StoredContext>({ string: ['upstream', 'session'], list: ['tools'] }),
  ttlOf: () => RETENTION_MS,
}

/** What the sessions of one server set up, by the hash of the session. */
class Sessions {
  readonly #upstream: string
  readonly #records: Collection<StoredContext>
  readonly #known: LRUCache<string, SessionContext>

  constructor(upstream: string, records: Collection<StoredContext>) {
    this.#upstream = upstream
    this.#records = records
    const dispose = (_: SessionContext, session: string, reason: string): void => {
      if (reason === 'evict') void this.#remove(session)
    }
    this.#known = new LRUCache({ max: MAX_SESSIONS, dispose })
  }

  get size(): number {
    return this.#known.size
  }

  get(session: string): SessionContext | undefined {
    return this.#known.get(session)
  }

  /** Adds what an earlier process has stored. */
  restore({ session, tools }: StoredContext): void {
    if (!this.#known.has(session)) this.#known.set(session, { context: { id: '', since: 0 }, tools })
  }

  /** Resolves once it is stored for its caller, or the store did not answer. Never rejects. */
  async set(session: string, set: SessionContext, caller: string): Promise<void> {
    this.#known.set(session, set)
    const { tools } = set
    const record = { upstream: this.#upstream, session, owner: callerHash(caller), tools }
    await ifAnswered(this.#records.put(this.#idOf(session), record), STORE_TIMEOUT_MS)
  }

  /** Concurrent calls may have set up another one. */
  forget(session: string, before: SessionContext): void {
    if (this.#known.get(session) !== before) return
    this.#known.delete(session)
    void this.#remove(session)
  }

  #remove(session: string): Promise<unknown> {
    return ifAnswered(this.#records.remove(this.#idOf(session)), STORE_TIMEOUT_MS)
  }

  #idOf(session: string): string {
    return hash('sha256', canonical([this.#upstream, session]), 'base64url')
  }
}

/** What sessions set up, by server. It outlives a reload, as connections do. */
class Contexts {
  readonly #servers = new Map<string, Sessions>()
  #loading: Promise<void> | undefined
  /** Whether what earlier processes have stored is known. */
  isLoaded = false

  of(upstream: string, records: Collection<StoredContext>): Sessions {
    const sessions = this.#servers.get(upstream) ?? new Sessions(upstream, records)
    this.#servers.set(upstream, sessions)
    return sessions
  }

  /** Reads once what earlier processes have stored. Never rejects. */
  load(records: Collection<StoredContext>): Promise<void> {
    this.#loading ??= ifAnswered(records.all(), STORE_TIMEOUT_MS).then((all = []) => {
      for (const each of all) this.of(each.upstream, records).restore(each)
      this.isLoaded = true
    })
    return this.#loading
  }

  close(): void {
    this.#servers.clear()
  }
}

/** Says when a server lost what a session had set up. */
export const context: Feature<ContextSettings> = {
  ...contextSchema,
  create: (settings, { scope, servers, store }) => {
    const contexts = scope.once(Contexts)
    const records = new Collection(store, kind)
    return {
      calls: {
        middleware: ({ upstream, method, name, isBuiltin }) => {
          if (isBuiltin || upstream === undefined || method !== 'tools/call' || name === undefined)
            return undefined
          const isKeptForAll =
            settings(upstream).mode === 'keeps' || servers.settings(upstream)?.isolation === 'per_client'
          const isSetting = setsContext(name)
          const sessions = contexts.of(upstream, records)
          return (next) => {
            const handle: Handler = (call) => {
              if (sessions.size === 0 && !isSetting && !isKeptForAll) return next(call)
              if (call.internal || connectionSlot.of(call)) return next(call)
              return new ContextualCall(call, { sessions, servers, isSetting, isKeptForAll }).run(next)
            }
            return (call) =>
              contexts.isLoaded ? handle(call) : contexts.load(records).then(() => handle(call))
          }
        },
        dryRun: 'absent',
      },
    }
  },
}

interface Parts {
  readonly sessions: Sessions
  readonly servers: Pick<Services['servers'], 'contextOf'>
  /** The tool sets a context. */
  readonly isSetting: boolean
  /** Whatever changes something does. */
  readonly isKeptForAll: boolean
}

/** A call of a session that has a context, or may set one. */
class ContextualCall {
  readonly #call: Call
  readonly #parts: Parts
  readonly #key: string
  readonly #before: SessionContext | undefined
  readonly #isReading: boolean
  #used: ServerContext | undefined

  constructor(call: Call, parts: Parts) {
    this.#call = call
    this.#parts = parts
    this.#key = sessionOf(call)
    this.#before = parts.sessions.get(this.#key)
    this.#isReading = call.tool !== undefined && asCalled(call.tool, call).classification.op === 'read'
  }

  /** Makes the call. @throws CONFLICT once, if it relies on what is lost */
  async run(next: Handler): Promise<Outcome> {
    const { servers, isSetting, isKeptForAll } = this.#parts
    const before = this.#before
    const isSettingUp = isSetting || (isKeptForAll && !this.#isReading)
    if (!before && !isSettingUp) return next(this.#call)
    const mayReplace = !before || isSetting || this.#isReading
    if (!mayReplace && servers.contextOf(this.#call)?.id !== before.context.id) throw this.#lost(before)
    const watched = contextSlot.set(this.#call, {
      ...(before && { expected: before.context }),
      mayReplace,
      onUse: (used) => {
        this.#used = used
      },
    })
    const outcome = await next(watched).catch((error: unknown) => {
      throw before && isContextLost(error) ? this.#lost(before) : error
    })
    if (outcome.kind !== 'result' || !this.#used) return outcome
    const isLost = before !== undefined && before.context.id !== this.#used.id
    if (isLost) this.#parts.sessions.forget(this.#key, before)
    if (isSettingUp && outcome.result.member('isError') !== true) await this.#remember(this.#used)
    return isLost ? noticed(outcome, before, this.#used) : outcome
  }

  async #remember(used: ServerContext): Promise<void> {
    const { sessions } = this.#parts
    const known = sessions.get(this.#key)
    const tools = known?.context.id === used.id ? known.tools : []
    const { target, principal } = this.#call
    const { name = '' } = target
    if (tools.includes(name) || tools.length >= MAX_TOOLS) return
    await sessions.set(this.#key, { context: used, tools: [...tools, name] }, principal.id)
  }

  /** The refusal of a call that relies on what is lost; from now on, nothing is known to be there. */
  #lost(before: SessionContext): GatewayError {
    this.#parts.sessions.forget(this.#key, before)
    const since = this.#parts.servers.contextOf(this.#call)?.since ?? world.now()
    return new GatewayError('CONFLICT', `${lostText(before, since)} The call was not made.`, {
      reason: CONTEXT_LOST,
      suggestion: 'Set it up again, or make this call again to run it anyway.',
      meta: { [CONTEXT_LOST_KEY]: described(before, since) },
      isUnsent: true,
      isResult: true,
    })
  }
}

/**
 * The hash of the session of a call: that of the client, or, for clients without sessions, all calls of the same program of a
 * caller.
 */
function sessionOf({ principal, client }: Call): string {
  return hash('sha256', client.session ?? canonical([principal.id, client.info?.name ?? null]), 'base64url')
}

function isContextLost(error: unknown): boolean {
  return error instanceof GatewayError && error.extra.reason === CONTEXT_LOST
}

/** The names of tools are the server's: only plain ones are shown in a sentence. */
function lostText({ tools }: SessionContext, since: number): string {
  const named = tools.filter((name) => /^[\w./:-]{1,64}$/.test(name)).join(', ')
  const what = named === '' ? 'what this session had set up' : `what this session had set up with ${named}`
  return `The server was restarted, or began a new session, at ${isoTime(since)}: ${what} is lost.`
}

function described({ tools }: SessionContext, since: number): Readonly<Record<string, unknown>> {
  return { since: isoTime(since), tools }
}

/** A result that says what is lost, after what the server says. */
function noticed(
  outcome: Outcome & { readonly kind: 'result' },
  before: SessionContext,
  { since }: ServerContext,
): Outcome {
  const result = outcome.result
    .withItem('content', { type: 'text', text: lostText(before, since) })
    .withMeta({ [CONTEXT_LOST_KEY]: described(before, since) })
  return { kind: 'result', result }
}
