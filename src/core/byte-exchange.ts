/** Requests over HTTP whose body or response is bytes of any size. */
import { Slot } from './slot.ts'

/** The HTTP request behind a call whose request or response is bytes, and the way to answer it. */
export interface ByteExchange {
  readonly verb: 'GET' | 'HEAD' | 'POST' | 'PUT'
  /** The last segment of the path where the route names it, decoded; otherwise empty. */
  readonly name: string
  /** May contain credentials. */
  readonly query: URLSearchParams
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The body while it arrives, to be read once. Fails with CANCELLED if the client disconnects, or sends nothing for long. */
  readonly body: AsyncIterable<Uint8Array>
  /** Whether the request cannot come from a page of another origin. */
  readonly isFromHere: boolean
  /**
   * The caller whom the person of the request may act for: signed in to the pages, or with a password. Undefined where people
   * cannot be identified. @throws what authentication throws
   */
  person(): Promise<string | undefined>
  /** The link to sign in to the pages and return here; undefined where that is not configured. */
  readonly signInLink: string | undefined
  /** Sends the response, once. Resolves when all of it is written. @throws CANCELLED if the client disconnects */
  send(response: ByteResponse): Promise<void>
}

/** A response over HTTP. The body of a response to HEAD is not sent. */
export interface ByteResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | AsyncIterable<Uint8Array>
}

/** Set on calls of a route for bytes; their handler answers by it, and the outcome is only for logs. */
export const byteExchangeSlot = new Slot<ByteExchange>('byte exchange')
