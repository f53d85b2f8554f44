/**
 * The file of a recording: JSON Lines in the format mcp-cassette 2, a header and then one entry per message. Entries of
 * unknown types are skipped, so that later versions stay readable.
 */
import { asObject, isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { parseJson } from '../core/json/read.ts'
import { metaKeys } from '../protocol/meta-keys.ts'

/** The first line of a recording. */
interface Header {
  readonly type: 'header'
  readonly cassetteVersion: 1 | 2
  readonly recorder?: string
  readonly startedAt?: string
  readonly transport: 'stdio' | 'http'
  /** The program that was recorded; its arguments may be secret. */
  readonly command?: readonly string[]
  /** The origin of the recorded URL; its path may be secret. */
  readonly url?: string
  /** Legacy if the server has a handshake, modern if it is of 2026-07-28. */
  readonly era: 'legacy' | 'modern'
  readonly redaction: {
    readonly applied: boolean
    /** The texts that stand for what was removed. */
    readonly marks: readonly string[]
  }
}

/** One recorded message. */
interface Frame {
  /** Its line in the file, from 1. */
  readonly line: number
  /** Milliseconds since the start of the recording. */
  readonly t: number
  readonly dir: 'c2s' | 's2c'
  readonly frame: Fields
  /** The request on whose stream it arrived, if that is known. */
  readonly about?: unknown
  /** The connection it belongs to, from 1: a gateway may have several to a server. */
  readonly connection: number
}

/** A recording. */
export interface Cassette {
  /** Where it was read from, for messages. */
  readonly file: string
  readonly header: Header
  readonly frames: readonly Frame[]
}

/** The version that is written; versions up to it are read. */
export const CASSETTE_VERSION = 2

/** What stands for removed values where a header does not name it. */
export const defaultMarks = ['***', '[redacted]', '[connection]'] as const

/** A line of a recording. */
export function headerLine(header: Header): string {
  return `${JSON.stringify(header)}\n`
}

/** A line of a recording for one message. */
export function frameLine({ t, dir, frame, about, connection }: Omit<Frame, 'line'>): string {
  const more = { ...(about !== undefined && { about }), ...(connection !== 1 && { connection }) }
  return `${JSON.stringify({ type: 'frame', t, dir, frame, ...more })}\n`
}

/** Reads a recording. @throws Error that names the line and what is wrong with it */
export function parseCassette(text: string, file: string): Cassette {
  const [first, ...others] = text.split('\n').map((line, index) => ({ line: index + 1, text: line.trim() }))
  if (first === undefined || first.text === '')
    throw new Error(`${file}: the file has no header: record one with gatehouse record`)
  const header = readHeader(entryOf(first, file), file)
  // A recording that was interrupted may end in the middle of a line.
  const last = others.at(-1)
  const cut = last && !isJson(last.text) ? last : undefined
  const frames = others.flatMap((each) =>
    each.text === '' || each === cut ? [] : framesOf(entryOf(each, file), each.line, file),
  )
  return { file, header, frames }
}

interface Line {
  readonly line: number
  readonly text: string
}

function entryOf({ line, text }: Line, file: string): Fields {
  let value: unknown
  try {
    value = parseJson(text)
  } catch {
    throw new Error(`${file}:${line}: the line is not JSON`)
  }
  if (!isObject(value)) throw new Error(`${file}:${line}: the line is not a JSON object`)
  return value
}

function isJson(text: string): boolean {
  try {
    parseJson(text)
    return true
  } catch {
    return false
  }
}

function readHeader(entry: Fields, file: string): Header {
  const { cassetteVersion, transport = 'stdio', era = 'legacy', recorder, startedAt, redaction } = entry
  if (entry.type !== 'header')
    throw new Error(`${file}:1: the first line must be a header: {"type":"header","cassetteVersion":2,…}`)
  if (cassetteVersion !== 1 && cassetteVersion !== CASSETTE_VERSION) {
    throw new Error(
      `${file}:1: cassetteVersion is ${JSON.stringify(cassetteVersion)}; this program reads 1 and ${CASSETTE_VERSION}`,
    )
  }
  if (transport !== 'stdio' && transport !== 'http')
    throw new Error(`${file}:1: transport must be "stdio" or "http"`)
  if (era !== 'legacy' && era !== 'modern') throw new Error(`${file}:1: era must be "legacy" or "modern"`)
  const marks = isObject(redaction) && Array.isArray(redaction.marks) ? redaction.marks : defaultMarks
  return {
    type: 'header',
    cassetteVersion,
    transport,
    era,
    ...(typeof recorder === 'string' && { recorder }),
    ...(typeof startedAt === 'string' && { startedAt }),
    redaction: {
      applied: isObject(redaction) && redaction.applied === true,
      marks: marks.filter((mark) => typeof mark === 'string' && mark !== ''),
    },
  }
}

function framesOf(entry: Fields, line: number, file: string): Frame[] {
  const { type, t = 0, dir, frame, about, connection } = entry
  if (type !== 'frame' && type !== 'chunks') return []
  const complain = (what: string): Error => new Error(`${file}:${line}: ${what}`)
  if (typeof t !== 'number') throw complain('t must be a number of milliseconds')
  if (dir !== 'c2s' && dir !== 's2c') throw complain('dir must be "c2s" or "s2c"')
  const common = { line, dir, connection: typeof connection === 'number' ? connection : 1 } as const
  if (type === 'frame') {
    if (!isObject(frame)) throw complain('frame must be a JSON-RPC message')
    return [{ ...common, t, frame, ...(about !== undefined && { about }) }]
  }
  const { chunks, id } = entry
  if (!Array.isArray(chunks)) throw complain('chunks must be a list of { t, frame }')
  return chunks.map((chunk: unknown) => {
    if (!isObject(chunk) || !isObject(chunk.frame)) throw complain('each chunk must be { t, frame }')
    const at = typeof chunk.t === 'number' ? chunk.t : t
    return { ...common, t: at, frame: chunk.frame, ...(id !== undefined && { about: id }) }
  })
}

/*
 * The requests of a recording with all that happened until the next one: notifications, the server's questions with
 * their answers, and the response.
 */

/** What a server sent before it responded: a notification, or a question of its own with the answer it got. */
export interface EpisodeStep {
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
  readonly steps: EpisodeStep[]
  /** The response; absent for notifications, and where the recording ended before. */
  response?: Fields
  /** When it was sent. */
  respondedAt?: number
  /** What the server sent after the response, before the next message of the client. */
  readonly after: EpisodeStep[]
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
  readonly #questions = new Map<string, EpisodeStep>()
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
    const params = asObject(frame.params)
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
    const step: EpisodeStep = { t, frame }
    if (id !== undefined) this.#questions.set(JSON.stringify(id), step)
    const owner = this.#ownerOf(frame, about)
    if (owner) owner.steps.push(step)
    else this.#last?.after.push(step)
  }

  /** The open request that a message of the server belongs to: it says so, or it is the newest. */
  #ownerOf(frame: Fields, about: unknown): Episode | undefined {
    if (about !== undefined) return this.#open.get(JSON.stringify(about))
    const params = asObject(frame.params)
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
