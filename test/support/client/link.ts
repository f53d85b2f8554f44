import type { HeaderMap } from '../server/journal.ts'
import type { Id, Json } from '../server/json.ts'

/** On which stream a message came: that of a call, one for unsolicited messages, or one for everything. */
export type Origin =
  | { readonly kind: 'call'; readonly id: Id }
  | { readonly kind: 'side' }
  | { readonly kind: 'shared' }

/** What a link tells the client. */
export interface LinkEvents {
  message(text: string, origin: Origin): void
  /** The head of the HTTP answer to a call. */
  head(id: Id, status: number, headers: HeaderMap): void
  /** Whether a call still waits for its reply. */
  waits(id: Id): boolean
  /** The stream of a call is over, or the connection of all calls when there is no id. */
  ended(id: Id | undefined, reason: Error): void
  /** An HTTP answer to a call that is no JSON. */
  body(id: Id, text: string): void
  violation(text: string): void
}

/** A client's way to a server. */
export interface Link {
  /** Sends a request; what comes of it is told. */
  call(id: Id, message: Json, headers: HeaderMap): void
  /** Sends a notification or an answer. */
  send(message: Json): Promise<void>
  /** Sends any text as if it were a message. */
  write(text: string): Promise<void>
  /** Breaks the stream of one call. */
  drop(id: Id): void
  /** Opens the stream for unsolicited messages, or takes one up after an event. */
  listen(lastEventId?: string): Promise<void>
  /** Breaks every stream; gives the id of the last event of a call's stream, or else of any. */
  dropAll(): string | undefined
  /** How many streams are open. */
  readonly openStreams: number
  close(): Promise<void>
}
