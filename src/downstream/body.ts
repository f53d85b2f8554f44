import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../core/error.ts'
import { Chunks } from '../wire/chunks.ts'

/** How long a body that is too large is still read and dropped before its sender is told, in milliseconds. */
const LINGER = 1000

/** Reads a request's body, in UTF-8. @throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, PARSE_ERROR */
export function readBody(incoming: IncomingMessage, limit: number): Promise<string> {
  const type = incoming.headers['content-type'] ?? ''
  if (!/^application\/json(?:;|$)/i.test(type.trim())) {
    const suggestion = 'Send Content-Type: application/json.'
    return Promise.reject(
      new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The body must be JSON.', { suggestion }),
    )
  }
  return new Promise((resolve, reject) => {
    const chunks = new Chunks()
    let isTooLarge = false
    const overflow = (): void => {
      isTooLarge = true
      chunks.clear()
      // A client that is cut off while it sends may never read why.
      setTimeout(() => reject(tooLarge(limit)), LINGER).unref()
    }
    if (Number(incoming.headers['content-length'] ?? 0) > limit) overflow()
    incoming.on('data', (chunk: Buffer) => {
      if (isTooLarge) return
      chunks.add(chunk)
      if (chunks.size > limit) overflow()
    })
    incoming.on('end', () => {
      if (isTooLarge) return reject(tooLarge(limit))
      const bytes = chunks.take()
      // Broken characters would go on as other text than was sent.
      if (isUtf8(bytes)) resolve(bytes.toString('utf8'))
      else reject(new GatewayError('PARSE_ERROR', 'Parse error: the body is not valid UTF-8.'))
    })
    incoming.on('error', reject)
    incoming.on('aborted', () => reject(new GatewayError('CANCELLED', 'The client went away.')))
  })
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`, {
    details: { limit },
  })
}
