/** Splits byte streams into lines of bounded length; chunks may split characters and line ends anywhere. */
import { isUtf8 } from 'node:buffer'
import { withoutMark } from './content-coding.ts'

/** Receives a line; `isSound` is false if its bytes were invalid UTF-8 and were replaced by U+FFFD. */
type Take = (line: string, isSound: boolean) => void

/** Called with the length of a line that exceeds the limit. */
type Overflow = (bytes: number) => void

const CARRIAGE_RETURN = 13

/**
 * Splits a byte stream into lines at 0x0A only, however it is cut into chunks; a trailing CR is dropped, and so is the byte
 * order mark that some programs begin with. A line over `limit` bytes is skipped and reported.
 */
export function lines(limit: number, onLine: Take, onOverflow: Overflow): (chunk: Buffer) => void {
  const parts = new Chunks()
  let size = 0
  let isFirst = true

  const add = (bytes: Buffer): void => {
    size += bytes.length
    if (size <= limit) parts.add(bytes)
    else parts.clear()
  }

  const finish = (): void => {
    if (size > limit) onOverflow(size)
    else take(isFirst ? withoutMark(parts.take()) : parts.take(), onLine)
    isFirst = false
    size = 0
  }

  return (chunk) => {
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      add(chunk.subarray(from, end))
      finish()
      from = end + 1
    }
    if (from < chunk.length) add(chunk.subarray(from))
  }
}

/** Decoded as a whole: a chunk may split a character, but a line does not. */
function take(bytes: Buffer, onLine: Take): void {
  const end = bytes.at(-1) === CARRIAGE_RETURN ? bytes.length - 1 : bytes.length
  if (end > 0) onLine(bytes.toString('utf8', 0, end), isUtf8(bytes))
}

/** A message as one line. JSON text contains no raw newlines unless it was pretty-printed. */
export function encodeLine(message: string): string {
  return `${singleLine(message)}\n`
}

/**
 * JSON text without line breaks. Raw U+2028 and U+2029 are legal JSON, but some readers split lines there, so they are
 * escaped.
 */
export function singleLine(message: string): string {
  if (!breaks.test(message)) return message
  return message
    .replaceAll(/[\r\n]/g, ' ')
    .replaceAll('\u2028', '\\u2028')
    .replaceAll('\u2029', '\\u2029')
}

const breaks = /[\r\n\u2028\u2029]/

/** The number of pieces kept separately before they are joined. */
const MAX_PIECES = 1024

/** Collects bytes that arrive in pieces. However small the pieces are, the overhead is bounded. */
export class Chunks {
  #pieces: Buffer[] = []
  #unjoined = 0
  #size = 0

  /** The number of bytes. */
  get size(): number {
    return this.#size
  }

  add(piece: Buffer): void {
    this.#size += piece.length
    this.#pieces.push(piece)
    if (++this.#unjoined < MAX_PIECES) return
    this.#pieces.push(Buffer.concat(this.#pieces.splice(-MAX_PIECES)))
    this.#unjoined = 0
  }

  /** Removes and returns all bytes as one buffer. */
  take(): Buffer {
    const [first, ...others] = this.#pieces
    const bytesOfLine = first && others.length === 0 ? first : Buffer.concat(this.#pieces)
    this.clear()
    return bytesOfLine
  }

  clear(): void {
    this.#pieces = []
    this.#unjoined = 0
    this.#size = 0
  }
}
