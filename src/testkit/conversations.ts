/** The requests of a recording with the answers of the client to the server's questions, in one form for both eras. */
import { isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import type { Cassette } from './cassette.ts'
import { type Episode, episodesOf, handshakes, withoutMeta } from './episodes.ts'

/** A request, what the client answered during it, and the response. */
export interface Conversation {
  readonly line: number
  readonly method: string
  readonly params: Fields
  readonly answers: readonly Answer[]
  /** The JSON-RPC response. */
  readonly response: Fields
}

/** The answer to a question of the server. */
export interface Answer {
  readonly method: string
  readonly result: Fields
}

const notListed = new Set([...handshakes, 'subscriptions/listen'])

/** The answered requests of a recording, without handshakes. */
export function conversationsOf(cassette: Cassette): readonly Conversation[] {
  const episodes = episodesOf(cassette)
  return episodes.flatMap((episode, index) => {
    if (!episode.response || notListed.has(episode.method)) return []
    // The retry of a request belongs to its conversation.
    if (episode.params.inputResponses !== undefined) return []
    return [conversationFrom(episode, episodes.slice(index + 1))]
  })
}

function conversationFrom(first: Episode, later: readonly Episode[]): Conversation {
  const answers = first.steps.flatMap(({ frame, answer }): readonly Answer[] =>
    isObject(answer?.result) ? [{ method: String(frame.method), result: answer.result }] : [],
  )
  let last = first
  let rest = later
  for (;;) {
    const { result } = last.response ?? {}
    if (!isObject(result) || result.resultType !== 'input_required') break
    const at = rest.findIndex(
      ({ method, params }) =>
        method === first.method &&
        params.inputResponses !== undefined &&
        params.requestState === result.requestState,
    )
    const retry = rest[at]
    if (!retry) break
    answers.push(...answersIn(result, retry))
    last = retry
    rest = rest.slice(at + 1)
  }
  const { line, method, params } = first
  return { line, method, params: withoutMeta(params), answers, response: last.response ?? {} }
}

function answersIn({ inputRequests }: Fields, { params: { inputResponses } }: Episode): Answer[] {
  if (!isObject(inputRequests) || !isObject(inputResponses)) return []
  return Object.entries(inputRequests).flatMap(([key, question]) => {
    const result = inputResponses[key]
    if (!isObject(question) || !isObject(result)) return []
    return [{ method: String(question.method), result }]
  })
}
