/**
 * Reads kept data: `resources/read` of `ref://<id>`, and the tool `read_reference`, which returns parts of it. The right to do
 * so is that to read resources of the server that the data came from.
 */
import type { Call, Outcome } from '../../core/call.ts'
import { isPermitted, otherCall } from '../own-calls.ts'
import { invalidParam } from '../../core/error.ts'
import { cut } from '../../core/json/shorten.ts'
import { UPLOADS } from '../../records/plain-name.ts'
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import { answered, asToolWithResult, positiveInteger } from '../builtin-tool.ts'
import type { BuiltinEntry, BuiltinTool, Services } from '../feature.ts'
import { dataReference, loggedReference, referenceUri } from './kept-data.ts'
import {
  checkedPart,
  numberedLines,
  parseReference,
  type DataPart,
  rangeOf,
  SCHEME,
  segmentsOf,
  select,
  utf8Text,
  type Written,
} from './selection.ts'

/** Whether a caller may read resources of the server that data came from, now; false if that is not known. */
export async function mayRead(
  { server, id }: Pick<Reference, 'server' | 'id'>,
  call: Call,
  { invoker, servers }: Pick<Services, 'invoker' | 'servers'>,
): Promise<boolean> {
  if (server === UPLOADS) return true
  if (!servers.names().includes(server)) return false
  const target = { upstream: server, method: 'resources/read', name: `ref://${id}` }
  return isPermitted({ invoker }, otherCall(call, target, call.params))
}

/** Kept data, and whether a caller may read some of it now. */
export interface ReferenceAccess {
  readonly references: References
  mayRead(reference: Pick<Reference, 'server' | 'id'>, call: Call): Promise<boolean>
}

/** A reference that a caller may read; `field` is its place in the arguments. @throws RESOURCE_NOT_FOUND, always in the same words */
export async function readableReference(
  call: Call,
  id: string,
  { references, mayRead: isReadable }: ReferenceAccess,
  field?: string,
): Promise<Reference> {
  const reference = await references.find(call.principal, id)
  if (reference && (await isReadable(reference, call))) return reference
  throw unknownReference().with({ field })
}

/** The largest content of `resources/read`, in bytes. */
const MAX_READ_BYTES = 7 * 1024 * 1024
/** How much the tool returns, in bytes, by default and at most. */
const SLICE_BYTES = 4096
const MAX_SLICE_BYTES = 65_536
/** How large a part may be of which the beginning is returned, in bytes. */
const MAX_SELECTED_BYTES = 1024 * 1024
/** How many matches a search returns, and how long each line and the searched text are, in characters. */
const MAX_MATCHES = 50
const MAX_LINE_LENGTH = 300
const MAX_SEARCH_LENGTH = 200

/** The resource that stands for all references of a caller. */
export function referenceResource(access: ReferenceAccess): BuiltinEntry {
  return {
    definition: { uri: SCHEME, name: 'references' },
    isListed: false,
    matches: (uri) => uri.startsWith(SCHEME),
    handle: (call) => readResource(call, access),
  }
}

async function readResource(call: Call, access: ReferenceAccess): Promise<Outcome> {
  const uri = String(call.params.fields.uri)
  const written = readable('uri', uri)
  const reference = await allowed(written.id, call, access)
  const limits = { max: MAX_READ_BYTES, written: uri }
  const selected = await select(access.references, reference, written.part, limits)
  const text = selected.kind === 'json' ? selected.json.text : utf8Text(selected.bytes)
  const mimeType = reference.type
  const content =
    text === undefined && selected.kind === 'bytes'
      ? { uri, mimeType, blob: selected.bytes.toString('base64') }
      : { uri, mimeType, text }
  return answered({ contents: [content] })
}

/** What a text refers to. @throws INVALID_INPUT, RESOURCE_NOT_FOUND */
function readable(field: string, text: string): Written {
  const written = parseReference(text)
  if (!written) throw unknownReference()
  if (written.as) throw invalidParam(field, 'cannot have a form: as= is for arguments of tools')
  return written
}

/** A reference that the caller may read, which is logged. @throws RESOURCE_NOT_FOUND otherwise */
async function allowed(id: string, call: Call, access: ReferenceAccess): Promise<Reference> {
  const reference = await readableReference(call, id, access)
  call.logFields.set('references_used', [loggedReference(reference)])
  return reference
}

/** The tool. */
export function readReferenceTool(access: ReferenceAccess): BuiltinTool {
  return asToolWithResult(definition, (call) => readSlice(call, access))
}

const definition = {
  name: 'read_reference',
  title: 'Read a part of kept data',
  description:
    'Returns a part of data that the gateway kept (ref://…): a value at a JSON pointer, rows, bytes, or the lines that contain a text. Without any of them, its beginning.',
  inputSchema: {
    type: 'object',
    properties: {
      ref: { type: 'string', description: 'The reference, such as ref://ref_1.' },
      pointer: { type: 'string', description: 'A JSON pointer, such as /items/0/name.' },
      rows: {
        type: 'string',
        description: 'Elements of an array, or lines of a text, such as 100-200. The first one is 1.',
      },
      bytes: { type: 'string', description: 'Bytes, such as 0-1023.' },
      search: {
        type: 'string',
        description: 'A text: the lines with it are returned, with their numbers.',
      },
      max_bytes: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_SLICE_BYTES,
        description: `How much is returned at most; ${SLICE_BYTES} by default.`,
      },
    },
    required: ['ref'],
    additionalProperties: false,
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
} as const

async function readSlice(call: Call, access: ReferenceAccess): Promise<Outcome> {
  const { ref, search } = call.params.fields
  const text = typeof ref === 'string' && !ref.startsWith(SCHEME) ? `${SCHEME}${ref}` : ref
  if (typeof text !== 'string') throw invalidParam('ref', 'must be a reference such as ref://ref_1')
  const requested = positiveInteger(call, 'max_bytes') ?? SLICE_BYTES
  const written = readable('ref', text)
  const reference = await allowed(written.id, call, access)
  const { references } = access
  const max = Math.min(requested, MAX_SLICE_BYTES)
  const found =
    search === undefined
      ? await slice(references, reference, partOf(call, written.part), { max, written: text })
      : await matches(references, reference, search, max)
  const { expires_at: expires, mime_type: type, size_bytes: size } = dataReference(reference)
  const facts = { ref: referenceUri(reference), mime_type: type, size_bytes: size, expires_at: expires }
  return answered({ content: [{ type: 'text', text: found }], structuredContent: facts })
}

/** The part that the arguments select, else the one of the reference. @throws INVALID_INPUT */
function partOf({ params: { fields } }: Call, written: DataPart): DataPart {
  const { pointer, rows, bytes } = fields
  for (const [name, value] of Object.entries({ pointer, rows, bytes }))
    if (value !== undefined && typeof value !== 'string') throw invalidParam(name, 'must be a text')
  return checkedPart({
    ...written,
    ...(typeof pointer === 'string' && { pointer: segmentsOf(pointer) }),
    ...(typeof rows === 'string' && { rows: rangeOf(rows, 'rows') }),
    ...(typeof bytes === 'string' && { bytes: rangeOf(bytes, 'bytes') }),
  })
}

/** A part as text. Without one, the beginning of the data. */
async function slice(
  references: References,
  reference: Reference,
  part: DataPart,
  { max, written }: { readonly max: number; readonly written: string },
): Promise<string> {
  const isWhole = Object.keys(part).length === 0
  const { from, to } = isWhole ? { from: 0, to: reference.size - 1 } : (part.bytes ?? { from: 0, to: 0 })
  const end = Math.min(to, from + max - 1)
  const chosen = isWhole || part.bytes ? { bytes: { from, to: end } } : part
  const limits = { max: isWhole || part.bytes ? max : MAX_SELECTED_BYTES, written, isCut: true } as const
  const selected = await select(references, reference, chosen, limits)
  if (selected.kind === 'json') return shortened(selected.json.text, max)
  const text = textWithin(selected.bytes)
  if (text === undefined)
    return `[${reference.type}, ${selected.bytes.byteLength} bytes: not text. Send ${written} as an argument of a tool to use it.]`
  if (part.rows) return shortened(text, max)
  const isCut = end < Math.min(to, reference.size - 1)
  return isCut ? `${text}\n[Bytes ${from} to ${end} of ${reference.size}.]` : text
}

/** Bytes as text, without the rest of a character at either end; undefined if they are none. */
function textWithin(bytes: Buffer): string | undefined {
  for (let start = 0; start < 4; start++)
    for (let end = 0; end < 4; end++) {
      const text = utf8Text(bytes.subarray(start, bytes.byteLength - end))
      if (text !== undefined) return text
    }
  return undefined
}

function shortened(text: string, max: number): string {
  if (Buffer.byteLength(text) <= max) return text
  return `${cut(text, max + 2) ?? ''}\n[There is more. Ask for less, or set max_bytes.]`
}

/** The lines that contain a text. */
async function matches(
  references: References,
  reference: Reference,
  search: unknown,
  max: number,
): Promise<string> {
  if (typeof search !== 'string' || search === '' || search.length > MAX_SEARCH_LENGTH)
    throw invalidParam('search', `must be a text of 1 to ${MAX_SEARCH_LENGTH} characters`)
  const found: string[] = []
  let size = 0
  let more = 0
  let isLong = false
  for await (const { line, number } of numberedLines(await references.open(reference), MAX_SEARCHED_LENGTH)) {
    isLong ||= line.length === MAX_SEARCHED_LENGTH
    const at = line.indexOf(search)
    if (at === -1) continue
    const from = Math.max(0, at - MAX_LINE_LENGTH / 2)
    const shown = `${number}: ${line.slice(from, from + MAX_LINE_LENGTH)}`
    // The first one is shown in any case.
    const isFull = found.length > 0 && size + Buffer.byteLength(shown) > max
    if (found.length >= MAX_MATCHES || isFull) more++
    else {
      found.push(shown)
      size += Buffer.byteLength(shown) + 1
    }
  }
  const notes = [
    ...(found.length === 0 ? [`[No line contains ${JSON.stringify(search)}.]`] : []),
    ...(more > 0 ? [`[${more} more lines contain it.]`] : []),
    ...(isLong ? [`[Of long lines, the first ${MAX_SEARCHED_LENGTH} characters were searched.]`] : []),
  ]
  return [...found, ...notes].join('\n')
}

/** How much of a line is searched, in characters. */
const MAX_SEARCHED_LENGTH = 1024 * 1024
