import { setTimeout as wait } from 'node:timers/promises'
import type { Answers, Call, Handler, Outcome, Questions } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'

const MAX_ROUNDS = 10
/** How long to wait before a round without a question, in milliseconds. */
const PACE = 250

/** Puts questions to the client; answers with none when `withdrawn` says they are no longer wanted. */
export type Put = (questions: Questions, call: Call, withdrawn: AbortSignal | undefined) => Promise<Answers>

/** Serves clients that are asked on an open stream: puts each question to them and makes the call again. */
export function askInline(next: Handler, put: Put): Handler {
  return async (call) => {
    let outcome: Outcome = await next(call)
    // A listening call asks for as long as it listens.
    const limit = call.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : MAX_ROUNDS
    for (let round = 0; outcome.kind === 'ask'; round++) {
      if (round === limit) throw new GatewayError('TOO_MANY_ROUNDS', 'The server asked too many times in a row.')
      const { questions, state, withdrawn } = outcome
      if (Object.keys(questions).length === 0) await wait(PACE)
      const answers = await put(questions, call, withdrawn)
      outcome = await next({ ...call, answers, state })
    }
    return outcome
  }
}
