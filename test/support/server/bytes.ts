import { setImmediate } from 'node:timers/promises'
import { type ServerOptions, sseLineEnd } from './options.ts'

/** What bytes are written to: a socket, a response, a pipe. */
export interface Sink {
  write(bytes: Buffer): unknown
  end?(): unknown
}

/** Writes in order, a few bytes at a time when told to. */
export class ByteWriter {
  readonly #sink: Sink
  readonly #chunk: number | undefined
  #written: Promise<void> = Promise.resolve()

  constructor(sink: Sink, chunk?: number) {
    this.#sink = sink
    this.#chunk = chunk
  }

  write(text: string): void {
    const bytes = Buffer.from(text)
    if (this.#chunk === undefined) this.#sink.write(bytes)
    else this.#queue(() => this.#slices(bytes, this.#chunk ?? bytes.length))
  }

  end(): void {
    if (this.#chunk === undefined) this.#sink.end?.()
    else this.#queue(async () => void this.#sink.end?.())
  }

  /** Runs a step after everything before it was written. */
  #queue(step: () => Promise<void>): void {
    this.#written = this.#written.then(step)
  }

  async #slices(bytes: Buffer, size: number): Promise<void> {
    for (let at = 0; at < bytes.length; at += size) {
      this.#sink.write(bytes.subarray(at, at + size))
      await setImmediate()
    }
  }
}

/** One event of an event stream, in the shape the options ask for. */
export function sseEvent(
  options: ServerOptions,
  data: string,
  fields: { id?: string; event?: string; retry?: number },
): string {
  const lines = [
    ...(fields.event === undefined ? [] : [`event: ${fields.event}`]),
    ...(fields.id === undefined ? [] : [`id: ${fields.id}`]),
    ...(fields.retry === undefined ? [] : [`retry: ${fields.retry}`]),
    ...dataLines(options, data).map((line) => `data: ${line}`),
  ]
  const end = sseLineEnd(options)
  return `${lines.join(end)}${end}${end}`
}

/** JSON may have a line end after its first and before its last character. */
function dataLines(options: ServerOptions, data: string): string[] {
  if (!options.multilineData || data.length < 2) return [data]
  return [data.slice(0, 1), data.slice(1, -1), data.slice(-1)]
}
