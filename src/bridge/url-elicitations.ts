/**
 * The links one call asks the user to open, toward a client of 2025-11-25.
 *
 * Servers of 2026-07-28 name no `elicitationId` and never say that an elicitation is over: a caller learns it by
 * making the call again. Older clients need both, so the gateway makes them. An id belongs to one question of one
 * call: a question that the server repeats word for word keeps it, any other has its own. A server of 2025-11-25
 * that asks in the middle of a call has ids and notifications of its own, which stay as they are.
 */
import { randomUUID } from 'node:crypto'
import type { InputResponses, Call, Outcome, InputRequest, InputRequests } from '../core/call.ts'
import { Payload } from '../core/payload.ts'
import { isUrl } from '../wire/questions.ts'

type InputRequired = Extract<Outcome, { kind: 'input_required' }>

/** An elicitation of which the client has not heard that it is over. */
interface Pending {
  readonly id: string
  readonly key: string
  readonly text: string
  isAccepted: boolean
}

/** Names the URL elicitations of one call, and tells the client which of them are over. */
export class UrlElicitations {
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
