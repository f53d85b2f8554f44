/** Buffers the events of a session's streams, within limits, for clients that resume with `Last-Event-ID`. */
import { encodeEvent } from '../../protocol/sse.ts'

/** The connection of a stream's client. */
export interface StreamSink {
  /** Writes text; returns whether the client was still connected. */
  write(text: string): boolean
  hangUp(): void
  /** Whether the connection has ended. */
  readonly isGone: boolean
  /** Resolves once the client has read what was written here, or is gone. */
  flushed(): Promise<void>
}

interface BufferedEvent {
  readonly sequence: number
  readonly message: string
}

/** The limits of the buffer of one session, in characters and in streams. */
const MAX_SIZE = 4 * 1024 * 1024
const MAX_STREAMS = 200
/** How much a stream holds for a client that is away before the rest has to wait, in characters. */
const MAX_UNDELIVERED_SIZE = 1024 * 1024

/** What the buffers of all sessions may take together, in characters. */
interface SharedRoom {
  /** Whether there is room for so many more. */
  fits(by: number): boolean
  change(by: number): void
}

const unlimited: SharedRoom = { fits: () => true, change: () => undefined }

/** The streams of one session, buffered so that a client can resume them (`Last-Event-ID`). */
export class Replay {
  readonly #streams = new Map<string, RecordedStream>()
  /** The stream for messages outside of any request. */
  readonly general: RecordedStream
  readonly #room: SharedRoom
  #lastStream = 0
  /** What is counted in the shared room. */
  #counted = 0

  constructor(room = unlimited) {
    this.#room = room
    this.general = this.#create('0')
  }

  /** Creates a stream for one request. */
  record(): RecordedStream {
    return this.#create(`${++this.#lastStream}`)
  }

  /** The stream of an event id, and the position after it; undefined if it is no longer buffered. */
  find(eventId: string): { stream: RecordedStream; after: number } | undefined {
    const [, name, sequence] = /^(\d+)-(\d+)$/.exec(eventId) ?? []
    const stream = name === undefined ? undefined : this.#streams.get(name)
    return stream && { stream, after: Number(sequence) }
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.hangUp()
    this.#streams.clear()
    this.#count(0)
  }

  #create(name: string): RecordedStream {
    const stream = new RecordedStream(name, () => this.#trim())
    this.#streams.set(name, stream)
    return stream
  }

  /** Evicts the oldest first: whole finished streams, then events. */
  #trim(): void {
    let size = 0
    for (const stream of this.#streams.values()) size += stream.size
    const maxSize = this.#room.fits(size - this.#counted) ? MAX_SIZE : Math.min(MAX_SIZE, this.#counted)
    for (const [name, stream] of this.#streams) {
      if (size <= maxSize && this.#streams.size <= MAX_STREAMS) break
      if (!stream.isFinished) continue
      size -= stream.size
      this.#streams.delete(name)
    }
    for (const stream of this.#streams.values()) {
      while (size > maxSize && stream.size > 0) size -= stream.forget()
    }
    this.#count(size)
  }

  #count(size: number): void {
    if (size !== this.#counted) this.#room.change(size - this.#counted)
    this.#counted = size
  }
}

/** One stream of events, with the connection that reads it, if any. */
export class RecordedStream {
  readonly #name: string
  readonly #onGrow: () => void
  #buffered: BufferedEvent[] = []
  #sequence = 0
  #size = 0
  #outlet: StreamSink | undefined
  #isFinished = false
  #delivered = 0
  /** Resolved when a client attaches, or the stream is finished. */
  #change: PromiseWithResolvers<void> | undefined

  constructor(name: string, onGrow: () => void) {
    this.#name = name
    this.#onGrow = onGrow
  }

  get size(): number {
    return this.#size
  }

  get isFinished(): boolean {
    return this.#isFinished
  }

  get hasOutlet(): boolean {
    return this.#outlet !== undefined
  }

  /** The id of the latest event. */
  get lastId(): string {
    return `${this.#name}-${this.#sequence}`
  }

  add(message: string): void {
    const event = { sequence: ++this.#sequence, message }
    this.#buffered.push(event)
    this.#size += message.length
    if (this.#outlet) this.#deliver(this.#outlet, event)
    this.#onGrow()
  }

  /** Replaces the connection. */
  attach(outlet: StreamSink): void {
    if (this.#outlet && this.#outlet !== outlet) this.#outlet.hangUp()
    this.#outlet = outlet
    this.#wake()
  }

  /** Resolves once the client has read the events, or those that wait for it are few enough to be kept. */
  async drained(): Promise<void> {
    while (!this.#isFinished) {
      const outlet = this.#outlet
      if (outlet) {
        await outlet.flushed()
        if (!outlet.isGone) return
        this.detach(outlet)
      } else if (this.#undelivered() <= MAX_UNDELIVERED_SIZE) return
      else await (this.#change ??= Promise.withResolvers<void>()).promise
    }
  }

  /** Sends the events after an event, or all undelivered ones, and continues from there. */
  resume(outlet: StreamSink, after = this.#delivered): void {
    this.attach(outlet)
    for (const event of this.#buffered) if (event.sequence > after) this.#deliver(outlet, event)
    if (this.#isFinished) this.hangUp()
  }

  detach(outlet: StreamSink): void {
    if (this.#outlet === outlet) this.#outlet = undefined
  }

  /** Ends the stream. */
  finish(): void {
    this.#isFinished = true
    this.#wake()
    if (this.#outlet) this.hangUp()
  }

  hangUp(): void {
    this.#outlet?.hangUp()
    this.#outlet = undefined
  }

  /** Evicts the oldest event; returns its size. */
  forget(): number {
    const size = this.#buffered.shift()?.message.length ?? 0
    this.#size -= size
    return size
  }

  #undelivered(): number {
    let size = 0
    for (const { sequence, message } of this.#buffered) if (sequence > this.#delivered) size += message.length
    return size
  }

  #wake(): void {
    this.#change?.resolve()
    this.#change = undefined
  }

  #deliver(outlet: StreamSink, { sequence, message }: BufferedEvent): void {
    if (outlet.write(encodeEvent(message, `${this.#name}-${sequence}`))) this.#delivered = sequence
    else this.detach(outlet)
  }
}
