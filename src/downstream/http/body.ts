/** Reads request bodies as UTF-8, up to a size limit. */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../../core/error.ts'
import { Chunks } from '../../protocol/lines.ts'

/** How long an oversized body is read and discarded before the error is sent, in milliseconds. */
const DRAIN_TIMEOUT_MS = 1000

/** Receives a body, or the error. */
interface Taker {
  onBody(text: string): void
  onError(error: unknown): void
}

/** Reads a request's body as UTF-8; fails with PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE or PARSE_ERROR. */
export function readBody(incoming: IncomingMessage, limit: number, taker: Taker): void {
  const type = incoming.headers['content-type'] ?? ''
  if (type !== 'application/json' && !isJsonInUtf8(type)) {
    const message = /charset/i.test(type) ? 'The body must be JSON in UTF-8.' : 'The body must be JSON.'
    const suggestion = 'Send Content-Type: application/json.'
    taker.onError(new GatewayError('UNSUPPORTED_MEDIA_TYPE', message, { suggestion }))
    return
  }
  const body = new Body(limit, taker)
  if (Number(incoming.headers['content-length'] ?? 0) > limit) body.overflow()
  incoming.on('data', (chunk: Buffer) => body.add(chunk))
  incoming.on('end', () => body.end())
  incoming.on('error', () => taker.onError(new GatewayError('CANCELLED', 'The client disconnected.')))
}

/** The same as a promise, for requests that are not on the hot path. */
export function wholeBody(incoming: IncomingMessage, limit: number): Promise<string> {
  return new Promise((onBody, onError) => readBody(incoming, limit, { onBody, onError }))
}

/** Whether a media type is JSON, with any parameters but another `charset`: JSON is always UTF-8 (RFC 8259 §8.1). */
function isJsonInUtf8(type: string): boolean {
  const [media = '', ...parameters] = type.split(';').map((part) => part.trim().toLowerCase())
  if (media !== 'application/json') return false
  return parameters.every((parameter) => !/^charset\b/.test(parameter) || UTF8.test(parameter))
}

const UTF8 = /^charset ?= ?(?:utf-?8|"utf-?8")$/

class Body {
  readonly #limit: number
  readonly #taker: Taker
  #first: Buffer | undefined
  #more: Chunks | undefined
  #isTooLarge = false
  #isRefused = false

  constructor(limit: number, taker: Taker) {
    this.#limit = limit
    this.#taker = taker
  }

  overflow(): void {
    this.#isTooLarge = true
    this.#first = this.#more = undefined
    // A client that is disconnected while it sends may never read the error.
    setTimeout(() => this.#refuse(), DRAIN_TIMEOUT_MS).unref()
  }

  add(chunk: Buffer): void {
    if (this.#isTooLarge) return
    if (this.#first === undefined) this.#first = chunk
    else {
      this.#more ??= new Chunks()
      this.#more.add(chunk)
    }
    if (this.#first.length + (this.#more?.size ?? 0) > this.#limit) this.overflow()
  }

  end(): void {
    if (this.#isTooLarge) return this.#refuse()
    const first = this.#first ?? empty
    const bytes = this.#more ? Buffer.concat([first, this.#more.take()]) : first
    // Lenient decoding would forward other text than was sent.
    if (isUtf8(bytes)) return this.#taker.onBody(bytes.toString('utf8'))
    this.#taker.onError(new GatewayError('PARSE_ERROR', 'Parse error: the body is not valid UTF-8.'))
  }

  #refuse(): void {
    if (this.#isRefused) return
    this.#isRefused = true
    this.#taker.onError(
      new GatewayError('PAYLOAD_TOO_LARGE', `The body is larger than ${this.#limit} bytes.`, {
        details: { limit: this.#limit },
      }),
    )
  }
}

const empty = Buffer.alloc(0)
