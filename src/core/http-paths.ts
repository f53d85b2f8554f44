/** What features serve over HTTP beside MCP: pages, calls, bytes of any size, and webhooks. */
import type { Principal } from './principal.ts'
import { Slot } from './slot.ts'

/** A page at a path, read with GET. */
export interface DocumentPath {
  /** `*` is the name of a server; without it, the page is for all servers, or for the one in `?upstream=`. */
  readonly path: string
  /** Whether it can be read without authentication. */
  isOpen?(): boolean
  /** Whether readers can have it as a page for people or as JSON: the param `format` is `html` or `json`. */
  readonly isNegotiated?: true
}

/**
 * A path whose requests are calls, at the address of all servers or of the one in `?upstream=`: the members of a JSON body,
 * or of the query, are the params.
 */
export interface RoutePath {
  readonly verb: 'GET' | 'POST'
  /** Its last segment can be `:name`, a member of the params. */
  readonly path: string
  /**
   * Whether the response is an event stream, which stays open after the result. The `Last-Event-ID` of a client that
   * resumes it is the param `after`.
   */
  readonly isStream?: true
}

/** A path whose requests or responses are bytes of any size. */
export interface BytePath {
  /** GET includes HEAD. */
  readonly verb: 'GET' | 'POST' | 'PUT'
  /** Its last segment can be `:name`. */
  readonly path: string
  /**
   * The caller that the URL itself names, if it is a credential; undefined if callers authenticate as for calls over MCP.
   * @throws if it is a credential that is not valid
   */
  bearer?(url: Pick<ByteExchange, 'name' | 'query'>): Promise<Principal | undefined>
}

/** How the content of a page for people, HTML, is framed: as all pages of the gateway are. */
export interface PageFrame {
  readonly title: string
  /** The class of its content, which the style sheet of the pages knows. */
  readonly kind?: string
  readonly width?: 'narrow' | 'normal' | 'wide'
}

/** The JSON object that answers a webhook, if its sender expects one. */
export type HookAnswer = Readonly<Record<string, unknown>> | undefined

/** A webhook whose body has not been read; the names of its headers are in lower case. */
export interface ArrivingHook {
  /** The server that it belongs to, if it belongs to one. */
  readonly server?: string
  readonly name: string
  /** Set for the events that the server has itself: then the name is that of the gateway's subscription. */
  readonly isOfServer?: true
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /**
   * Reads the body, as it was sent. It takes memory and time that belong to others, so whatever can be refused by the name
   * or the headers is refused before. @throws if it does not arrive, is too large, or is not UTF-8
   */
  body(): Promise<string>
}

/** Verifies and stores a webhook; resolves with an answer for its sender. @throws GatewayError if it is refused */
export type ReceiveHook = (hook: ArrivingHook) => Promise<HookAnswer>

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
  /** Sends a page for people in the same way. Its content is HTML. */
  sendPage(status: number, content: string, frame: PageFrame): Promise<void>
}

/** A response over HTTP. The body of a response to HEAD is not sent. */
export interface ByteResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | AsyncIterable<Uint8Array>
}

/** Set on calls of a route for bytes; their handler answers by it, and the outcome is only for logs. */
export const byteExchangeSlot = new Slot<ByteExchange>('byte exchange')
