/**
 * The requests of a recording with all that happened until the next one: notifications, the server's questions with
 * their answers, and the response.
 */
import { isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { Cassette, Frame } from './cassette.ts'

/** What a server sent before it responded: a notification, or a question of its own with the answer it got. */
export interface Step {
  /** When it was sent, in milliseconds since the start of the recording. */
  readonly t: number
  readonly frame: Fields
  /** Set for questions that were answered. */
  answer?: Fields
}

/** A message of a client, and everything that followed from it. */
export interface Episode {
  readonly line: number
  /** When it was sent, in milliseconds since the start of the recording. */
  readonly t: number
  readonly connection: number
  readonly method: string
  readonly params: Fields
  readonly id: unknown
  readonly steps: Step[]
  /** The response; absent for notifications, and where the recording ended before. */
  response?: Fields
  /** When it was sent. */
  respondedAt?: number
  /** What the server sent after the response, before the next message of the client. */
  readonly after: Step[]
}

/** Requests with which clients find out what a server is: their parameters describe the client. */
export const handshakes: ReadonlySet<string> = new Set(['initialize', 'server/discover', 'ping'])

/** The tool, prompt or resource that a request names. */
export function nameOf(params: Fields): string | undefined {
  const name = params.name ?? params.uri
  return typeof name === 'string' ? name : undefined
}

/** The value that the progress notifications of a request carry. */
export function progressTokenOf(params: Fields): unknown {
  return isObject(params._meta) ? params._meta.progressToken : undefined
}

/** The parameters of a message without `_meta`, which differs between clients. */
export function withoutMeta(params: Fields): Fields {
  const { _meta, ...rest } = params
  return rest
}

/** Splits a recording into episodes, in the order of their requests. */
export function episodesOf({ frames }: Pick<Cassette, 'frames'>): readonly Episode[] {
  const connections = new Map<number, Reading>()
  const episodes: Episode[] = []
  for (const each of frames) {
    const reading = connections.get(each.connection) ?? new Reading()
    connections.set(each.connection, reading)
    const begun = each.dir === 'c2s' ? reading.sent(each) : reading.received(each)
    if (begun) episodes.push(begun)
  }
  return episodes
}

/** The messages of one connection, as they are read. */
class Reading {
  readonly #open = new Map<string, Episode>()
  readonly #questions = new Map<string, Step>()
  #last: Episode | undefined

  sent({ frame, line, t, connection }: Frame): Episode | undefined {
    const { id, method } = frame
    if (typeof method !== 'string') {
      const question = this.#questions.get(JSON.stringify(id))
      if (question) question.answer = frame
      return undefined
    }
    // Which request of a replay it is about, only its own client knows.
    if (method === 'notifications/cancelled') return undefined
    const params = isObject(frame.params) ? frame.params : {}
    const begun: Episode = { line, t, connection, method, params, id, steps: [], after: [] }
    if (id !== undefined) this.#open.set(JSON.stringify(id), begun)
    this.#last = begun
    return begun
  }

  received({ frame, about, t }: Frame): undefined {
    const { id, method } = frame
    if (typeof method !== 'string') {
      const answered = this.#open.get(JSON.stringify(id))
      if (!answered) return
      answered.response = frame
      answered.respondedAt = t
      this.#open.delete(JSON.stringify(id))
      this.#last = answered
      return
    }
    const step: Step = { t, frame }
    if (id !== undefined) this.#questions.set(JSON.stringify(id), step)
    const owner = this.#ownerOf(frame, about)
    if (owner) owner.steps.push(step)
    else this.#last?.after.push(step)
  }

  /** The open request that a message of the server belongs to: it says so, or it is the newest. */
  #ownerOf(frame: Fields, about: unknown): Episode | undefined {
    if (about !== undefined) return this.#open.get(JSON.stringify(about))
    const params = isObject(frame.params) ? frame.params : {}
    const subscription = isObject(params._meta) ? params._meta[metaKeys.subscription] : undefined
    if (subscription !== undefined) return this.#open.get(JSON.stringify(subscription))
    const open = [...this.#open.values()].toReversed()
    const { progressToken } = params
    if (progressToken !== undefined) {
      const owner = open.find((each) => progressTokenOf(each.params) === progressToken)
      if (owner) return owner
    }
    return open.find((each) => each.method !== 'subscriptions/listen')
  }
}
