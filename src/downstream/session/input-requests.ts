/**
 * Input requests for clients of older revisions: asked on the open stream, then the call is repeated with the
 * responses.
 */
import { randomUUID } from 'node:crypto'
import type {
  InputResponses,
  Call,
  Handler,
  Outcome,
  InputRequests,
  InputResponse,
  Client,
  InputRequest,
} from '../../core/call.ts'
import { GatewayError, asGatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { pause } from '../../core/time/waiting.ts'
import { readInputResponse, encodeInputRequest, isUrl } from '../../protocol/input-requests.ts'
import type { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import type { Id } from '../../protocol/jsonrpc.ts'

const MAX_ROUNDS = 10
/** How long to wait before a round that asks nothing, or nothing new, in milliseconds. */
const MIN_ROUND_INTERVAL_MS = 250

/** Puts questions to the client; answers with none when `withdrawn` says they are no longer wanted. */
export type RequestInput = (
  questions: InputRequests,
  call: Call,
  withdrawn: AbortSignal | undefined,
) => Promise<InputResponses>

/** Serves clients that are asked on an open stream: puts each question to them and makes the call again. */
export function requestInputInline(next: Handler, put: RequestInput): Handler {
  return async (call) => {
    const outcome = await next(call)
    return {
      kind: 'result',
      result: outcome.kind === 'result' ? outcome.result : await inputRounds(outcome, call, next, put),
    }
  }
}

/** Goes on with a call that ended with questions, until there is a result. @throws TOO_MANY_ROUNDS */
export async function inputRounds(
  first: Outcome,
  call: Call,
  next: Handler,
  put: RequestInput,
): Promise<Payload> {
  // A listening call asks for as long as it listens.
  const limit = call.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : MAX_ROUNDS
  const elicitations = new UrlElicitations(call)
  let outcome = first
  let before = ''
  for (let round = 0; outcome.kind === 'input_required'; round++) {
    if (round === limit)
      throw new GatewayError('TOO_MANY_ROUNDS', 'The server asked too many times in a row.')
    const { inputRequests: questions, requestState: state, withdrawn } = outcome
    const text = JSON.stringify(questions)
    // Who was sent to a page and is sent there again has not been through with it.
    if (text === '{}' || text === before) await pause(MIN_ROUND_INTERVAL_MS, call.signal)
    before = text
    const answers = await put(elicitations.identify(outcome), call, withdrawn)
    outcome = await next({ ...call, inputResponses: answers, requestState: state })
    elicitations.settle(answers, outcome)
  }
  return outcome.result
}

interface Options {
  readonly peer: JsonRpcPeer
  readonly client: Client
  readonly call: Call
  /** Says that the answers are no longer wanted. */
  readonly withdrawn: AbortSignal | undefined
  /** The request on whose stream to ask; the session's own where there is none. */
  readonly about: Id | undefined
}

/** How long one question waits for the client, in milliseconds. */
const QUESTION_TIMEOUT = 600_000

/** Puts questions to a client with an open connection, all at once. What stays unanswered is left out. */
export async function requestInput(questions: InputRequests, options: Options): Promise<InputResponses> {
  const { peer, client, call, withdrawn, about } = options
  const controller = new AbortController()
  const { signal } = controller
  const stop = (): void => controller.abort()
  const timer = setTimeout(stop, QUESTION_TIMEOUT).unref()
  withdrawn?.addEventListener('abort', stop)
  call.signal.addEventListener('abort', stop)
  if (withdrawn?.aborted || call.signal.aborted) stop()
  try {
    const asked = Object.entries(questions).map(async ([key, question]) => {
      const { method, params } = encodeInputRequest(question, client)
      const answer = peer.request(method, () => params ?? Payload.of({}), { signal, about })
      return [key, await answerOf(answer, (result) => readInputResponse(question, client, result))] as const
    })
    const answers = await Promise.all(asked)
    call.signal.throwIfAborted()
    return Object.fromEntries(
      answers.filter((entry): entry is [string, InputResponse] => entry[1] !== undefined),
    )
  } finally {
    clearTimeout(timer)
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
    // Some clients say `reject` for `decline`.
    return { result: result.fields.action === 'reject' ? result.with({ action: 'decline' }) : read(result) }
  } catch (error) {
    const { relayed } = asGatewayError(error).extra
    return relayed && { error: relayed }
  }
}

// The links one call asks the user to open, toward a client of 2025-11-25.
// Servers of 2026-07-28 name no `elicitationId` and never say that an elicitation is over: a caller learns it by
// making the call again. Older clients need both, so the gateway makes them. An id belongs to one question of one
// call: a question that the server repeats word for word keeps it, any other has its own. A server of 2025-11-25
// that asks in the middle of a call has ids and notifications of its own, which stay as they are.

type InputRequired = Extract<Outcome, { kind: 'input_required' }>

/** An elicitation of which the client has not heard that it is over. */
interface Pending {
  readonly id: string
  readonly key: string
  readonly text: string
  isAccepted: boolean
}

/** Names the URL elicitations of one call, and tells the client which of them are over. */
class UrlElicitations {
  readonly #call: Call
  #pending: Pending[] = []

  constructor(call: Call) {
    this.#call = call
  }

  /** The questions as the client is to get them: each link with an id that no other elicitation has. */
  identify({ inputRequests: questions, isOpen }: InputRequired): InputRequests {
    const named = Object.entries(questions).map(([key, question]): [string, InputRequest] => {
      const { params } = question
      if (!params || !isUrl(question)) return [key, question]
      if (isOpen && params.fields.elicitationId !== undefined) return [key, question]
      return [key, { ...question, params: params.with({ elicitationId: this.#idOf(key, params.text) }) }]
    })
    return Object.fromEntries(named)
  }

  /** Takes what the client answered, and what came of it: a link that is not asked for again was gone through. */
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
    const id = randomUUID()
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
