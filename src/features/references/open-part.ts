/** Parts of data as streams, for what need not be in memory. */
import type { Reference, References } from '../../records/references.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'
import { byteRange, isJson, linesIn, MAX_JSON_BYTES, once, type Part, select } from './selection.ts'

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
    if (selected.kind === 'bytes') return once(selected.bytes)
    const { text, value } = selected.json
    return once(Buffer.from(typeof value === 'string' ? value : text))
  }
  const whole = await references.open(reference)
  return rows ? linesIn(whole, rows, limits) : whole
}
