import { isObject, type Json, objectAt } from '../server/json.ts'
import type { Traits } from '../server/revisions.ts'
import { questionFaults } from './checks.ts'
import { AnswerError, type Answers, type ConnectOptions } from './options.ts'

/** A question a server asked. */
export interface Asked {
  readonly method: string
  readonly params: Json
}

/** Answers what servers ask, and notes what they may not ask. */
export class Answering {
  /** Every question, oldest first. */
  readonly asked: Asked[] = []
  readonly capabilities: Json
  readonly #traits: Traits
  readonly #answers: Answers
  readonly #violations: string[]

  constructor(traits: Traits, options: ConnectOptions, violations: string[]) {
    this.#traits = traits
    this.#answers = options.answers ?? {}
    this.capabilities = options.capabilities ?? capabilitiesFor(traits, this.#answers)
    this.#violations = violations
  }

  /** Gives the answer to one question; throws an {@link AnswerError} where there is none. */
  async answer(method: string, params: Json): Promise<Json> {
    if (method === 'ping' && !this.#traits.modern) return {}
    this.asked.push({ method, params })
    this.#violations.push(...questionFaults(this.#traits, this.capabilities, method, params))
    const answer = this.#answers[method]
    if (!answer) throw new AnswerError(-32601, `Method not found: ${method}`)
    return await answer(params)
  }

  /** Gives the answers to the questions of an `input_required` result. */
  async answerAll(result: Json): Promise<Json> {
    const answers = Object.entries(objectAt(result, 'inputRequests')).map(async ([key, request]) => {
      const method = isObject(request) ? String(request['method']) : ''
      return [key, await this.answer(method, objectAt(request, 'params'))] as const
    })
    return Object.fromEntries(await Promise.all(answers))
  }
}

function capabilitiesFor(traits: Traits, answers: Answers): Json {
  return {
    ...(answers['roots/list'] && { roots: {} }),
    ...(answers['sampling/createMessage'] && { sampling: {} }),
    ...(answers['elicitation/create'] &&
      traits.elicitation && { elicitation: traits.urlElicitation ? { form: {}, url: {} } : {} }),
  }
}
