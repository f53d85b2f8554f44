import type { InputResponse, InputResponses, Call, Client, InputRequests } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import type { Id } from '../wire/jsonrpc.ts'
import type { JsonRpcPeer } from '../wire/peer.ts'
import { readInputResponse, encodeInputRequest } from '../wire/questions.ts'

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
