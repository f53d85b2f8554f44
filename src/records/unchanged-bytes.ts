/** Checks that kept bytes are as they were when they were kept. */
import { GatewayError } from '../core/error.ts'
import { type BlobFacts, type ByteRange, type Bytes, Digest, WHOLE } from '../store/blobs/blobs.ts'

/**
 * The same bytes. The last chunk is held back until it is known that nothing has changed, so that a part is never taken for
 * the whole. All bytes are compared by their SHA-256, a range by its size. @throws CONFLICT if they are different
 */
export async function* unchanged(
  bytes: Bytes,
  { size, sha256 }: BlobFacts,
  range: ByteRange = WHOLE,
): AsyncGenerator<Uint8Array> {
  const isWhole = range.start === 0 && range.end >= size
  const expected = Math.max(0, Math.min(range.end, size) - range.start)
  const digest = isWhole ? new Digest() : undefined
  let seen = 0
  let last: Uint8Array | undefined
  for await (const chunk of bytes) {
    digest?.add(chunk)
    seen += chunk.byteLength
    if (seen > expected) throw changed()
    if (last) yield last
    last = chunk
  }
  if (seen !== expected || (digest && digest.facts().sha256 !== sha256)) throw changed()
  if (last) yield last
}

function changed(): GatewayError {
  return new GatewayError('CONFLICT', 'The kept data has changed in the store. It cannot be used.', {
    reason: 'checksum',
    suggestion: 'Make the call again that returned it, with another idempotency key if it had one.',
  })
}
