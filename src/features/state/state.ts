/**
 * The feature `state`: a token that clients send back, so that the next call continues where the last one ended: on the
 * same connection to the server, with remembered arguments, in the same transaction, and with the server's own state.
 */
import { type ClientConnection, CONTEXT_LOST, connectionSlot } from '../../core/slot.ts'
import type { Call, Middleware, Outcome, Handler } from '../../core/call.ts'
import {
  hasExtension,
  isAskedFor,
  SESSION_STATE,
  SESSION_STATE_KEY,
  extensionOf,
  TRANSACTION_ID,
  withExtension,
  withoutExtension,
  SESSION_KEY,
  STATE_CHANGED_KEY,
} from '../../protocol/meta-keys.ts'
import { describingTools } from '../tool-lists.ts'
import type { Feature, Services } from '../feature.ts'
import { callerValues, modelArguments, placing, type Reserved } from '../offers.ts'
import { withOptional, withRemembered, rememberedAfter, rememberedNames } from './remember.ts'
import { type StateSettings, stateSchema } from '../settings/authorize.ts'
import {
  StateTokens,
  type Session,
  type SessionChanges,
  type SessionState,
  type Issued,
  visible,
} from './session.ts'
import { world } from '../../core/world.ts'
import { operationSlot } from '../../records/operations.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { Payload } from '../../core/payload.ts'
import { transactionKey, Transactions } from '../../records/transactions.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { isoTime } from '../../core/time/waiting.ts'

/** The methods whose calls can belong to a session. */
const methods: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

/** The longest token that a model can copy: a handle, or a sealed session of usual size. */
const MAX_COPIED_LENGTH = 4096

const reserved: Reserved = {
  argument: `_${SESSION_STATE}`,
  value: SESSION_STATE,
  schema: {
    type: 'string',
    maxLength: MAX_COPIED_LENGTH,
    description:
      'Optional. The session state from an earlier result of this server, to continue in its context.',
  },
}

/** Lets clients without sessions continue where their last call ended. */
export const state: Feature<StateSettings | false> = {
  ...stateSchema,
  create: (settings, deps) => {
    const tokens = new StateTokens(deps)
    const planOf = (upstream: string): StatePlan | undefined => planned(settings(upstream), upstream, deps)
    return {
      calls: {
        middleware: ({ upstream, method, isBuiltin }) => {
          const plan = isBuiltin || upstream === undefined ? undefined : planOf(upstream)
          if (!plan || upstream === undefined) return undefined
          if (method === 'tools/list') return withOptionalArguments(plan, upstream, deps)
          return methods.has(method) ? inSessions(plan, method === 'tools/call', { tokens, deps }) : undefined
        },
        // The session is read, and stays as it is.
        dryRun: ({ upstream, isBuiltin }) => {
          const plan = isBuiltin || upstream === undefined ? undefined : planOf(upstream)
          if (!plan) return undefined
          return (next) => async (call) =>
            next(
              isConcerned(call, plan, true)
                ? await new StatefulCall(call, plan, { tokens, deps }).prepared()
                : call,
            )
        },
      },
      builtins: {
        extensions: () => ({ [SESSION_STATE_KEY]: {} }),
      },
      offers: [
        callerValues.offer([{ name: SESSION_STATE }]),
        placing.offer({
          isConcerned: (call) => methods.has(call.method) && tokenBefore(call) !== undefined,
          placeOf: async (call) => {
            const plan = planOf(call.target.upstream ?? '')
            const token = plan?.isConnecting === true ? tokenBefore(call) : undefined
            if (!plan || typeof token !== 'string' || Buffer.byteLength(token) > plan.max) return undefined
            const presented = await tokens.open(token, call)
            return presented.kind === 'valid' ? presented.session.state.process : undefined
          },
        }),
        modelArguments.offer((upstream) => {
          const plan = planOf(upstream)
          if (!plan) return []
          // A server may also keep a state itself.
          return [plan.isForAll ? reserved : { argument: reserved.argument, value: reserved.value }]
        }),
      ],
    }
  },
}

/** The token in a call that has passed no layer: models write it among the arguments. */
function tokenBefore({ meta, params }: Call): unknown {
  const given = hasExtension({ meta, params }, SESSION_STATE)
  if (given) return meta[SESSION_STATE_KEY] ?? meta[SESSION_STATE] ?? params.member(SESSION_STATE)
  return params.at('arguments')?.member(reserved.argument)
}

type Deps = Pick<Services, 'log' | 'store' | 'identity' | 'servers' | 'features'>

function planned(
  settings: StateSettings | false,
  upstream: string,
  { servers, features }: Deps,
): StatePlan | undefined {
  const server = servers.settings(upstream)
  if (settings === false || !server) return undefined
  return planFor(settings, server, features.isOn('inject_arguments', upstream))
}

/** Lists remembered arguments as optional; undefined if there are none. */
function withOptionalArguments(
  { namesOf }: StatePlan,
  upstream: string,
  { servers }: Deps,
): Middleware | undefined {
  if (!namesOf) return undefined
  return describingTools((entry) => {
    const tool = servers.describe(upstream, entry.fields)
    return tool ? withOptional(entry, tool, namesOf) : entry
  })
}

/** Makes calls in their sessions, and begins one where a server returns a state of its own. */
function inSessions(
  plan: StatePlan,
  isTool: boolean,
  parts: { readonly tokens: StateTokens; readonly deps: Deps },
): Middleware {
  return (next) => (call) => {
    if (call.internal) return next(call)
    const stateful = (): StatefulCall => new StatefulCall(call, plan, parts)
    if (isConcerned(call, plan, isTool)) return stateful().run(next)
    const outcome = next(call)
    return isTool ? outcome.then((ended) => (isOfServer(ended) ? stateful().end(ended) : ended)) : outcome
  }
}

/** Whether a call belongs to a session, or may begin one; nearly none does. */
function isConcerned(call: Call, plan: StatePlan, isTool: boolean): boolean {
  const { namesOf, transaction, isBeginning, compat } = plan
  if (hasExtension(call, SESSION_STATE) || call.requestState[STATE_KEY] !== undefined) return true
  if (!isTool) return false
  if (compat === 'always') return true
  return namesOf !== undefined || transaction || isBeginning(call) || isAskedFor(call, SESSION_STATE_KEY)
}

/** Whether a server returned a state of its own. */
function isOfServer(outcome: Outcome): boolean {
  return outcome.kind === 'result' && ownState(outcome.result) !== undefined
}

// One call of a session: opens its token, selects its connection, and issues the next token.
//
// Invariant: the state is only ever read from a token of the same caller and server, and a context that is lost is
// reported, never replaced silently.

/** The key of this layer in a call's request state. */
const STATE_KEY = 'state'

interface Parts {
  readonly tokens: StateTokens
  readonly deps: Pick<Services, 'log' | 'store' | 'identity'>
}

/** The connection of an earlier round of the same call. */
interface Round {
  readonly connection: string
  readonly isKnown: boolean
  readonly context?: 'new' | 'lost'
}

const LOST_TEXT =
  'The context of this session on the server was lost: this call ran in a new one, where nothing of earlier calls is left.'
const NOT_KEPT_TEXT =
  'The state of this session could not be kept: it is too large, or too many are kept. The next call begins a new session.'

/** A call that belongs to a session, or begins one. */
class StatefulCall {
  readonly #given: Call
  readonly #plan: StatePlan
  readonly #parts: Parts
  #session: Session | undefined
  #handle: string | undefined
  #isSent = false
  /** The call as the server gets it, with the values that belong to the state. */
  #call: Call
  #connection: Round | undefined
  /** The transaction that the call names. */
  #namedTransaction: unknown
  #isTransactionOver = false

  constructor(call: Call, plan: StatePlan, parts: Parts) {
    this.#given = call
    this.#call = call
    this.#plan = plan
    this.#parts = parts
  }

  /** Makes the call. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE, CONFLICT */
  async run(next: Handler): Promise<Outcome> {
    await this.#open()
    this.#call = await this.#prepared()
    try {
      return await this.end(await next(this.#call))
    } catch (thrown) {
      throw await this.#failed(asGatewayError(thrown), thrown)
    }
  }

  /** The call as the server would get it, for a dry run: the session stays as it is. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE */
  async prepared(): Promise<Call> {
    await this.#open()
    return connectionSlot.set(await this.#prepared(), undefined)
  }

  /** The outcome with the next token, if there is one. */
  async end(outcome: Outcome): Promise<Outcome> {
    if (outcome.kind !== 'result') {
      if (!this.#connection) return outcome
      return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: this.#connection } }
    }
    const changes = this.#changes(outcome.result)
    const isChanged = changes.isLost || Object.keys(changes.state).length > 0
    if (!isChanged && !this.#isSent) return outcome
    const statement = await this.#issue(changes, isChanged)
    const result = withState(outcome.result, statement, this.#plan.compat !== false)
    return { kind: 'result', result: this.#withTexts(result, statement) }
  }

  /** Reads the token of the call. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE */
  async #open(): Promise<void> {
    const token = hasExtension(this.#given, SESSION_STATE)
      ? extensionOf(this.#given, SESSION_STATE)
      : undefined
    this.#isSent =
      token !== undefined || this.#plan.compat === 'always' || isAskedFor(this.#given, SESSION_STATE_KEY)
    // A client may ask for a state that it does not have yet.
    if (token === undefined || token === true) return
    if (typeof token !== 'string') throw this.#refused(refusedToken('type'))
    const { max } = this.#plan
    if (Buffer.byteLength(token) > max) throw this.#refused(oversizedToken(max))
    const presented = await this.#parts.tokens.open(token, this.#given)
    if (presented.kind === 'expired') notify(this.#given, 'session_expired', presented.session)
    if (presented.kind !== 'valid') throw this.#refused(refusedToken(presented.kind))
    this.#session = presented.session
    this.#handle = presented.handle
  }

  /** An error with a token of a new session. */
  #refused(error: GatewayError): GatewayError {
    const issued = this.#parts.tokens.fresh(this.#given, this.#plan.ttl)
    return withStateOf(error, { ...issued, isChanged: true })
  }

  async #prepared(): Promise<Call> {
    const { namesOf } = this.#plan
    const { own, transaction } = this.#state
    const isTool = this.#given.method === 'tools/call'
    let call = withoutExtension(this.#given, SESSION_STATE)
    if (own !== undefined) call = withOwn(call, own)
    if (isTool && namesOf && this.#session) call = withRemembered(call, namesOf, this.#state)
    if (isTool && this.#plan.transaction) this.#namedTransaction = extensionOf(call, TRANSACTION_ID)
    if (isTool && transaction !== undefined) call = await this.#asStep(call, transaction)
    const connection = this.#connectionFor(call)
    return connection ? connectionSlot.set(call, connection) : call
  }

  get #state(): SessionState {
    return this.#session?.state ?? {}
  }

  /** The call as a step of the session's transaction, while that is active. */
  async #asStep(call: Call, id: string): Promise<Call> {
    if (!this.#plan.transaction || this.#namedTransaction !== undefined) return call
    const transactions = new Transactions(this.#parts.deps.store, 0)
    const transaction = await transactions.find(transactionKey(call.principal.id, id))
    if (transaction?.status === 'active') return withExtension(call, TRANSACTION_ID, id)
    this.#isTransactionOver = true
    return call
  }

  #connectionFor(call: Call): ClientConnection | undefined {
    const round = roundOf(call.requestState[STATE_KEY]) ?? this.#firstRound(call)
    if (!round) return undefined
    this.#connection = round
    return {
      id: round.connection,
      isKnown: round.isKnown,
      mayReplace: isHarmless(call),
      onOpen: ({ id, isLost }) => {
        this.#connection = { connection: id, isKnown: true, context: isLost ? 'lost' : 'new' }
      },
    }
  }

  #firstRound(call: Call): Round | undefined {
    const { isConnecting, isBeginning } = this.#plan
    const { connection } = this.#state
    if (!isConnecting) return undefined
    if (connection !== undefined) return { connection, isKnown: true }
    // A session without state replaced one whose token was refused.
    const isFresh = this.#session !== undefined && Object.keys(this.#state).length === 0
    const isNew = call.method === 'tools/call' && (isFresh || isBeginning(this.#given))
    return isNew ? { connection: world.randomBytes(32).toString('hex'), isKnown: false } : undefined
  }

  /** What the call changes, given its result; undefined if it failed. */
  #changes(result?: Payload): SessionChanges {
    const { method, target } = this.#given
    const { namesOf } = this.#plan
    const opened = this.#connection?.context === undefined ? undefined : this.#connection
    const own = result && ownState(result)
    const isAnswer = result !== undefined && result.member('isError') !== true
    const values = isAnswer && namesOf ? rememberedAfter(this.#call, namesOf, this.#state) : undefined
    const step = result && this.#namedTransaction
    return {
      isLost: opened?.context === 'lost',
      ...(method === 'tools/call' && { tool: target.name }),
      state: {
        ...(opened && { connection: opened.connection, process: this.#parts.deps.identity.membership.id }),
        ...(values && { remembered: values }),
        ...(own !== undefined && own !== this.#state.own && { own }),
        ...(typeof step === 'string' && step !== this.#state.transaction && { transaction: step }),
        ...(this.#isTransactionOver && { transaction: undefined }),
      },
    }
  }

  /** Issues the next token, and notifies the client of its session. */
  async #issue(changes: SessionChanges, isChanged: boolean): Promise<Statement> {
    const { ttl, max, isForModels } = this.#plan
    const before = this.#session
    const isShort = isForModels && before === undefined && !isDeclared(this.#given)
    const { tokens, deps } = this.#parts
    const options = { handle: this.#handle, isShort, limits: { ttl, max } }
    const issued = await tokens
      .issue(before, changes, this.#given, options)
      .catch((error: unknown): Issued => {
        // The call was made, so it does not fail.
        const { message: reason } = asGatewayError(error)
        deps.log.warn('state.not_kept', { upstream: this.#given.target.upstream, reason })
        return { session: before ?? tokens.fresh(this.#given, ttl).session }
      })
    if (issued.token !== undefined) this.#notifyOf(issued.session, changes.isLost)
    return { ...issued, isChanged, context: this.#connection?.context }
  }

  /** Notifies the client of what became of its session. */
  #notifyOf(after: Session, isLost: boolean): void {
    const before = this.#session
    if (before && isLost) notify(this.#given, 'session_invalidated', before, CONTEXT_LOST)
    if (after.session_id !== before?.session_id) notify(this.#given, 'session_created', after)
    else if (after.expires_at !== before.expires_at) notify(this.#given, 'session_renewed', after)
  }

  #withTexts(result: Payload, { token, context }: Statement): Payload {
    if (this.#given.method !== 'tools/call') return result
    const described = context === 'lost' ? withText(result, LOST_TEXT) : result
    if (token === undefined) return withText(described, NOT_KEPT_TEXT)
    const isForModel = this.#plan.isForModels && !isDeclared(this.#given) && token !== this.#handle
    if (!isForModel || token.length > MAX_SHOWN_LENGTH) return described
    return withText(
      described,
      `To continue in this session, pass _${SESSION_STATE}: "${token}" to the tools of this server.`,
    )
  }

  /** An error with the next token, if the call opened a connection before it failed. */
  async #failed(error: GatewayError, thrown: unknown): Promise<unknown> {
    if (this.#connection?.context === undefined || this.#given.signal.aborted) return thrown
    const changes = this.#changes()
    return withStateOf(error, await this.#issue(changes, true))
  }
}

/** The longest token that is shown to a model, in characters. */
const MAX_SHOWN_LENGTH = 64

function isDeclared(call: Call): boolean {
  return isAskedFor(call, SESSION_STATE_KEY)
}

/** The call with the server's own state, in the places where servers read it. */
function withOwn(call: Call, own: string): Call {
  const params = call.params.with({ [SESSION_STATE]: own }).withMeta({ [SESSION_STATE]: own })
  return { ...call, params, meta: { ...call.meta, [SESSION_STATE]: own } }
}

/** Whether a call may run in a new context: it changes nothing, or another process continues it. */
function isHarmless(call: Call): boolean {
  if (call.method !== 'tools/call' || operationSlot.of(call)) return true
  return call.tool !== undefined && asCalled(call.tool, call).classification.op === 'read'
}

function roundOf(value: unknown): Round | undefined {
  if (!isObject(value)) return undefined
  const { connection, isKnown, context } = value
  if (typeof connection !== 'string' || typeof isKnown !== 'boolean') return undefined
  return { connection, isKnown, ...((context === 'new' || context === 'lost') && { context }) }
}

/** What session state means for one server. */
interface StatePlan extends Pick<StateSettings, 'ttl' | 'max' | 'transaction' | 'compat'> {
  /** Whether the token of a client leads to a connection of its own. */
  readonly isConnecting: boolean
  /** The remembered arguments of a tool; undefined if there are none. */
  readonly namesOf: ReturnType<typeof rememberedNames>
  /** Whether models copy tokens, as an argument. */
  readonly isForModels: boolean
  /** Whether a token helps a client that never asks for one. */
  readonly isForAll: boolean
  /** Whether a call without a token gets a connection of its own. */
  isBeginning(call: Call): boolean
}

/** The plan for a server. */
function planFor(
  { connection, remember, ...settings }: StateSettings,
  { isolation }: Pick<UpstreamSettings, 'isolation'>,
  isForModels: boolean,
): StatePlan {
  const isConnecting = connection === 'on' || (connection === 'auto' && isolation !== 'shared')
  const isOwnForAll = connection === 'on' || (isForModels && isolation === 'per_client')
  const namesOf = rememberedNames(remember)
  return {
    ...settings,
    isConnecting,
    namesOf,
    isForModels,
    isForAll: (isConnecting && isOwnForAll) || namesOf !== undefined || settings.transaction,
    isBeginning: (call) =>
      isConnecting &&
      ((isOwnForAll && call.client.session === undefined) || isAskedFor(call, SESSION_STATE_KEY)),
  }
}

/** What a result says about the state. */
interface Statement extends Issued {
  readonly isChanged: boolean
  /** Whether the client's context on the server is new, or an earlier one was lost. */
  readonly context?: 'new' | 'lost' | undefined
}

const CHANGED = 'state_changed'

/** The state that a server sent with a result. */
function ownState(result: Payload): string | undefined {
  const own = result.member(SESSION_STATE) ?? result.meta(SESSION_STATE)
  return typeof own === 'string' ? own : undefined
}

/** A result with the state in place of the server's own. */
function withState(result: Payload, statement: Statement, isCompat: boolean): Payload {
  const { token, isChanged } = statement
  const hasOwn = result.meta(SESSION_STATE) !== undefined
  const bare = hasOwn ? { [SESSION_STATE]: undefined } : {}
  const meta = result.metaWith({ ...bare, ...metaOf(statement) })
  const isSent = isCompat && token !== undefined
  return result.with({
    _meta: meta,
    [SESSION_STATE]: isSent ? token : undefined,
    [CHANGED]: isSent ? isChanged : undefined,
  })
}

function metaOf({ token, isChanged, session, context }: Statement): Record<string, unknown> {
  return {
    [SESSION_STATE_KEY]: token,
    [STATE_CHANGED_KEY]: isChanged,
    [SESSION_KEY]: { ...visible(session), ...(context && { context }) },
  }
}

/** A result with a sentence for the model. */
function withText(result: Payload, text: string): Payload {
  return result.withItem('content', { type: 'text', text })
}

/** An error that carries the state, also where it becomes a result. */
function withStateOf(error: GatewayError, statement: Statement): GatewayError {
  const { token, isChanged } = statement
  if (token === undefined) return error
  return error.with({
    data: { ...error.extra.data, [SESSION_STATE]: token, [CHANGED]: isChanged },
    meta: { ...error.extra.meta, ...metaOf(statement) },
  })
}

type EventType = 'session_created' | 'session_renewed' | 'session_expired' | 'session_invalidated'

/** Notifies the client of an event of its session, if it declared the extension. */
function notify(call: Call, type: EventType, { session_id }: Session, reason?: string): void {
  const { extensions } = call.client.capabilities
  if (!isObject(extensions) || !isObject(extensions[SESSION_STATE_KEY])) return
  const params = {
    type,
    session_id,
    timestamp: isoTime(world.now()),
    ...(reason !== undefined && { reason }),
  }
  call.emit({ method: 'notifications/session', params: Payload.of(params) })
}

const SUGGESTION =
  'Start a new session without a state token: make the call again without session_state, or with the new one of this error.'

/** The error for a token that is not, or no longer, of this caller and server. */
function refusedToken(reason: 'type' | 'invalid' | 'expired'): GatewayError {
  const texts = {
    type: 'session_state must be a string.',
    invalid: 'session_state is not a state of this caller and server.',
    expired: 'session_state has expired.',
  }
  return new GatewayError('INVALID_INPUT', `Invalid params: ${texts[reason]}`, {
    field: SESSION_STATE,
    reason,
    suggestion: SUGGESTION,
    isUnsent: true,
    isResult: true,
  })
}

/** The error for a token over the limit, in bytes. */
function oversizedToken(max: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `Invalid params: session_state is larger than ${max} bytes.`, {
    field: SESSION_STATE,
    suggestion: SUGGESTION,
    isUnsent: true,
  })
}
