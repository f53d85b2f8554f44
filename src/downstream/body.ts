import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { GatewayError } from '../core/error.ts'

/** Reads a request's body, in UTF-8. @throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, PARSE_ERROR */
export function readBody(incoming: IncomingMessage, limit: number): Promise<string> {
  const type = incoming.headers['content-type'] ?? ''
  if (!/^application\/json(?:;|$)/i.test(type.trim())) {
    const suggestion = 'Send Content-Type: application/json.'
    return Promise.reject(new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'The body must be JSON.', { suggestion }))
  }
  if (Number(incoming.headers['content-length'] ?? 0) > limit) return Promise.reject(tooLarge(limit))
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    incoming.on('data', (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) chunks.push(chunk)
      else {
        incoming.pause()
        reject(tooLarge(limit))
      }
    })
    incoming.on('end', () => {
      const [first, ...others] = chunks
      const bytes = first && others.length === 0 ? first : Buffer.concat(chunks)
      // Broken characters would go on as other text than was sent.
      if (isUtf8(bytes)) resolve(bytes.toString('utf8'))
      else reject(new GatewayError('PARSE_ERROR', 'Parse error: the body is not valid UTF-8.'))
    })
    incoming.on('error', reject)
    incoming.on('aborted', () => reject(new GatewayError('CANCELLED', 'The client went away.')))
  })
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`, { details: { limit } })
}
