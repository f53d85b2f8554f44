/** Asks the user to sign in where a call needs it, and repeats the call afterwards. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Call, Handler, Notification, Outcome, Middleware, InputRequest } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { ACKNOWLEDGED, readFilter, reportedChanges } from '../../protocol/subscription-filter.ts'
import { method } from '../../protocol/methods.ts'
import { canAnswer } from '../../protocol/input-requests.ts'
import type { UserLogin } from './grants.ts'
import type { SigningIn } from './sign-in.ts'

interface SignInGuardOptions {
  readonly upstream: string
  login(call: Call): UserLogin
  begin(principal: string, wanted: readonly string[]): Promise<SigningIn>
  /** The sign-in a user is in the middle of. */
  current(principal: string): SigningIn | undefined
}

/** The slot of a call's state that says which sign-in it waits for. */
const STATE_KEY = 'signIn'
/** The key of the question. */
const INPUT_REQUEST_KEY = 'sign_in'
/** How long a caller who opened the page is waited for before being asked again, in milliseconds. */
const SIGN_IN_WAIT_MS = 20_000

/** Sees to it that the caller has signed in: asks with a link where that is possible, else says where to go. */
export function signInGuard(options: SignInGuardOptions): Middleware {
  let known: Payload | undefined

  return (next) => {
    const handle: Handler = async (call) => {
      const login = options.login(call)
      const own = call.requestState[STATE_KEY] === undefined ? call : await answered(call, options)
      try {
        if (!login.isReady) await login.headers()
        const outcome = await next(own)
        if (own.method === 'server/discover' && outcome.kind === 'result') known = abilities(outcome.result)
        return outcome
      } catch (error) {
        const wanted = login.wantedAfter(error)
        if (!wanted) throw error
        // Who is not signed in yet may still open a session, and hears of changes from then on.
        if (own.method === 'server/discover') return { kind: 'result', result: known ?? unknownServer }
        if (own.method === 'subscriptions/listen') return listenLater(own, login, next)
        return ask(own, await options.begin(own.principal.id, wanted), options)
      }
    }
    return handle
  }
}

/** What a server can do, without what it says to this user. */
function abilities({ fields }: Payload): Payload {
  return Payload.of({ capabilities: fields.capabilities ?? {} })
}

/** The capabilities assumed of a server before the first sign-in. */
const unknownServer = Payload.of({
  capabilities: {
    tools: { listChanged: true },
    prompts: { listChanged: true },
    resources: { listChanged: true },
  },
})

/** Listens once the user has signed in; until then nothing happens, and then everything is new. */
async function listenLater(call: Call, login: UserLogin, next: Handler): Promise<Outcome> {
  const filter = readFilter(call.params)
  const { resourceSubscriptions: _unknown, ...lists } = filter
  call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: lists }) })
  await login.arrival(call.signal)
  const emit = (note: Notification): void => {
    if (note.method !== ACKNOWLEDGED) return call.emit(note)
    for (const name of reportedChanges(filter)) call.emit({ method: name })
  }
  return next({ ...call, emit })
}

function ask(call: Call, { id, url }: SigningIn, { upstream }: SignInGuardOptions): Outcome {
  const message = `Sign in to ${upstream} to go on.`
  const question: InputRequest = {
    method: 'elicitation/create',
    params: Payload.of({ mode: 'url', message, url }),
  }
  const { client } = call
  // One question is enough: older clients ask for all their lists at once.
  const isFirst = client.era === 'legacy' && call.method === 'tools/list'
  const isOpen = !client.nonInteractive && (method(call.method).asks === true || isFirst)
  const isAble = canAnswer(client, question)
  if (isOpen && isAble) {
    return {
      kind: 'input_required',
      inputRequests: { [INPUT_REQUEST_KEY]: question },
      requestState: { [STATE_KEY]: id },
    }
  }
  // 2025-11-25 client/elicitation: the error that sends a client to a page first.
  const elicitations = [{ mode: 'url', elicitationId: id, url, message }]
  const relayed = Payload.of({ code: -32042, message, data: { elicitations } })
  throw new GatewayError('AUTHENTICATION_REQUIRED', `Sign in to ${upstream} first: ${url}`, {
    suggestion: 'Open the link in a browser, sign in, and make the call again.',
    details: { upstream, url },
    ...(isAble && client.era === 'legacy' && { relayed }),
  })
}

/** Takes the answer of a caller who was asked; the call as it was before. @throws AUTHENTICATION_REQUIRED */
async function answered(call: Call, options: SignInGuardOptions): Promise<Call> {
  const { [STATE_KEY]: id, ...state } = call.requestState
  const { inputResponses: _answers, ...rest } = call
  const own: Call = { ...rest, requestState: state }
  const answer = call.inputResponses?.[INPUT_REQUEST_KEY]
  const action = answer && 'result' in answer ? answer.result.fields.action : 'cancel'
  if (action !== 'accept') {
    throw new GatewayError('AUTHENTICATION_REQUIRED', `The user did not sign in to ${options.upstream}.`, {
      suggestion: 'Make the call again to be asked again.',
    })
  }
  const way = options.current(call.principal.id)
  if (!way || way.id !== id) return own
  const patience = new AbortController()
  const stop = (): void => patience.abort()
  call.signal.addEventListener('abort', stop)
  const late = wait(SIGN_IN_WAIT_MS, undefined, { signal: patience.signal, ref: false }).catch(
    () => undefined,
  )
  await Promise.race([way.done, late]).finally(() => {
    call.signal.removeEventListener('abort', stop)
    stop()
  })
  return own
}
