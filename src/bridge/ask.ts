import type { InputResponses, Call, Handler, Outcome, InputRequests } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Payload } from '../core/payload.ts'
import { pause } from '../core/waiting.ts'
import { UrlElicitations } from './url-elicitations.ts'

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
