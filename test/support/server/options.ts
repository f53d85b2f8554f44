import type { Revision } from './revisions.ts'

/** How a fake server is reached: `http` is Streamable HTTP, `sse` is HTTP+SSE. */
export type Transport = 'stdio' | 'http' | 'sse'

/** What a fake server is and how it misbehaves. Without faults it is a strict server of its revision. */
export interface ServerOptions {
  readonly revision: Revision
  readonly transport: Transport
  /** Where it listens; by default on any free port. */
  readonly port?: number
  /** Entries per page of a list; all on one page by default. */
  readonly pageSize?: number
  /** Capabilities it lacks, such as `logging`, `prompts` or `resources.subscribe`. */
  readonly without?: readonly string[]
  /** Sends its questions on the GET stream instead of the stream of the call. */
  readonly questions?: 'call' | 'get'
  /** How long it waits for an answer to a question, in milliseconds. */
  readonly askTimeoutMs?: number
  /** Pings the client after the handshake. */
  readonly pingClient?: boolean
  /** Asks for the roots after the handshake, when the client declared them. */
  readonly asksRoots?: boolean
  /** Gives its events ids and replays them after `Last-Event-ID`. */
  readonly resumable?: boolean
  /** The `ttlMs` of its cacheable results. */
  readonly ttlMs?: number
  /** Writes every message it receives to this file, one JSON line each. */
  readonly seenFile?: string

  /** Waits this long before each reply. */
  readonly delayMs?: number
  /** How lines end on stdout. */
  readonly framing?: 'lf' | 'crlf'
  /** How lines end in event streams. */
  readonly sseLineEnd?: 'lf' | 'crlf' | 'cr'
  /** Writes this many bytes at a time. */
  readonly chunk?: number
  /** Spreads the data of an event over several `data:` lines. */
  readonly multilineData?: boolean
  /** Lines on stdout before the first message. */
  readonly banner?: readonly string[]
  /** False: answers 405 to GET. */
  readonly getStream?: boolean
  /** False: a legacy server that keeps no sessions and hears every request without a handshake. */
  readonly sessions?: boolean
  /** Replies with JSON only: whatever it would say before the reply is lost. */
  readonly jsonOnly?: boolean
  /** Replies with an event stream always. */
  readonly sseOnly?: boolean
  /** Forgets a session after this many requests. */
  readonly expireAfter?: number
  /** What it answers for a forgotten session. */
  readonly expiredStatus?: 404 | 400
  /** What it does when `server/discover` comes first and its revision does not know it. */
  readonly discover?: 'answer' | 'silent' | 'exit'
  /** Answers with the id as a string whatever it was. */
  readonly coerceIds?: boolean
  /** Holds every other reply back until the next one went out. */
  readonly outOfOrder?: boolean
  /** The status of the answer to a notification. */
  readonly notificationStatus?: number
  /** The body of the answer to a notification. */
  readonly notificationBody?: string
  readonly deleteStatus?: number
  /** Ends every list with `nextCursor: ""`. */
  readonly emptyLastCursor?: boolean
  /** Never ends the event stream of a cancelled call. */
  readonly keepsCancelledStream?: boolean
  /** Outlives the end of stdin and SIGTERM; ends by itself after half a minute. */
  readonly stubborn?: boolean
  /** Answers every HTTP request with this status and no MCP. */
  readonly refuseStatus?: number
}

const lineEnds = { lf: '\n', crlf: '\r\n', cr: '\r' } as const

/** The characters that end a line in this server's event streams. */
export function sseLineEnd(options: ServerOptions): string {
  return lineEnds[options.sseLineEnd ?? 'lf']
}
