/**
 * Decodes response bodies as `fetch` does (Fetch standard, "handle content codings"): servers and what is in front of them
 * compress bodies although that was not requested. A list with an unknown coding is left alone, since servers also write
 * the name of a character set there. Text is UTF-8, whatever character set a header names.
 *
 * Invariant: what is decoded and not read yet is bounded by the buffers of the streams, so the limit of the reader bounds a
 * body of any ratio.
 */
import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import * as zlib from 'node:zlib'

type Header = string | readonly string[] | undefined

/** The maximum number of codings of one body: others are not decoded. */
const MAX_CODINGS = 5
/** The maximum window of Zstandard, in bits (RFC 9659). */
const MAX_ZSTD_WINDOW_BITS = 23

// Decoded bytes are passed on at once, and a body that ends early gives what it has, as in browsers and curl.
const { Z_SYNC_FLUSH, BROTLI_OPERATION_FLUSH, ZSTD_e_flush, ZSTD_d_windowLogMax } = zlib.constants
const flushing = { flush: Z_SYNC_FLUSH, finishFlush: Z_SYNC_FLUSH }
const brotli = { flush: BROTLI_OPERATION_FLUSH, finishFlush: BROTLI_OPERATION_FLUSH }
const zstd = { finishFlush: ZSTD_e_flush, params: { [ZSTD_d_windowLogMax]: MAX_ZSTD_WINDOW_BITS } }

/** Decoders by coding (RFC 9110, section 8.4.1). `compress` is not decoded by clients. */
const decoders = new Map<string, () => Transform>([
  ['gzip', () => zlib.createGunzip(flushing)],
  ['x-gzip', () => zlib.createGunzip(flushing)],
  ['deflate', () => new Inflate()],
  ['br', () => zlib.createBrotliDecompress(brotli)],
  ['zstd', () => zlib.createZstdDecompress(zstd)],
])

/** Whether a body with this `Content-Encoding` has to be decoded. */
export function isEncoded(contentEncoding: Header): boolean {
  return contentEncoding !== undefined && decodersOf(contentEncoding).length > 0
}

/**
 * A body without its codings: the body itself if it has none. Errors of the body and of its codings are errors of the
 * result; destroying the result destroys the body.
 */
export function decodedBody(body: Readable, contentEncoding: Header): Readable {
  const streams = decodersOf(contentEncoding).map((create) => create())
  const last = streams.at(-1)
  if (!last) return body
  // The reader of the last stream gets every error.
  pipeline([body, ...streams], () => undefined)
  return last
}

/** The text of a body of at most so many decoded bytes; undefined if there are more. @throws if it cannot be decoded */
export async function decodedText(
  body: Readable,
  contentEncoding: Header,
  maxBytes: number,
): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let size = 0
  // Leaving the loop destroys the rest of the body.
  for await (const chunk of decodedBody(body, contentEncoding) as AsyncIterable<Buffer>) {
    size += chunk.byteLength
    if (size > maxBytes) return undefined
    chunks.push(chunk)
  }
  return withoutMark(Buffer.concat(chunks)).toString('utf8')
}

/** UTF-8 without the byte order mark that it may begin with. */
export function withoutMark(bytes: Buffer): Buffer {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return hasMark ? bytes.subarray(3) : bytes
}

/** In the order in which they are applied, which is from the last coding to the first. */
function decodersOf(contentEncoding: Header): readonly (() => Transform)[] {
  if (contentEncoding === undefined) return []
  const codings = [contentEncoding]
    .flat()
    .join(',')
    .toLowerCase()
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity')
  const found = codings.flatMap((coding) => decoders.get(coding) ?? [])
  const isKnown = found.length === codings.length && found.length <= MAX_CODINGS
  return isKnown ? found.toReversed() : []
}

/** `deflate` with the zlib format, or without it, as many servers send it. */
class Inflate extends Transform {
  #inner: Transform | undefined

  override _transform(chunk: Buffer, _encoding: string, done: TransformCallback): void {
    this.#inner ??= this.#begin(chunk)
    this.#inner.write(chunk, done)
  }

  override _flush(done: TransformCallback): void {
    if (!this.#inner) return done()
    this.#inner.once('end', () => done()).end()
  }

  override _read(size: number): void {
    this.#inner?.resume()
    super._read(size)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#inner?.destroy()
    done(error)
  }

  /** The first byte of the zlib format names the method, which is always the same (RFC 1950, section 2.2). */
  #begin(chunk: Buffer): Transform {
    const isZlib = ((chunk[0] ?? 0) & 0x0f) === 0x08
    const inner = isZlib ? zlib.createInflate(flushing) : zlib.createInflateRaw(flushing)
    inner.on('error', (error) => this.destroy(error))
    inner.on('data', (decoded: Buffer) => {
      if (!this.push(decoded)) inner.pause()
    })
    return inner
  }
}
