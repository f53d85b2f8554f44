import type { HeaderMap } from '../server/journal.ts'
import { type Id, isObject, type Json } from '../server/json.ts'
import type { Revision } from '../server/revisions.ts'

type AnswerFunction = (params: Json) => Json | Promise<Json>

/** The answers a client can give, by method; one may throw an {@link AnswerError}. */
export type Answers = Readonly<Record<string, AnswerFunction>>

/** How a fake client connects. */
export interface ConnectOptions {
  readonly revision: Revision
  readonly transport: 'http' | 'sse' | 'stdio'
  /** The server's address, for `http` and `sse`. */
  readonly url?: string
  /** The server's program, for `stdio`. */
  readonly command?: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** How long a program may take to go after stdin ends, and again after SIGTERM. */
  readonly graceMs?: number
  /** What it declares; by default what it has answers for. */
  readonly capabilities?: Json
  readonly answers?: Answers
  /** Sent with every HTTP request. */
  readonly headers?: HeaderMap
  /** False: connects without the opening exchange; `open()` makes up for it. */
  readonly handshake?: boolean
  /** False: gives an `input_required` result as it is and asks nobody. */
  readonly auto?: boolean
  /** False: opens no GET stream. */
  readonly getStream?: boolean
  /** The ids it makes; `mixed` are strings and numbers in turn. */
  readonly ids?: 'number' | 'string' | 'mixed'
  /** Told of every message it gets, and for a reply of the method that was asked for. */
  readonly records?: (message: Json, asked: string | undefined) => void
  /** A log level it sends with every request, where the revision has that. */
  readonly logLevel?: string
}

/** How one request is made. */
export interface RequestOptions {
  readonly onProgress?: (params: Json) => void
  /** The token to ask for progress with; one is made when only `onProgress` is given. */
  readonly progressToken?: Id
  /** Cancels the request. */
  readonly signal?: AbortSignal
  readonly timeoutMs?: number
  /** Further headers of this request, or others than the usual. */
  readonly headers?: HeaderMap
  readonly logLevel?: string
}

/** A notification from the server. */
export interface Note {
  readonly method: string
  readonly params: Json
  readonly text: string
}

/** What a request led to. */
export interface Reply {
  readonly id: Id
  readonly result?: Json
  readonly error?: Json
  /** The raw text of the reply, or the body of an HTTP answer that is none. */
  readonly text: string
  /** The notifications about this request, in order. */
  readonly notes: readonly Note[]
  /** The status and headers of the HTTP answer; 0 and none elsewhere. */
  readonly status: number
  readonly headers: HeaderMap
  /** How many times the request was made. */
  readonly rounds: number
}

/** An answer that is a JSON-RPC error. */
export class AnswerError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

/** Finds the text of the first text block of a result. */
export function textOf(reply: Reply): string {
  const content = reply.result?.['content']
  const block: unknown = Array.isArray(content)
    ? content.find((item) => isObject(item) && item['type'] === 'text')
    : undefined
  return isObject(block) ? String(block['text']) : ''
}
