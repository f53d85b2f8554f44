/**
 * References as they are written, and the parts of data that they select: `ref://<id>` for all of it,
 * `ref://<id>#/a/0` for a value in JSON (RFC 6901), `ref://<id>?rows=100-200` for elements of an array or lines of a text,
 * `ref://<id>?bytes=0-1023` for bytes. Rows are counted from 1, bytes from 0; both ends are included. `as=text` chooses the
 * form that an argument gets.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, pointerSegments, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { percentDecoded } from '../../core/text/escape.ts'
import { type Reference, References } from '../../records/references.ts'
import { type ByteRange, type Bytes, collected } from '../../store/blobs/blobs.ts'

/** The forms of data in arguments, as callers write them. */
const formNames = ['text', 'json', 'base64', 'data_uri', 'path', 'url'] as const

/** A form of data in arguments. */
export type FormName = (typeof formNames)[number]

/** A reference as it is written. */
export interface Written {
  readonly id: string
  readonly part: DataPart
  /** The form that the caller chose. */
  readonly as?: FormName
}

/** Which part of the data; at most one of `rows` and `bytes`. */
export interface DataPart {
  /** The unescaped segments of a JSON pointer. */
  readonly pointer?: readonly string[]
  readonly rows?: Range
  readonly bytes?: Range
}

/** From the first to the last one, both included. */
interface Range {
  readonly from: number
  readonly to: number
}

/** The scheme of references. */
export const SCHEME = 'ref://'

/** What a text refers to; undefined if it is no reference. @throws INVALID_INPUT if its part cannot be read */
export function parseReference(text: string): Written | undefined {
  if (!text.startsWith(SCHEME)) return undefined
  const [, id = '', query, pointer] =
    /^([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/s.exec(text.slice(SCHEME.length)) ?? []
  if (!References.isId(id)) return undefined
  const { as, ...ranges } = queryOf(query)
  const part = checkedPart({ ...ranges, ...(pointer !== undefined && { pointer: segmentsOf(pointer) }) })
  return { id, part, ...(as && { as }) }
}

/** The ranges and the form in a query. @throws INVALID_INPUT */
function queryOf(query = ''): Pick<DataPart, 'rows' | 'bytes'> & Pick<Written, 'as'> {
  const found: { rows?: Range; bytes?: Range; as?: FormName } = {}
  for (const [name, value] of new URLSearchParams(query)) {
    if (Object.hasOwn(found, name)) throw unreadable(`it has ${name} twice`)
    if (name === 'as') found.as = formNamed(value)
    else if (name === 'rows' || name === 'bytes') found[name] = rangeOf(value, name)
    else throw unreadable(`${name} is not rows, bytes or as`)
  }
  return found
}

function formNamed(text: string): FormName {
  const form = formNames.find((each) => each === text)
  if (!form) throw unreadable(`as must be ${formNames.slice(0, -1).join(', ')} or ${formNames.at(-1)}`)
  return form
}

/** A part, if it selects in one way. @throws INVALID_INPUT */
export function checkedPart(part: DataPart): DataPart {
  if (part.bytes && part.pointer) throw unreadable('bytes of a value cannot be selected')
  if (part.bytes && part.rows) throw unreadable('it has several ranges')
  return part
}

/** A range such as `100-200`, or a single number. @throws INVALID_INPUT */
export function rangeOf(text: string, what: 'rows' | 'bytes'): Range {
  const [, from, to = from] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(text) ?? []
  const [first, last] = [Number(from), Number(to)]
  const lowest = what === 'rows' ? 1 : 0
  if (from === undefined || first < lowest || last < first)
    throw unreadable(`${what} must be a range such as ${what === 'rows' ? '1-100' : '0-1023'}`)
  return { from: first, to: last }
}

/** The segments of a JSON pointer. @throws INVALID_INPUT */
export function segmentsOf(pointer: string): readonly string[] {
  if (pointer !== '' && !pointer.startsWith('/')) throw unreadable('a JSON pointer begins with a slash')
  return pointerSegments(percentDecoded(pointer))
}

/** Selected data: a JSON value, or bytes. */
export type Selected =
  | { readonly kind: 'json'; readonly json: Payload }
  | { readonly kind: 'bytes'; readonly bytes: Buffer }

interface Limits {
  /** How much is returned, in bytes. */
  readonly max: number
  /** Set if longer rows are cut a little behind the limit; otherwise they are an error. */
  readonly isCut?: true
  /** What the reference is called in errors. */
  readonly written: string
}

/** How much more than the limit is read, to know that there is more, in bytes. */
const MAX_OVERRUN_BYTES = 1024

/** The largest JSON in which a value is looked up, in bytes. */
const MAX_JSON_BYTES = 64 * 1024 * 1024

/** Reads a part of data. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE, RESOURCE_NOT_FOUND */
export async function select(
  references: References,
  reference: Reference,
  part: DataPart,
  limits: Limits,
): Promise<Selected> {
  const found = await locate(references, reference, part, limits.written)
  const size = found.kind === 'json' ? Buffer.byteLength(found.json.text) : found.size
  if (size !== undefined && size > limits.max) throw tooLarge(limits)
  if (found.kind === 'json') return found
  return { kind: 'bytes', bytes: await collectedUpTo(await found.open(), limits) }
}

/** Opens a part of data. @throws INVALID_INPUT, PAYLOAD_TOO_LARGE, RESOURCE_NOT_FOUND; the bytes can end with these too */
export async function openPart(
  references: References,
  reference: Reference,
  part: DataPart,
  written: string,
): Promise<Bytes> {
  const found = await locate(references, reference, part, written)
  if (found.kind === 'bytes') return found.open()
  const { text, value } = found.json
  return once(Buffer.from(typeof value === 'string' ? value : text))
}

/** What a part selects: a JSON value, or bytes that are not read yet, of a size that is known unless they are lines. */
type Located =
  | { readonly kind: 'json'; readonly json: Payload }
  | { readonly kind: 'bytes'; readonly size?: number; open(): Promise<Bytes> }

async function locate(
  references: References,
  reference: Reference,
  { pointer, rows, bytes }: DataPart,
  written: string,
): Promise<Located> {
  const open = (range?: ByteRange): Promise<Bytes> => references.open(reference, range)
  if (bytes) {
    const range = byteRange(bytes, reference, written)
    return { kind: 'bytes', size: range.end - range.start, open: () => open(range) }
  }
  if (pointer || (rows && isJson(reference))) {
    if (reference.size > MAX_JSON_BYTES) throw tooLarge({ max: MAX_JSON_BYTES, written })
    const root = parsed(await collected(await open()), written)
    const value = pointer ? valueAt(root, pointer, written) : root
    return { kind: 'json', json: rows ? rowsOf(value, rows, written) : value }
  }
  if (rows) return { kind: 'bytes', open: async () => linesIn(await open(), rows, written) }
  return { kind: 'bytes', size: reference.size, open }
}

/** A range of the bytes that there are. @throws INVALID_INPUT if it is behind their end */
function byteRange({ from, to }: Range, { size }: Pick<Reference, 'size'>, written: string): ByteRange {
  if (from >= size && size > 0) throw absent(`it has ${size} bytes`, written)
  return { start: from, end: Math.min(to + 1, size) }
}

/** Whether data is JSON, by its media type. */
export function isJson({ type }: Pick<Reference, 'type'>): boolean {
  return /^application\/(?:[^;\s]+\+)?json\b/i.test(type)
}

/** The text of bytes; undefined if they are no UTF-8. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}

/** Bytes as a stream of one chunk. */
export async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** The lines of a text, each with its number. What is longer than `max` characters is cut. */
export async function* numberedLines(
  bytes: Bytes,
  max: number,
): AsyncGenerator<{ readonly line: string; readonly number: number }> {
  const decoder = new TextDecoder()
  let rest = ''
  let number = 0
  const take = function* (text: string): Generator<{ readonly line: string; readonly number: number }> {
    const [head = '', ...tail] = text.split('\n')
    if (rest.length < max) rest += head.slice(0, max - rest.length)
    for (const next of tail) {
      yield { line: rest, number: ++number }
      rest = next.slice(0, max)
    }
  }
  for await (const chunk of bytes) yield* take(decoder.decode(chunk, { stream: true }))
  yield* take(decoder.decode())
  if (rest !== '') yield { line: rest, number: ++number }
}

/** Bytes as one buffer, if there are not too many; what is cut has a little more. @throws PAYLOAD_TOO_LARGE */
async function collectedUpTo(bytes: Bytes, limits: Limits): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of bytes) {
    size += chunk.byteLength
    if (size > limits.max && limits.isCut !== true) throw tooLarge(limits)
    chunks.push(chunk)
    if (size > limits.max) break
  }
  return Buffer.concat(chunks).subarray(0, limits.max + MAX_OVERRUN_BYTES)
}

/** The lines of a text from the first to the last one, with the bytes that they have. @throws INVALID_INPUT */
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
  if (isEmpty) throw absent(`there is no row ${from}`, written)
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

function rowsOf(list: Payload, { from, to }: Range, written: string): Payload {
  const { items } = list
  if (!Array.isArray(list.value)) throw absent('the value is not an array', written)
  if (items.length < from) throw absent(`the array has ${items.length} elements`, written)
  const rows = items.slice(from - 1, to)
  return Payload.text(`[${rows.map(({ text }) => text).join(',')}]`)
}

function valueAt(root: Payload, segments: readonly string[], written: string): Payload {
  let at = root
  for (const segment of segments) {
    const isIndex = Array.isArray(at.value) && /^(?:0|[1-9]\d*)$/.test(segment)
    const next = isIndex ? at.items[Number(segment)] : isObject(at.value) ? at.at(segment) : undefined
    if (!next) throw absent(`there is no value at ${segment.slice(0, 60)}`, written)
    at = next
  }
  return at
}

function parsed(bytes: Buffer, written: string): Payload {
  const json = jsonIn(utf8Text(bytes) ?? '')
  if (!json) throw absent('it is not JSON', written)
  return json
}

/** A text as JSON, with its text; undefined if it is none. */
export function jsonIn(text: string): Payload | undefined {
  const value = readJson(text)
  return value === undefined ? undefined : Payload.text(text, value)
}

function unreadable(problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: the reference cannot be read: ${problem}.`, {
    reason: 'reference',
    suggestion:
      'Write ref://<id>, ref://<id>#/json/pointer, ref://<id>?rows=1-100, ref://<id>?bytes=0-1023 or ref://<id>?as=text.',
    isResult: true,
  })
}

/** The error for a part that the data does not have. */
function absent(problem: string, written: string): GatewayError {
  return badReference(`${written}: ${problem}`)
}

/** The error for a reference that cannot be used where it is, in the arguments at `field`. */
export function badReference(problem: string, field?: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${problem}.`, {
    field,
    reason: 'reference',
    isResult: true,
  })
}

function tooLarge({ max, written }: Limits): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `${written} selects more than ${max} bytes.`, {
    suggestion: 'Select a part: #/json/pointer, ?rows=1-100 or ?bytes=0-1023.',
    isResult: true,
  })
}
