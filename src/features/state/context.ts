/**
 * What a session set up on a server, such as the page of a browser, and that it is gone when the server restarts: its process ended,
 * or it forgot its session with the gateway. The next call of the session hears it: a call that reads is made, and its result says
 * so; one that may write is refused once, before it is sent. Connections that belong to a client by its session state have
 * `state.ts` for that.
 *
 * Invariant: without evidence that the session set something up on the connection that is lost, nothing is added or refused.
 */
import { LRUCache } from 'lru-cache'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { canonical } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { setsContext } from '../../core/judgement/context.ts'
import { CONTEXT_LOST, connectionSlot, contextSlot, type ServerContext } from '../../core/slot.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { CONTEXT_LOST_KEY } from '../../protocol/meta-keys.ts'
import type { Feature, Services } from '../feature.ts'
import { type ContextSettings, contextSchema } from '../settings/effect.ts'

/** The maximum number of sessions of one server whose context is known, and of tools that are named for each. */
const MAX_SESSIONS = 10_000
const MAX_TOOLS = 10

/** What one session set up. */
interface SessionContext {
  /** The context of the server in which it did. */
  readonly context: ServerContext
  /** The tools that set it up, in the order of their first calls. */
  readonly tools: readonly string[]
}

type Sessions = LRUCache<string, SessionContext>

/** What sessions set up, by server. It outlives a reload, as connections do. */
class Contexts {
  readonly #servers = new Map<string, Sessions>()

  of(upstream: string): Sessions {
    const sessions = this.#servers.get(upstream) ?? new LRUCache({ max: MAX_SESSIONS })
    this.#servers.set(upstream, sessions)
    return sessions
  }

  close(): void {
    this.#servers.clear()
  }
}

/** Says when a server lost what a session had set up. */
export const context: Feature<ContextSettings> = {
  ...contextSchema,
  create: (settings, { scope, servers }) => {
    const contexts = scope.once(Contexts)
    return {
      calls: {
        middleware: ({ upstream, method, name, isBuiltin }) => {
          if (isBuiltin || upstream === undefined || method !== 'tools/call' || name === undefined)
            return undefined
          const isKeptForAll =
            settings(upstream).mode === 'keeps' || servers.settings(upstream)?.isolation === 'per_client'
          const isSetting = setsContext(name)
          const sessions = contexts.of(upstream)
          return (next) => (call) => {
            if (sessions.size === 0 && !isSetting && !isKeptForAll) return next(call)
            if (call.internal || connectionSlot.of(call)) return next(call)
            return new ContextualCall(call, { sessions, servers, isSetting, isKeptForAll }).run(next)
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
    if (!mayReplace && servers.contextOf(this.#call) !== before.context) throw this.#lost(before)
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
    const isLost = before !== undefined && before.context !== this.#used
    if (isLost) this.#forget(before)
    if (isSettingUp && outcome.result.member('isError') !== true) this.#remember(this.#used)
    return isLost ? noticed(outcome, before, this.#used) : outcome
  }

  #remember(used: ServerContext): void {
    const { sessions } = this.#parts
    const known = sessions.get(this.#key)
    const tools = known?.context === used ? known.tools : []
    const { name = '' } = this.#call.target
    const isNew = !tools.includes(name) && tools.length < MAX_TOOLS
    sessions.set(this.#key, { context: used, tools: isNew ? [...tools, name] : tools })
  }

  /** Concurrent calls may have set up another one. */
  #forget(before: SessionContext): void {
    const { sessions } = this.#parts
    if (sessions.get(this.#key) === before) sessions.delete(this.#key)
  }

  /** The refusal of a call that relies on what is lost; from now on, nothing is known to be there. */
  #lost(before: SessionContext): GatewayError {
    this.#forget(before)
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

/** The session of a call: that of the client, or, for clients without sessions, all calls of the same program of a caller. */
function sessionOf({ principal, client }: Call): string {
  return client.session ?? canonical([principal.id, client.info?.name ?? null])
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
