/**
 * Takes long strings out of JSON messages while they arrive. Messages are lines, so that short ones pass as they are:
 * a line is looked into once it is as long as a string that is kept. Raw line ends never occur within a JSON string.
 */
import type { Spool, SpooledMessage, SpooledString } from '../core/spool.ts'
import { Chunks } from './lines.ts'

const NEWLINE = 10
const CARRIAGE_RETURN = 13
const QUOTE = 34
const BACKSLASH = 92

interface SpooledSource {
  /** Where long strings of the line that arrives now are kept, if they are; asked once for each long line. */
  spool(): Spool | undefined
  /** Receives the bytes, with placeholders for the strings that are kept. */
  pass(bytes: Buffer): void
  /** Stops and continues the source of the bytes. */
  pause(): void
  resume(): void
}

/** Passes bytes on without their long strings. */
export class SpoolingReader {
  readonly #source: SpooledSource
  /** The beginning of a line that may become long. */
  readonly #held = new Chunks()
  /** Set while a long line arrives. */
  #line: LongLine | undefined
  /** Set while a long line arrives whose strings stay in it. */
  #isPlain = false

  constructor(source: SpooledSource) {
    this.#source = source
  }

  write(chunk: Buffer): void {
    if (!this.#line && !this.#isPlain) return this.#short(chunk)
    const end = endOfLine(chunk)
    this.#long(end === -1 ? chunk : chunk.subarray(0, end))
    if (end === -1) return
    this.#endOfLine()
    this.#short(chunk.subarray(end))
  }

  /** Passes the rest on: no more bytes arrive. */
  end(): void {
    this.#endOfLine()
    this.#passHeld()
  }

  /** The source failed. */
  abort(): void {
    this.#line?.abort()
    this.#line = undefined
  }

  #short(chunk: Buffer): void {
    const complete = Math.max(chunk.lastIndexOf(NEWLINE), chunk.lastIndexOf(CARRIAGE_RETURN)) + 1
    if (complete > 0) {
      this.#passHeld()
      this.#source.pass(chunk.subarray(0, complete))
    }
    if (complete === chunk.length) return
    this.#held.add(chunk.subarray(complete))
    if (this.#held.size > MIN_LONG_LINE) this.#lookInto()
  }

  #lookInto(): void {
    const spool = this.#source.spool()
    if (spool && this.#held.size <= spool.over) return
    if (spool) this.#line = new LongLine(spool, this.#source)
    else this.#isPlain = true
    this.#long(this.#held.take())
  }

  #long(bytes: Buffer): void {
    if (this.#line) this.#line.write(bytes)
    else this.#source.pass(bytes)
  }

  #endOfLine(): void {
    this.#line?.end()
    this.#line = undefined
    this.#isPlain = false
  }

  #passHeld(): void {
    if (this.#held.size > 0) this.#source.pass(this.#held.take())
  }
}

/** Shorter lines are passed on without asking for a spool, in bytes. */
const MIN_LONG_LINE = 64 * 1024

/** The first line end; -1 if there is none. */
function endOfLine(chunk: Buffer): number {
  const newline = chunk.indexOf(NEWLINE)
  const before = newline === -1 ? chunk : chunk.subarray(0, newline)
  const carriageReturn = before.indexOf(CARRIAGE_RETURN)
  return carriageReturn === -1 ? newline : carriageReturn
}

/** One long line: finds its strings, and keeps the long ones. */
class LongLine {
  readonly #over: number
  readonly #message: SpooledMessage
  readonly #source: SpooledSource
  /** The string that the bytes are in, from its opening quote. */
  readonly #string = new Chunks()
  #isInString = false
  /** Whether the string stays in the message, however long it is. */
  #stays = false
  /** Whether the number of backslashes before the next byte of the string is odd. */
  #isEscaped = false
  #kept: { readonly string: SpooledString; readonly decoder: StringDecoder } | undefined

  constructor(spool: Spool, source: SpooledSource) {
    this.#over = spool.over
    this.#message = spool.open()
    this.#source = source
  }

  write(bytes: Buffer): void {
    for (let at = 0; at < bytes.length;) {
      if (this.#kept) at = this.#keep(bytes, at)
      else if (this.#isInString) at = this.#follow(bytes, at)
      else at = this.#findString(bytes, at)
    }
  }

  /** The line ends: a string that is open now is not JSON, and passes as far as it came. */
  end(): void {
    if (this.#kept) return this.abort()
    this.#message.end()
    this.#passString()
  }

  abort(): void {
    this.#message.abort()
    if (this.#kept) this.#source.resume()
    this.#kept = undefined
  }

  #findString(bytes: Buffer, from: number): number {
    const quote = bytes.indexOf(QUOTE, from)
    const end = quote === -1 ? bytes.length : quote
    if (end > from) this.#source.pass(bytes.subarray(from, end))
    if (quote === -1) return end
    this.#string.add(bytes.subarray(quote, quote + 1))
    this.#isInString = true
    this.#stays = false
    this.#isEscaped = false
    return quote + 1
  }

  #follow(bytes: Buffer, from: number): number {
    const end = this.#closingQuote(bytes, from)
    const piece = bytes.subarray(from, end === -1 ? bytes.length : end + 1)
    this.#string.add(piece)
    if (end !== -1) this.#isInString = false
    if (end !== -1 || this.#stays) this.#passString()
    else if (this.#string.size > this.#over) this.#beginKeeping()
    return from + piece.length
  }

  #passString(): void {
    if (this.#string.size > 0) this.#source.pass(this.#string.take())
  }

  /** The place of the quote that ends the string; -1 if it is not in these bytes. */
  #closingQuote(bytes: Buffer, from: number): number {
    let start = from
    for (;;) {
      const quote = bytes.indexOf(QUOTE, start)
      const end = quote === -1 ? bytes.length : quote
      let backslashes = 0
      while (end - backslashes > start && bytes[end - backslashes - 1] === BACKSLASH) backslashes++
      const isWhole = end - backslashes === start
      const isOdd: boolean =
        backslashes % 2 === 1 ? !(isWhole && this.#isEscaped) : isWhole && this.#isEscaped
      this.#isEscaped = quote === -1 && isOdd
      if (quote === -1) return -1
      if (!isOdd) return quote
      start = quote + 1
    }
  }

  #beginKeeping(): void {
    const string = this.#message.begin()
    if (!string) {
      this.#stays = true
      return this.#passString()
    }
    string.onDrain = () => this.#source.resume()
    const decoder = new StringDecoder((decoded) => {
      if (!string.write(decoded)) this.#source.pause()
    })
    this.#kept = { string, decoder }
    this.#isInString = false
    const begun = this.#string.take()
    this.#source.pass(begun.subarray(0, 1))
    this.#keep(begun, 1)
  }

  /** Keeps bytes up to the closing quote; returns the place after it, or the end. */
  #keep(bytes: Buffer, from: number): number {
    if (!this.#kept) return from
    const { string, decoder } = this.#kept
    const end = decoder.decode(bytes, from)
    if (!decoder.isClosed) return end
    string.end()
    this.#kept = undefined
    this.#source.resume()
    // An invalid escape makes the message what it is: not JSON.
    this.#source.pass(Buffer.from(`${string.placeholder}${decoder.isValid ? '' : '\\?'}"`))
    return end
  }
}

/** How much of a string is decoded before it is written, in bytes. */
const DECODED_BYTES = 256 * 1024
/** How much longer than a piece what it stands for can be, because it began in the piece before, in bytes. */
const MAX_BEFORE = 8
const REPLACEMENT = 0xfffd
/** What escapes of one letter stand for, by the letter; 0 for all others. */
const SIMPLE_ESCAPES = new Uint8Array(256)
for (const [letter, meaning] of ['""', '\\\\', '//', 'b\b', 'f\f', 'n\n', 'r\r', 't\t'])
  SIMPLE_ESCAPES[letter?.charCodeAt(0) ?? 0] = meaning?.charCodeAt(0) ?? 0
const LETTER_U = 117

/** Decodes the inside of a JSON string (RFC 8259, section 7) that arrives in pieces, which may split escapes. */
class StringDecoder {
  isValid = true
  /** Whether the closing quote came. */
  isClosed = false
  readonly #write: (bytes: Buffer) => void
  #out = Buffer.alloc(0)
  #size = 0
  /** After a backslash: 1; after `\u` and each of its digits: 2 to 5; otherwise 0. */
  #escape = 0
  #code = 0
  /** A high surrogate whose other half must follow; 0 if there is none. */
  #high = 0

  constructor(write: (bytes: Buffer) => void) {
    this.#write = write
  }

  /** Decodes from a place on, up to the closing quote; returns the place after what was read. */
  decode(bytes: Buffer, from: number): number {
    this.#reserve(bytes.length - from + MAX_BEFORE)
    let at = from
    while (at < bytes.length && !this.isClosed) {
      at = this.#escape === 0 && this.#high === 0 ? this.#simple(bytes, at) : this.#other(bytes, at)
    }
    if (this.isClosed) this.#flush()
    return at
  }

  /** Decodes up to what needs more than a look at two bytes. */
  #simple(bytes: Buffer, from: number): number {
    const out = this.#out
    const last = bytes.length - 1
    let at = from
    let size = this.#size
    for (; at <= last; at++) {
      const byte = bytes[at] ?? 0
      if (byte === BACKSLASH) {
        const letter = at < last ? (SIMPLE_ESCAPES[bytes[at + 1] ?? 0] ?? 0) : 0
        if (letter === 0) break
        out[size++] = letter
        at++
      } else if (byte === QUOTE) break
      else out[size++] = byte
    }
    this.#size = size
    if (at > last) return at
    if (bytes[at] === QUOTE) this.isClosed = true
    else this.#escape = 1
    return at + 1
  }

  /** One byte within an escape, or after half of a character. */
  #other(bytes: Buffer, at: number): number {
    const byte = bytes[at] ?? 0
    if (this.#escape > 0) this.#escaped(byte)
    else if (byte === BACKSLASH) this.#escape = 1
    else {
      this.#loneHalf()
      return at
    }
    return at + 1
  }

  #escaped(byte: number): void {
    if (this.#escape > 1) return this.#digit(byte)
    if (byte === LETTER_U) {
      this.#escape = 2
      this.#code = 0
      return
    }
    this.#escape = 0
    const letter = SIMPLE_ESCAPES[byte] ?? 0
    this.isValid &&= letter !== 0
    this.#loneHalf()
    this.#out[this.#size++] = letter
  }

  #digit(byte: number): void {
    const digit = Number.parseInt(String.fromCharCode(byte), 16)
    this.isValid &&= !Number.isNaN(digit)
    this.#code = this.#code * 16 + (digit || 0)
    this.#escape = this.#escape === 5 ? 0 : this.#escape + 1
    if (this.#escape === 0) this.#unit(this.#code)
  }

  /** A UTF-16 code unit: two of them may be one character. */
  #unit(unit: number): void {
    const high = this.#high
    if (high !== 0 && unit >= 0xdc00 && unit <= 0xdfff) {
      this.#high = 0
      return this.#add(String.fromCharCode(high, unit))
    }
    this.#loneHalf()
    if (unit >= 0xd800 && unit <= 0xdbff) this.#high = unit
    else this.#add(String.fromCharCode(unit))
  }

  #loneHalf(): void {
    if (this.#high !== 0) this.#add(String.fromCharCode(REPLACEMENT))
    this.#high = 0
  }

  #add(text: string): void {
    this.#size += this.#out.write(text, this.#size)
  }

  #reserve(bytes: number): void {
    if (this.#out.length - this.#size >= bytes) return
    this.#flush()
    this.#out = Buffer.allocUnsafeSlow(Math.max(DECODED_BYTES, bytes))
  }

  /** What was written is not changed any more. */
  #flush(): void {
    if (this.#size > 0) this.#write(this.#out.subarray(0, this.#size))
    this.#out = this.#out.subarray(this.#size)
    this.#size = 0
  }
}
