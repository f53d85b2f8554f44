/** Parts of data as streams, for what need not be in memory. */
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'
import { absent, byteRange, isJson, type Part, type Range, select } from './selection.ts'

/** How much JSON is selected in memory, in bytes. */
const MAX_JSON_BYTES = 64 * 1024 * 1024

/** Opens a part of data. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE, RESOURCE_NOT_FOUND; the bytes can end with these too */
export async function openPart(
  references: References,
  reference: Reference,
  part: Part,
  written: string,
): Promise<Bytes> {
  const { pointer, rows, bytes } = part
  const limits = { max: MAX_JSON_BYTES, written }
  if (bytes) return references.open(reference, byteRange(bytes, reference, limits))
  if (pointer || (rows && isJson(reference))) {
    const selected = await select(references, reference, part, limits)
    if (selected.kind !== 'json') throw unknownReference()
    const { text, value } = selected.json
    return once(Buffer.from(typeof value === 'string' ? value : text))
  }
  const whole = await references.open(reference)
  return rows ? linesIn(whole, rows, written) : whole
}

/** Bytes as a stream of one chunk. */
async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The lines of a text, from the first to the last one. */
async function* linesIn(bytes: Bytes, { from, to }: Range, written: string): AsyncGenerator<Uint8Array> {
  let number = 1
  let isEmpty = true
  for await (const chunk of bytes) {
    const start = number >= from ? 0 : afterLines(chunk, from - number)
    const end = start === -1 ? -1 : afterLines(chunk.subarray(start), to - Math.max(number, from) + 1)
    number += newlinesIn(chunk)
    if (start === -1 || start === chunk.byteLength) continue
    isEmpty = false
    yield chunk.subarray(start, end === -1 ? chunk.byteLength : start + end)
    if (end !== -1) return
  }
  if (isEmpty) throw absent(`there is no row ${from}`, { written })
}

const NEWLINE = 10

/** The position after a number of newlines; -1 if there are fewer. */
function afterLines(bytes: Uint8Array, count: number): number {
  let at = 0
  for (let found = 0; found < count; found++) {
    const next = bytes.indexOf(NEWLINE, at)
    if (next === -1) return -1
    at = next + 1
  }
  return at
}

function newlinesIn(bytes: Uint8Array): number {
  let count = 0
  for (let at = bytes.indexOf(NEWLINE); at !== -1; at = bytes.indexOf(NEWLINE, at + 1)) count++
  return count
}
