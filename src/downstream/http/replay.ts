/** Keeps the events of a session's streams, within bounds, for clients that resume with `Last-Event-ID`. */
import { encodeEvent } from '../../protocol/sse.ts'

/** Where a stream's bytes go while a client is there. */
export interface StreamSink {
  /** Writes; tells whether the client was still there. */
  write(text: string): boolean
  hangUp(): void
}

interface Kept {
  readonly sequence: number
  readonly message: string
}

/** How much of all streams of one session is kept, in characters and in streams. */
const MAX_SIZE = 4 * 1024 * 1024
const MAX_STREAMS = 200

/** The streams of one session, kept so that a client that lost one can take it up (`Last-Event-ID`). */
export class Replay {
  readonly #streams = new Map<string, RecordedStream>()
  /** What the session says outside any request. */
  readonly general: RecordedStream
  #lastStream = 0

  constructor() {
    this.general = this.#create('0')
  }

  /** A new stream, for one request. */
  record(): RecordedStream {
    return this.#create(`${++this.#lastStream}`)
  }

  /** The stream an event id is of, with what came after it; nothing where it is not kept any more. */
  find(eventId: string): { stream: RecordedStream; after: number } | undefined {
    const [, name, sequence] = /^(\d+)-(\d+)$/.exec(eventId) ?? []
    const stream = name === undefined ? undefined : this.#streams.get(name)
    return stream && { stream, after: Number(sequence) }
  }

  close(): void {
    for (const stream of this.#streams.values()) stream.hangUp()
    this.#streams.clear()
  }

  #create(name: string): RecordedStream {
    const stream = new RecordedStream(name, () => this.#trim())
    this.#streams.set(name, stream)
    return stream
  }

  /** Forgets the oldest first: whole finished streams, then events. */
  #trim(): void {
    let size = 0
    for (const stream of this.#streams.values()) size += stream.size
    for (const [name, stream] of this.#streams) {
      if (size <= MAX_SIZE && this.#streams.size <= MAX_STREAMS) return
      if (!stream.isFinished) continue
      size -= stream.size
      this.#streams.delete(name)
    }
    for (const stream of this.#streams.values()) {
      while (size > MAX_SIZE && stream.size > 0) size -= stream.forget()
    }
  }
}

/** One stream of events, with the client that reads it, if there is one. */
export class RecordedStream {
  readonly #name: string
  readonly #onGrow: () => void
  #kept: Kept[] = []
  #sequence = 0
  #size = 0
  #outlet: StreamSink | undefined
  #isFinished = false
  #delivered = 0

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
    const kept = { sequence: ++this.#sequence, message }
    this.#kept.push(kept)
    this.#size += message.length
    if (this.#outlet) this.#deliver(this.#outlet, kept)
    this.#onGrow()
  }

  /** Sends to this client from here on, instead of any before it. */
  attach(outlet: StreamSink): void {
    if (this.#outlet && this.#outlet !== outlet) this.#outlet.hangUp()
    this.#outlet = outlet
  }

  /** Sends what came after an event, or what is unread, and continues from there. */
  resume(outlet: StreamSink, after = this.#delivered): void {
    this.attach(outlet)
    for (const kept of this.#kept) if (kept.sequence > after) this.#deliver(outlet, kept)
    if (this.#isFinished) this.hangUp()
  }

  detach(outlet: StreamSink): void {
    if (this.#outlet === outlet) this.#outlet = undefined
  }

  /** There is nothing more to come. */
  finish(): void {
    this.#isFinished = true
    if (this.#outlet) this.hangUp()
  }

  hangUp(): void {
    this.#outlet?.hangUp()
    this.#outlet = undefined
  }

  /** Forgets the oldest event; tells how large it was. */
  forget(): number {
    const size = this.#kept.shift()?.message.length ?? 0
    this.#size -= size
    return size
  }

  #deliver(outlet: StreamSink, { sequence, message }: Kept): void {
    if (outlet.write(encodeEvent(message, `${this.#name}-${sequence}`))) this.#delivered = sequence
    else this.detach(outlet)
  }
}
