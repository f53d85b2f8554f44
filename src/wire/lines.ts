import { StringDecoder } from 'node:string_decoder'

/** Tells what happened to a line that was too long to keep. */
type Overflow = (bytes: number) => void

/**
 * Splits a byte stream into lines at 0x0A only, however it is cut into chunks; a trailing CR is dropped.
 * A line over `limit` bytes is skipped and reported.
 */
export function lines(limit: number, onLine: (line: string) => void, onOverflow: Overflow): (chunk: Buffer) => void {
  let decoder = new StringDecoder('utf8')
  let parts: string[] = []
  let size = 0

  const finish = (): void => {
    const line = parts.length === 1 ? (parts[0] ?? '') : parts.join('')
    if (size > limit) onOverflow(size)
    else if (line !== '' && line !== '\r') onLine(line.endsWith('\r') ? line.slice(0, -1) : line)
    parts = []
    size = 0
  }

  const add = (bytes: Buffer): void => {
    size += bytes.length
    if (size <= limit) parts.push(decoder.write(bytes))
    else if (parts.length > 0) {
      parts = []
      decoder = new StringDecoder('utf8')
    }
  }

  return (chunk) => {
    let from = 0
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      if (size === 0) {
        size = end - from
        if (size <= limit) parts.push(chunk.toString('utf8', from, end))
      } else {
        add(chunk.subarray(from, end))
        if (size <= limit) parts.push(decoder.end())
      }
      finish()
      from = end + 1
    }
    if (from < chunk.length) add(chunk.subarray(from))
  }
}

/** A message as one line. JSON text holds no raw newline unless it was pretty-printed. */
export function encodeLine(message: string): string {
  return `${singleLine(message)}\n`
}

/**
 * JSON text without line breaks. Raw U+2028 and U+2029 are legal JSON, yet some readers split lines there,
 * so they are escaped.
 */
export function singleLine(message: string): string {
  if (!breaks.test(message)) return message
  return message.replaceAll(/[\r\n]/g, ' ').replaceAll('\u2028', '\\u2028').replaceAll('\u2029', '\\u2029')
}

const breaks = /[\r\n\u2028\u2029]/
