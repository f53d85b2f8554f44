/** Answers from a recording in the place of its server: an interceptor whose connections never reach one. */
import { setTimeout as wait } from 'node:timers/promises'
import { isObject, readJson, isSame } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type {
  OpenTransport,
  TransportReceiver,
  UpstreamTransport,
  TransportInterceptor,
} from '../upstream/transport/transport.ts'
import { findRevision, latestLegacy, latestModern } from '../protocol/revisions.ts'
import type { Cassette } from './cassette.ts'
import { type Episode, episodesOf, progressTokenOf, type Step } from './episodes.ts'
import { isRecorded, Matches } from './matching.ts'

/** A recording that is ready to answer. */
export interface Player {
  readonly intercept: TransportInterceptor
  /** The revision in which the server was recorded. */
  readonly revision: string
}

/** Prepares a recording. @throws Error if it has no handshake, or one of an unknown revision */
export function createPlayer(cassette: Cassette): Player {
  const episodes = episodesOf(cassette)
  const matches = new Matches(episodes, cassette)
  const connect: OpenTransport = async (receiver) =>
    new PlayedTransport(cassette, { episodes, matches, receiver })
  return { intercept: () => connect, revision: revisionOf(cassette, episodes) }
}

function revisionOf({ file, header: { era } }: Cassette, episodes: readonly Episode[]): string {
  const found = episodes.flatMap(({ method, params, response }) => {
    if (era === 'modern') return isObject(params._meta) ? [params._meta[metaKeys.version]] : []
    return method === 'initialize' && isObject(response?.result) ? [response.result.protocolVersion] : []
  })
  if (found.length === 0) {
    const what = era === 'modern' ? 'request with a protocol version' : 'answered initialize request'
    throw new Error(`${file}: the recording has no ${what}, so nothing can be replayed`)
  }
  const revision = findRevision(found.find((each) => typeof each === 'string'))
  if (revision?.era === era) return revision.name
  return (era === 'modern' ? latestModern : latestLegacy).name
}

interface Playing {
  readonly episodes: readonly Episode[]
  readonly matches: Matches
  readonly receiver: TransportReceiver
}

interface Question {
  /** The request during which it is asked. */
  readonly about: unknown
  settle(answer: Fields | undefined): void
}

interface Answered {
  readonly error: string | undefined
}

/** One connection to a recorded server. */
class PlayedTransport implements UpstreamTransport {
  readonly hasProvenance = true
  readonly #cassette: Cassette
  readonly #episodes: readonly Episode[]
  readonly #matches: Matches
  readonly #receiver: TransportReceiver
  /** The questions that are not answered yet. */
  readonly #waiting = new Map<string, Question>()
  /** The requests that are not answered yet. */
  readonly #active = new Set<unknown>()
  /** The recorded connections of clients with the same capabilities. */
  #connections: readonly number[] = []
  #questions = 0
  #isClosed = false

  constructor(cassette: Cassette, { episodes, matches, receiver }: Playing) {
    this.#cassette = cassette
    this.#episodes = episodes
    this.#matches = matches
    this.#receiver = receiver
  }

  async send(text: string): Promise<void> {
    const message = readJson(text)
    if (!isObject(message)) return
    const { id, method } = message
    if (typeof method !== 'string') {
      this.#waiting.get(String(id))?.settle(message)
      return
    }
    const params = isObject(message.params) ? message.params : {}
    if (method === 'notifications/cancelled') {
      this.#stop(params.requestId)
      return
    }
    if (method === 'initialize') this.#connections = this.#connectionsLike(params)
    const episode = this.#matches.take(method, params, this.#connections)
    // It can be cancelled from now on.
    if (id !== undefined && episode) this.#active.add(id)
    // The caller goes on before the response arrives, as with any server.
    setImmediate(() => {
      if (id === undefined) this.#follow(episode?.after ?? [])
      else if (episode) void this.#play(episode, { id, params })
      else this.#answerMissing(id, method, params)
    })
  }

  release(id: number): void {
    this.#stop(id)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { settle } of this.#waiting.values()) settle(undefined)
  }

  #stop(id: unknown): void {
    this.#active.delete(id)
    for (const { about, settle } of this.#waiting.values()) if (about === id) settle(undefined)
  }

  #connectionsLike(params: Fields): readonly number[] {
    return this.#episodes.flatMap(({ method, connection, params: recorded }) =>
      method === 'initialize' && isSame(recorded.capabilities, params.capabilities) ? [connection] : [],
    )
  }

  #answerMissing(id: unknown, method: string, params: Fields): void {
    if (method === 'ping') return this.#receive({ id, result: {} }, id)
    this.#fail(id, this.#matches.missing(method, params))
  }

  async #play(episode: Episode, request: { readonly id: unknown; readonly params: Fields }): Promise<void> {
    const { id } = request
    let before = episode.t
    for (const step of episode.steps) {
      await rest(before, step.t)
      before = step.t
      if (this.#isOver(id)) return
      const { error } = await this.#take(step, { ...request, episode })
      if (error !== undefined) return this.#fail(id, error)
    }
    const { response, respondedAt = before, method, line } = episode
    await rest(before, respondedAt)
    if (this.#isOver(id)) return
    if (response) this.#receive({ ...response, id }, id)
    // What a client listens to stays open until the client ends it.
    else if (method !== 'subscriptions/listen')
      this.#fail(id, `The recording ended before this request, in its line ${line}, was answered.`)
    this.#active.delete(id)
    this.#follow(episode.after)
  }

  /** Sends what came between requests. No request waits for it, so other answers to its questions have no effect. */
  #follow(steps: readonly Step[]): void {
    for (const step of steps) void this.#take(step)
  }

  /** Sends one message of the server, and waits for the answer if it is a question. */
  async #take(
    { frame, answer }: Step,
    of?: { readonly id: unknown; readonly params: Fields; readonly episode: Episode },
  ): Promise<Answered> {
    if (frame.id === undefined) {
      const adapted = of ? adaptedNotification(frame, of) : frame
      if (adapted) this.#receive(adapted, of?.id)
      return { error: undefined }
    }
    const id = `recorded-${++this.#questions}`
    const answered = new Promise<Fields | undefined>((settle) => {
      this.#waiting.set(id, { about: of?.id, settle })
    })
    this.#receive({ ...frame, id }, of?.id)
    const given = await answered
    this.#waiting.delete(id)
    return { error: given && answer && this.#differs(String(frame.method), answer, given) }
  }

  /** Why the recording cannot go on after an answer: another choice would have led to something else. */
  #differs(method: string, recorded: Fields, given: Fields): string | undefined {
    const { marks } = this.#cassette.header.redaction
    const isSameKind = (recorded.error === undefined) === (given.error === undefined)
    // What a model samples, and where a client works, differs from run to run.
    const isFree = method !== 'elicitation/create'
    if (isSameKind && (isFree || recorded.error !== undefined)) return undefined
    const { _meta: _recordedMeta, ...expected } = objectOf(recorded.result)
    const { _meta: _givenMeta, ...result } = objectOf(given.result)
    if (isSameKind && isRecorded(expected, result, marks)) return undefined
    const what = recorded.error === undefined ? JSON.stringify(expected) : 'an error'
    return `The recording goes on after another answer to ${method}: ${what.slice(0, 300).toWellFormed()}`
  }

  #fail(id: unknown, message: string): void {
    this.#active.delete(id)
    this.#receive({ id, error: { code: -32602, message } }, id)
  }

  #isOver(id: unknown): boolean {
    return this.#isClosed || !this.#active.has(id)
  }

  #receive(message: Fields, about: unknown): void {
    if (this.#isClosed) return
    const text = JSON.stringify({ jsonrpc: '2.0', ...message })
    this.#receiver.receive(text, typeof about === 'number' ? about : undefined)
  }
}

/**
 * The longest time between two messages, in milliseconds: clients that read a notification and the response of its
 * request at once drop the notification.
 */
const MAX_REST_MS = 20

async function rest(before: number, now: number): Promise<void> {
  const milliseconds = Math.min(MAX_REST_MS, now - before)
  if (milliseconds > 0) await wait(milliseconds)
}

/** A notification with the token and the subscription of the request now; undefined if it did not ask for progress. */
function adaptedNotification(
  frame: Fields,
  { id, params, episode }: { readonly id: unknown; readonly params: Fields; readonly episode: Episode },
): Fields | undefined {
  if (!isObject(frame.params)) return frame
  const { progressToken } = frame.params
  const isOwn = progressToken !== undefined && progressToken === progressTokenOf(episode.params)
  const token = progressTokenOf(params)
  if (isOwn && token === undefined) return undefined
  const { _meta: meta } = frame.params
  const isAbout = isObject(meta) && meta[metaKeys.subscription] !== undefined
  return {
    ...frame,
    params: {
      ...frame.params,
      ...(isOwn && { progressToken: token }),
      ...(isAbout && { _meta: { ...meta, [metaKeys.subscription]: id } }),
    },
  }
}

function objectOf(value: unknown): Fields {
  return isObject(value) ? value : {}
}
