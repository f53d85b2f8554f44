/**
 * Input requests for clients of older revisions: sent on the open stream, after which the call is repeated with the
 * responses.
 */
import { world } from '../../core/world.ts'
import {
  type InputResponses,
  type Call,
  type Handler,
  type Outcome,
  type InputRequests,
  type InputResponse,
  type Client,
  type InputRequest,
  withPresentCaller,
} from '../../core/call.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { pause } from '../../core/time/waiting.ts'
import { readInputResponse, encodeInputRequest, isUrl } from '../../protocol/input-requests.ts'
import { acceptanceOf } from '../../protocol/tasks.ts'
import type { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import type { Id } from '../../protocol/jsonrpc.ts'

const MAX_ROUNDS = 10
/** The pause before a round with no or unchanged input requests, in milliseconds. */
const MIN_ROUND_INTERVAL_MS = 250

/** Sends input requests to the client; resolves without responses when `withdrawn` is aborted. */
export type RequestInput = (
  questions: InputRequests,
  call: Call,
  withdrawn: AbortSignal | undefined,
) => Promise<InputResponses>

/** Middleware for clients with an open stream: sends each input request to the client and repeats the call. */
export function requestInputInline(next: Handler, put: RequestInput): Handler {
  return async (call) => {
    return { kind: 'result', result: await inputRounds(await next(call), call, next, put) }
  }
}

/** Repeats a call that ended with input requests until there is a result, or the acceptance of a task. @throws TOO_MANY_ROUNDS */
export async function inputRounds(
  first: Outcome,
  call: Call,
  next: Handler,
  put: RequestInput,
): Promise<Payload> {
  // A subscription may send input requests for as long as it is open.
  const limit = call.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : MAX_ROUNDS
  const elicitations = new UrlElicitations(call)
  let outcome = first
  let before = ''
  for (let round = 0; outcome.kind === 'input_required'; round++) {
    if (round === limit)
      throw new GatewayError('TOO_MANY_ROUNDS', 'The server requested input too many times in a row.')
    const { inputRequests: questions, requestState: state, withdrawn } = outcome
    const text = JSON.stringify(questions)
    // The same URL again: the user has not finished there yet.
    if (text === '{}' || text === before) await pause(MIN_ROUND_INTERVAL_MS, call.signal)
    before = text
    const answers = await put(elicitations.identify(outcome), call, withdrawn)
    const present = await withPresentCaller(call)
    outcome = await next({ ...present, inputResponses: answers, requestState: state })
    elicitations.settle(answers, outcome)
  }
  return outcome.kind === 'task' ? acceptanceOf(outcome.task, call.client.era) : outcome.result
}

interface InputRequestOptions {
  readonly peer: JsonRpcPeer
  readonly client: Client
  readonly call: Call
  /** Aborted when the responses are no longer needed. */
  readonly withdrawn: AbortSignal | undefined
  /** The request on whose stream to send; the session's own stream if absent. */
  readonly about: Id | undefined
}

/** The timeout of one input request, in milliseconds. */
const INPUT_REQUEST_TIMEOUT_MS = 600_000

/** Sends all input requests to a connected client at once. Requests without a response are omitted from the result. */
export async function requestInput(
  questions: InputRequests,
  options: InputRequestOptions,
): Promise<InputResponses> {
  const { peer, client, call, withdrawn, about } = options
  const controller = new AbortController()
  const { signal } = controller
  const stop = (): void => controller.abort()
  const timer = world.setTimeout(stop, INPUT_REQUEST_TIMEOUT_MS).unref()
  withdrawn?.addEventListener('abort', stop)
  call.signal.addEventListener('abort', stop)
  if (withdrawn?.aborted || call.signal.aborted) stop()
  try {
    const pending = Object.entries(questions).map(async ([key, question]) => {
      const { method, params } = encodeInputRequest(question, client)
      const answer = peer.request(method, () => params ?? Payload.of({}), { signal, about })
      return [key, await answerOf(answer, (result) => readInputResponse(question, client, result))] as const
    })
    const answers = await Promise.all(pending)
    call.signal.throwIfAborted()
    return Object.fromEntries(
      answers.filter((entry): entry is [string, InputResponse] => entry[1] !== undefined),
    )
  } finally {
    world.clearTimeout(timer)
    withdrawn?.removeEventListener('abort', stop)
    call.signal.removeEventListener('abort', stop)
  }
}

async function answerOf(
  request: Promise<Payload>,
  read: (result: Payload) => Payload,
): Promise<InputResponse | undefined> {
  try {
    const result = await request
    // Some clients send `reject` instead of `decline`.
    return { result: result.fields.action === 'reject' ? result.with({ action: 'decline' }) : read(result) }
  } catch (error) {
    const { relayed } = asGatewayError(error).extra
    return relayed && { error: relayed }
  }
}

// URL elicitations of one call, toward a client of 2025-11-25.
// Servers of 2026-07-28 send no `elicitationId` and no notification when an elicitation is complete: a caller finds out
// by repeating the call. Older clients need both, so the gateway adds them. An id belongs to one input request of one
// call: a request that the server repeats unchanged keeps its id, any other gets a new one. A server of 2025-11-25 that
// sends requests during a call has its own ids and notifications, which are not changed.

type InputRequired = Extract<Outcome, { kind: 'input_required' }>

/** An elicitation whose completion the client has not been notified of. */
interface Pending {
  readonly id: string
  readonly key: string
  readonly text: string
  isAccepted: boolean
}

/** Assigns ids to the URL elicitations of one call, and notifies the client when they are complete. */
class UrlElicitations {
  readonly #call: Call
  #pending: Pending[] = []

  constructor(call: Call) {
    this.#call = call
  }

  /** The input requests for the client, with a unique id for each URL elicitation. */
  identify({ inputRequests: questions, isOpen }: InputRequired): InputRequests {
    const named = Object.entries(questions).map(([key, question]): [string, InputRequest] => {
      const { params } = question
      if (!params || !isUrl(question)) return [key, question]
      if (isOpen && params.fields.elicitationId !== undefined) return [key, question]
      return [key, { ...question, params: params.with({ elicitationId: this.#idOf(key, params.text) }) }]
    })
    return Object.fromEntries(named)
  }

  /** Records the responses of the client and the next outcome: a URL that is not requested again is complete. */
  settle(answers: InputResponses, outcome: Outcome): void {
    for (const each of this.#pending) each.isAccepted ||= isAccepted(answers, each.key)
    const again = outcome.kind === 'input_required' ? outcome.inputRequests : {}
    const isAgain = ({ key, text }: Pending): boolean =>
      Object.hasOwn(again, key) && again[key]?.params?.text === text
    for (const each of this.#pending) if (each.isAccepted && !isAgain(each)) this.#complete(each)
    this.#pending = this.#pending.filter(isAgain)
  }

  #idOf(key: string, text: string): string {
    const known = this.#pending.find((each) => each.key === key && each.text === text)
    if (known) return known.id
    const id = world.randomUUID()
    this.#pending.push({ id, key, text, isAccepted: false })
    return id
  }

  #complete({ id }: Pending): void {
    const params = Payload.of({ elicitationId: id })
    this.#call.emit({ method: 'notifications/elicitation/complete', params })
  }
}

function isAccepted(answers: InputResponses, key: string): boolean {
  const answer = Object.hasOwn(answers, key) ? answers[key] : undefined
  return answer !== undefined && 'result' in answer && answer.result.fields.action === 'accept'
}
