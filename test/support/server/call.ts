import { type Id, type Json, objectAt } from './json.ts'
import type { World } from './world.ts'

/** Something the server wants from the client before it can go on. */
export interface Question {
  readonly method: string
  readonly params: Json
}

/** Where messages about one request go. */
export interface Channel {
  /** Sends a notification or a request. */
  send(message: Json): void
  /** Sends the reply, if there is one, and ends. */
  finish(reply?: unknown, status?: number): void
  /** Breaks the connection, or ends the process. */
  crash(): void
  /** Ends the stream with the call still open, where the transport lets a client take it up again. */
  drop(): void
}

/** One request being answered, whatever the revision. */
export interface Call {
  readonly id: Id
  readonly method: string
  readonly params: Json
  /** The raw text of the request. */
  readonly text: string
  readonly world: World
  readonly signal: AbortSignal
  readonly channel: Channel
  /** Whether the client wants log messages of this level. */
  logs(level: string): boolean
  /** Asks the client; gives the answers by the same keys. */
  ask(questions: Readonly<Record<string, Question>>): Promise<Json>
}

/** A failure that becomes a JSON-RPC error. */
export class RpcError extends Error {
  readonly code: number
  readonly data: unknown
  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** Thrown to end a round of 2026-07-28: the client is asked and calls again. */
export class InputRequired extends Error {
  readonly result: Json
  constructor(result: Json) {
    super('input required')
    this.result = result
  }
}

/** The body of a JSON-RPC error reply. */
export function errorReply(id: Id | null | undefined, error: unknown): Json {
  const known = error instanceof RpcError ? error : new RpcError(-32603, String(error))
  const { code, message, data } = known
  return {
    jsonrpc: '2.0',
    ...(id !== undefined && { id }),
    error: { code, message, ...(data !== undefined && { data }) },
  }
}

/** Sends a notification on the stream of the call. */
export function note(call: Call, method: string, params: Json): void {
  if (!call.signal.aborted) call.channel.send({ jsonrpc: '2.0', method, params })
}

/** Reports progress, if the client asked for it. */
export function progress(call: Call, done: number, total: number): void {
  const progressToken = objectAt(call.params, '_meta')['progressToken']
  if (progressToken === undefined) return
  const message = call.world.traits.progressMessage ? { message: `step ${done} of ${total}` } : {}
  note(call, 'notifications/progress', { progressToken, progress: done, total, ...message })
}

const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency']

/** Whether a string is a log level. */
export function isLevel(level: unknown): level is string {
  return levels.some((known) => known === level)
}

/** Whether a message of this level passes a threshold. */
export function reaches(level: string, threshold: string): boolean {
  return levels.indexOf(level) >= levels.indexOf(threshold)
}

/** Waits, or fails when the call is cancelled. */
export function pause(call: Call, milliseconds: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(new Error('cancelled'))
    }
    const timer = setTimeout(() => {
      call.signal.removeEventListener('abort', stop)
      resolve()
    }, milliseconds)
    if (call.signal.aborted) stop()
    else call.signal.addEventListener('abort', stop, { once: true })
  })
}
