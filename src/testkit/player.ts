/**
 * Answers from a recording in the place of its server: an interceptor whose connections never reach one. Finds the episode that
 * a request repeats, and what is nearest if there is none.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { asObject, isObject, readJson, isSame, exactly } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type {
  OpenTransport,
  TransportReceiver,
  UpstreamTransport,
  TransportInterceptor,
} from '../upstream/transport/transport.ts'
import { findRevision, latestLegacy, latestModern } from '../core/revisions.ts'
import {
  type Cassette,
  type Episode,
  episodesOf,
  progressTokenOf,
  type EpisodeStep,
  handshakes,
  nameOf,
  withoutMeta,
} from './cassette.ts'
import { shortened } from '../core/text/escape.ts'
import { nearest } from '../core/text/words.ts'

/** A recording that is ready to answer. */
interface Player {
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
    const params = asObject(message.params)
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
      const error = await this.#take(step, { ...request, episode })
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
  #follow(steps: readonly EpisodeStep[]): void {
    for (const step of steps) void this.#take(step)
  }

  /** Sends one message of the server, and waits for the answer if it is a question. Resolves with why the recording ends there. */
  async #take(
    { frame, answer }: EpisodeStep,
    of?: { readonly id: unknown; readonly params: Fields; readonly episode: Episode },
  ): Promise<string | undefined> {
    if (frame.id === undefined) {
      const adapted = of ? adaptedNotification(frame, of) : frame
      if (adapted) this.#receive(adapted, of?.id)
      return undefined
    }
    const id = `recorded-${++this.#questions}`
    const answered = new Promise<Fields | undefined>((settle) => {
      this.#waiting.set(id, { about: of?.id, settle })
    })
    this.#receive({ ...frame, id }, of?.id)
    const given = await answered
    this.#waiting.delete(id)
    return given && answer && this.#differs(String(frame.method), answer, given)
  }

  /** Why the recording cannot go on after an answer: another choice would have led to something else. */
  #differs(method: string, recorded: Fields, given: Fields): string | undefined {
    const { marks } = this.#cassette.header.redaction
    const isSameKind = (recorded.error === undefined) === (given.error === undefined)
    // What a model samples, and where a client works, differs from run to run.
    const isFree = method !== 'elicitation/create'
    if (isSameKind && (isFree || recorded.error !== undefined)) return undefined
    const { _meta: _recordedMeta, ...expected } = asObject(recorded.result)
    const { _meta: _givenMeta, ...result } = asObject(given.result)
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

/** The maximum length of a value in a message, in characters. */
const MAX_SHOWN = 120

/** Whether a value is the recorded one; a mark in a recorded text stands for any text. */
export function isRecorded(recorded: unknown, given: unknown, marks: readonly string[]): boolean {
  // A rule may have replaced a value of any type.
  if (typeof recorded === 'string' && marks.includes(recorded)) return true
  if (typeof recorded === 'string' && typeof given === 'string')
    return recorded === given || isMarked(recorded, given, marks)
  if (Array.isArray(recorded)) {
    return (
      Array.isArray(given) &&
      recorded.length === given.length &&
      recorded.every((each, index) => isRecorded(each, given[index], marks))
    )
  }
  if (!isObject(recorded)) return isSame(recorded, given)
  if (!isObject(given)) return false
  const keys = Object.keys(recorded)
  return (
    keys.length === Object.keys(given).length &&
    keys.every((key) => Object.hasOwn(given, key) && isRecorded(recorded[key], given[key], marks))
  )
}

/** The parts of a text before, between and after its marks. */
export function partsBetween(text: string, marks: readonly string[]): readonly string[] {
  return marks.reduce<readonly string[]>((before, mark) => before.flatMap((part) => part.split(mark)), [text])
}

/** Whether the parts between the marks of a recorded text occur in a text, in this order. */
function isMarked(recorded: string, given: string, marks: readonly string[]): boolean {
  const [first = '', ...others] = partsBetween(recorded, marks)
  const last = others.pop()
  if (last === undefined || !given.startsWith(first) || !given.endsWith(last)) return false
  const end = given.length - last.length
  let at = first.length
  for (const part of others) {
    const found = given.indexOf(part, at)
    if (found === -1) return false
    at = found + part.length
  }
  return at <= end
}

/** What identifies a request: its parameters, with of the client's answers only those that a person chose. */
function identifying(method: string, params: Fields): Fields {
  if (handshakes.has(method)) return {}
  const { inputResponses, ...rest } = withoutMeta(params)
  if (!isObject(inputResponses)) return rest
  const chosen = Object.entries(inputResponses).map(([key, answer]) => [
    key,
    isObject(answer) && answer.action !== undefined ? answer : {},
  ])
  return { ...rest, inputResponses: Object.fromEntries(chosen) }
}

/** The requests of a recording, and how far it is. Each is used once, in recorded order; the last one then repeats. */
export class Matches {
  readonly #byMethod = new Map<string, Map<string, Episode[]>>()
  readonly #marks: readonly string[]
  readonly #used = new Set<Episode>()

  constructor(episodes: readonly Episode[], { header }: Pick<Cassette, 'header'>) {
    this.#marks = header.redaction.marks
    for (const episode of episodes) {
      const { method } = episode
      const byParams = this.#byMethod.get(method) ?? new Map<string, Episode[]>()
      this.#byMethod.set(method, byParams)
      const key = exactly(identifying(method, episode.params))
      const same = byParams.get(key)
      if (same) same.push(episode)
      else byParams.set(key, [episode])
    }
  }

  /** The episode of a request, preferably of one of these connections. */
  take(method: string, params: Fields, connections: readonly number[]): Episode | undefined {
    const found = this.#find(method, identifying(method, params))
    const preferred = found.filter(({ connection }) => connections.includes(connection))
    const choice = preferred.length > 0 ? preferred : found
    const taken = choice.find((each) => !this.#used.has(each)) ?? choice.at(-1)
    if (taken) this.#used.add(taken)
    return taken
  }

  /** Why a request is not in the recording, and what is nearest to it. */
  missing(method: string, params: Fields): string {
    const byParams = this.#byMethod.get(method)
    if (!byParams) {
      const methods = [...this.#byMethod.keys()].filter((each) => !each.startsWith('notifications/'))
      const hint = nearest(method, methods) ?? (methods.length > 0 ? methods.join(', ') : 'nothing')
      return `The recording has no request ${method}. It has: ${hint}.`
    }
    const recorded = [...byParams.values()].flat()
    const named = recorded.filter((each) => nameOf(each.params) === nameOf(params))
    const name = nameOf(params)
    if (named.length === 0) {
      const names = [...new Set(recorded.flatMap((each) => nameOf(each.params) ?? []))]
      const hint = (name === undefined ? undefined : nearest(name, names)) ?? names.join(', ')
      return `The recording has no ${method} of "${shown(name)}". It has: ${shown(hint)}.`
    }
    const given = leavesOf(identifying(method, params))
    const [best] = named
      .map((each) => ({ each, differing: differing(leavesOf(identifying(method, each.params)), given) }))
      .toSorted((one, other) => one.differing.length - other.differing.length)
    const of = name === undefined ? '' : ` of "${shown(name)}"`
    const parts = best?.differing.slice(0, 5).join('; ') ?? ''
    return `The recording has no ${method}${of} with these parameters. The nearest, in line ${best?.each.line}, differs: ${parts}.`
  }

  #find(method: string, params: Fields): readonly Episode[] {
    const byParams = this.#byMethod.get(method)
    const exact = byParams?.get(exactly(params))
    if (exact) return exact
    return [...(byParams?.values() ?? [])]
      .flat()
      .filter((each) => isRecorded(identifying(method, each.params), params, this.#marks))
  }
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing')
  return shortened(text, MAX_SHOWN)
}

/** The values in parameters by their paths. */
function leavesOf(value: unknown, path = ''): Map<string, unknown> {
  if (!isObject(value) || Object.keys(value).length === 0) return new Map([[path, value]])
  const below = Object.entries(value).flatMap(([key, each]) => [
    ...leavesOf(each, path === '' ? key : `${path}.${key}`),
  ])
  return new Map(below)
}

/** The differing paths, with the recorded value of each. Given values are not repeated: they may be secret. */
function differing(recorded: Map<string, unknown>, given: Map<string, unknown>): string[] {
  const paths = new Set([...recorded.keys(), ...given.keys()])
  return [...paths].flatMap((path) => {
    if (!recorded.has(path)) return [`${path} is not in it`]
    if (!given.has(path)) return [`it has ${path}: ${shown(recorded.get(path))}`]
    return isSame(recorded.get(path), given.get(path)) ? [] : [`${path} is ${shown(recorded.get(path))}`]
  })
}
