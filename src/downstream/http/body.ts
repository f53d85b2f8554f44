/**
 * Reads request bodies as UTF-8, up to a size limit, and bounds what arrives at the same time.
 *
 * Invariant: the bodies of one caller that are being read have at most `MAX_ARRIVING_BYTES` together, and so have those
 * of all senders that are not authenticated. A body that does not fit waits unread. Of those that wait, the newest is
 * next, and one that has been arriving for long is refused in its favor: senders that stall do not keep out the others.
 */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { GatewayError } from '../../core/error.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { type Collect, exposedCollect } from '../../core/collect.ts'
import { Registry } from '../../core/registry.ts'
import { type Timer, world } from '../../core/world.ts'

/** How long an oversized body is read and discarded before the error is sent, in milliseconds. */
const DRAIN_TIMEOUT_MS = 1000
/** How large the bodies of one caller are together while they arrive, in bytes. A single one may be larger. */
const MAX_ARRIVING_BYTES = 8 * 1024 * 1024
/** After which time a body that is still arriving makes way for one that waits, in milliseconds. */
const SLOW_MS = 2000
/** How many bodies of one caller wait. Some of the bytes of each are in memory already. */
const MAX_WAITING = 64
/** How many callers without a body are remembered: a map whose entries come and go is expensive to collect. */
const MAX_IDLE_CALLERS = 1000
/** How much of a body of unknown length is expected at first, in bytes. */
const UNKNOWN_BYTES = 64 * 1024
/** Which pieces are joined, in bytes. */
const SMALL_BYTES = 4096

/** Receives a body, or the error. */
interface Taker {
  onBody(text: string): void
  onError(error: unknown): void
}

/** The part of a request that its body is read from. */
type Incoming = Pick<IncomingMessage, 'headers' | 'on' | 'once' | 'off'>

interface Reading {
  /** The largest body, in bytes. */
  readonly limit: number
  /** Who sends it; absent before that is known. */
  readonly principal?: Pick<Principal, 'id'>
}

/** @throws UNSUPPORTED_MEDIA_TYPE */
function mustBeJson({ headers }: Pick<Incoming, 'headers'>): void {
  const type = headers['content-type'] ?? ''
  if (type === 'application/json' || isJsonInUtf8(type)) return
  const message = /charset/i.test(type) ? 'The body must be JSON in UTF-8.' : 'The body must be JSON.'
  const suggestion = 'Send Content-Type: application/json.'
  throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', message, { suggestion })
}

/** Whether a media type is JSON, with any parameters but another `charset`: JSON is always UTF-8 (RFC 8259 §8.1). */
function isJsonInUtf8(type: string): boolean {
  const [media = '', ...parameters] = type.split(';').map((part) => part.trim().toLowerCase())
  if (media !== 'application/json') return false
  return parameters.every((parameter) => !/^charset\b/.test(parameter) || UTF8.test(parameter))
}

const UTF8 = /^charset ?= ?(?:utf-?8|"utf-?8")$/

/** The bodies that arrive at a listener. */
export class Bodies {
  readonly #callers = new Map<string, ArrivingBodies>()
  readonly #arrivals: Pick<Arrivals, 'mayDiscard'>

  constructor(arrivals: Pick<Arrivals, 'mayDiscard'> = new Arrivals()) {
    this.#arrivals = arrivals
  }

  /**
   * Reads a body that is JSON. @throws UNSUPPORTED_MEDIA_TYPE; other errors are for the taker: PAYLOAD_TOO_LARGE,
   * PARSE_ERROR for other bytes than UTF-8, OVERLOADED, CANCELLED if the client disconnects
   */
  readJson(incoming: Incoming, reading: Reading, taker: Taker): void {
    mustBeJson(incoming)
    this.#read(incoming, reading, taker)
  }

  /** The same as a promise, for requests that are not on the hot path. */
  async json(incoming: Incoming, reading: Reading): Promise<string> {
    mustBeJson(incoming)
    return this.text(incoming, reading)
  }

  /** The same for a body of any media type. */
  text(incoming: Incoming, reading: Reading): Promise<string> {
    return new Promise((onBody, onError) => this.#read(incoming, reading, { onBody, onError }))
  }

  #read(incoming: Incoming, { limit, principal: { id } = anonymous }: Reading, taker: Taker): void {
    let arriving = this.#callers.get(id)
    if (!arriving) {
      arriving = new ArrivingBodies(() => {
        if (this.#callers.size > MAX_IDLE_CALLERS) this.#callers.delete(id)
      })
      this.#callers.set(id, arriving)
    }
    arriving.add(new Body(incoming, { limit, taker, among: arriving, arrivals: this.#arrivals }))
  }
}

/** The bodies of one caller, or of all senders that are not authenticated. */
class ArrivingBodies {
  /** Those that are being read, the oldest first. */
  readonly #read = new Registry<number, Body>()
  readonly #waiting: Body[] = []
  readonly #onIdle: () => void
  #lastKey = 0
  #bytes = 0
  #timer: Timer | undefined

  constructor(onIdle: () => void) {
    this.#onIdle = onIdle
  }

  add(body: Body): void {
    if (this.#fits(body.size)) return this.#begin(body)
    body.wait()
    this.#waiting.push(body)
    if (this.#waiting.length > MAX_WAITING) this.#waiting.shift()?.fail(overloaded())
    this.#admit()
  }

  /** A single body may be larger than the bound. */
  #fits(size: number): boolean {
    return this.#read.size === 0 || this.#bytes + size <= MAX_ARRIVING_BYTES
  }

  /** Whether a body that is being read may have so many more bytes. */
  mayGrow(body: Body, by: number): boolean {
    const isOver = (): boolean => this.#read.size > 1 && this.#bytes + by > MAX_ARRIVING_BYTES
    for (const oldest of isOver() ? this.#read.values() : []) {
      if (!isOver() || oldest === body || world.monotonic() - oldest.since < SLOW_MS) break
      oldest.fail(overloaded())
    }
    if (isOver()) return false
    this.#bytes += by
    return true
  }

  #begin(body: Body): void {
    this.#bytes += body.size
    body.key = ++this.#lastKey
    body.since = world.monotonic()
    this.#read.set(body.key, body)
    body.read()
  }

  settled(body: Body): void {
    if (this.#read.delete(body.key)) this.#bytes -= body.size
    else if (this.#waiting.includes(body)) this.#waiting.splice(this.#waiting.indexOf(body), 1)
    if (this.#waiting.length > 0) this.#admit()
    else if (this.#read.size === 0) this.#onIdle()
  }

  /** Begins to read those that wait, as far as they fit. */
  #admit(): void {
    for (let next = this.#waiting.at(-1); next; next = this.#waiting.at(-1)) {
      const [oldest] = this.#read.values()
      const left = oldest ? oldest.since + SLOW_MS - world.monotonic() : 0
      if (!this.#fits(next.size) && oldest && left > 0) return this.#admitIn(left)
      if (this.#fits(next.size)) {
        this.#waiting.pop()
        this.#begin(next)
      } else oldest?.fail(overloaded())
    }
  }

  #admitIn(ms: number): void {
    if (this.#timer) return
    this.#timer = world
      .setTimeout(() => {
        this.#timer = undefined
        this.#admit()
      }, Math.ceil(ms))
      .unref()
  }
}

interface Surroundings {
  /** The largest body, in bytes. */
  readonly limit: number
  readonly taker: Taker
  /** The other bodies of its caller. */
  readonly among: ArrivingBodies
  /** Whether what is not wanted of it may be read before its client gets the error. */
  readonly arrivals: Pick<Arrivals, 'mayDiscard'>
}

/** One body. It is settled once: when it ends, fails, or is too large to be kept. */
class Body {
  readonly #incoming: Incoming
  readonly #around: Surroundings
  readonly #isDeclaredTooLarge: boolean
  /** How many bytes are reserved for it. */
  size: number
  /** Its place among the bodies that are being read, and since when it is, in milliseconds. */
  key = -1
  since = 0
  #pieces: Buffer[] = []
  /** Where small pieces are joined: each by itself would take more memory than its bytes. */
  #small: Buffer = empty
  /** How much of it is used. */
  #used = 0
  #length = 0
  #isSettled = false
  #isTaken = false
  #onClose: (() => void) | undefined

  constructor(incoming: Incoming, around: Surroundings) {
    const { limit } = around
    this.#incoming = incoming
    this.#around = around
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = incoming.headers
    const declared = encoding === undefined ? Number(length) : Math.min(limit, UNKNOWN_BYTES)
    this.#isDeclaredTooLarge = declared > limit
    this.size = this.#isDeclaredTooLarge ? 0 : declared
  }

  /** Watches whether the client disconnects while the body waits: then nothing else says so. */
  wait(): void {
    this.#onClose = () => this.fail(disconnected())
    this.#incoming.once('close', this.#onClose)
  }

  read(): void {
    const incoming = this.#incoming
    this.#watchNoMore()
    if (this.#isDeclaredTooLarge) this.#overflow()
    incoming.on('data', (chunk: Buffer) => this.#add(chunk))
    incoming.on('end', () => this.#end())
    incoming.on('error', () => this.fail(disconnected()))
  }

  /** Ends it with an error; what else arrives is discarded. */
  fail(error: GatewayError): void {
    this.#settle()
    if (this.#isTaken) return
    this.#isTaken = true
    this.#around.taker.onError(error)
  }

  #add(chunk: Buffer): void {
    if (this.#isSettled) return
    this.#length += chunk.length
    if (this.#length > this.#around.limit) return this.#overflow()
    if (this.#length > this.size && !this.#grow()) return this.fail(overloaded())
    if (this.#pieces.length > 0 && chunk.length < SMALL_BYTES) return this.#addSmall(chunk)
    this.#flush()
    this.#pieces.push(chunk)
  }

  #grow(): boolean {
    const by = Math.min(this.#around.limit, this.#length * 2) - this.size
    if (!this.#around.among.mayGrow(this, by)) return false
    this.size += by
    return true
  }

  #addSmall(chunk: Buffer): void {
    if (this.#small.length - this.#used < chunk.length) {
      this.#flush()
      this.#small = Buffer.allocUnsafeSlow(Math.min(SMALL_BYTES, this.size))
    }
    this.#used += chunk.copy(this.#small, this.#used)
  }

  #flush(): void {
    if (this.#used > 0) this.#pieces.push(this.#small.subarray(0, this.#used))
    this.#small = this.#small.subarray(this.#used)
    this.#used = 0
  }

  #end(): void {
    if (this.#isTaken) return
    if (this.#isSettled) return this.fail(this.#tooLarge())
    this.#flush()
    const [first = empty, ...others] = this.#pieces
    const bytes = others.length === 0 ? first : Buffer.concat(this.#pieces)
    // Lenient decoding would forward other text than was sent.
    const text = isUtf8(bytes) ? bytes.toString('utf8') : undefined
    if (text === undefined)
      return this.fail(new GatewayError('PARSE_ERROR', 'Parse error: the body is not valid UTF-8.'))
    this.#settle()
    this.#isTaken = true
    this.#around.taker.onBody(text)
  }

  #overflow(): void {
    this.#settle()
    // A client that is disconnected while it sends may never read the error.
    const wait = this.#around.arrivals.mayDiscard(this.#incoming) ? DRAIN_TIMEOUT_MS : 0
    world.setTimeout(() => this.fail(this.#tooLarge()), wait).unref()
  }

  #settle(): void {
    if (this.#isSettled) return
    this.#isSettled = true
    this.#pieces = []
    this.#small = empty
    this.#used = 0
    this.#watchNoMore()
    this.#around.among.settled(this)
  }

  #watchNoMore(): void {
    if (this.#onClose) this.#incoming.off('close', this.#onClose)
    this.#onClose = undefined
  }

  #tooLarge(): GatewayError {
    const { limit } = this.#around
    return new GatewayError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`, {
      details: { limit },
    })
  }
}

const empty = Buffer.alloc(0)

function disconnected(): GatewayError {
  return new GatewayError('CANCELLED', 'The client disconnected.')
}

function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'The bodies of too many requests are arriving at the same time.', {
    retryAfterSeconds: 1,
    suggestion: 'Send the request again, and its body without pauses.',
  })
}

/*
 * How long the bodies of requests may take to arrive, and how many that are not read any more. Node has one limit for all
 * requests of a server, and files take longer than others, so each request has its own.
 */

/** How long a body may take, in milliseconds. */
const ARRIVAL_TIMEOUT_MS = 30_000
/** How often in that time it is checked. */
const SWEEPS = 20
/** Of how many refused requests the rest of the body is discarded at the same time: a client may read no response before it has sent all. */
const MAX_DISCARDED = 16
/** After how many bytes on closed connections their buffers are collected. */
const COLLECTED_BYTES = 8 * 1024 * 1024

/** The request of a connection whose body arrives; the last one, since there is one at a time. */
interface Arriving {
  incoming: IncomingMessage | undefined
  outgoing: ServerResponse | undefined
  /** In milliseconds. */
  since: number
}

/**
 * The requests whose bodies have not arrived. There is a record for each connection, and one timer: what is kept for each
 * request would cost every call.
 */
export class Arrivals {
  readonly #timeoutMs: number
  readonly #arriving = new Map<Socket, Arriving>()
  #timer: Timer | undefined
  readonly #discarded = new Set<object>()
  /** How many bytes came on connections that were closed since the last collection. */
  #uncollected = 0
  #collect: Collect | undefined

  constructor(timeoutMs = ARRIVAL_TIMEOUT_MS) {
    this.#timeoutMs = timeoutMs
  }

  /** Ends the connection of a request if its body takes too long. */
  limit(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = incoming.headers
    if (length === '0' && encoding === undefined) return
    const arriving = this.#of(incoming.socket)
    arriving.incoming = incoming
    arriving.outgoing = outgoing
    arriving.since = world.monotonic()
    // Node reads on, to use the connection again: what it discards takes memory until the next collection.
    outgoing.once('finish', () => {
      if (!incoming.complete && !this.mayDiscard(incoming)) this.#close(incoming)
    })
  }

  #of(socket: Socket): Arriving {
    const known = this.#arriving.get(socket)
    if (known) return known
    const arriving: Arriving = { incoming: undefined, outgoing: undefined, since: 0 }
    this.#arriving.set(socket, arriving)
    this.#timer ??= world.setInterval(() => this.#endSlow(), this.#timeoutMs / SWEEPS).unref()
    socket.once('close', () => {
      this.#arriving.delete(socket)
      if (this.#arriving.size > 0) return
      world.clearInterval(this.#timer)
      this.#timer = undefined
    })
    return arriving
  }

  #endSlow(): void {
    const before = world.monotonic() - this.#timeoutMs
    for (const { incoming, outgoing, since } of this.#arriving.values())
      if (incoming && outgoing && since < before) end(incoming, outgoing)
  }

  #close({ socket }: IncomingMessage): void {
    this.#uncollected += socket.bytesRead
    socket.destroy()
    if (this.#uncollected < COLLECTED_BYTES) return
    this.#uncollected = 0
    this.#collect ??= exposedCollect()
    this.#collect()
  }

  /** Whether the rest of a body may be read although it is not wanted. If not, its connection has to be closed. */
  mayDiscard(incoming: Pick<IncomingMessage, 'once'>): boolean {
    if (this.#discarded.has(incoming)) return true
    if (this.#discarded.size >= MAX_DISCARDED) return false
    this.#discarded.add(incoming)
    incoming.once('close', () => this.#discarded.delete(incoming))
    return true
  }

  /** Gives a request all the time that the server gives to any. */
  exempt(incoming: IncomingMessage): void {
    const arriving = this.#arriving.get(incoming.socket)
    if (arriving?.incoming === incoming) arriving.incoming = undefined
  }
}

/** As Node does it. */
function end({ complete: isComplete, socket }: IncomingMessage, { headersSent }: ServerResponse): void {
  if (isComplete) return
  if (!headersSent && socket.writable)
    socket.write('HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n')
  socket.destroy()
}
