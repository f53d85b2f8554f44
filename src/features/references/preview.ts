/** What a model sees of data that was kept: what it is, how to use it, and its beginning. */
import { isObject } from '../../core/json/json.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { REFERENCE_KEY, REFERENCES_KEY } from '../../protocol/meta-keys.ts'
import type { Reference } from '../../records/references.ts'
import { isJson, SCHEME } from './selection.ts'

/** How much of the data is read for a preview, in bytes. */
export const PREVIEWED_BYTES = 2048
/** How much of the data a preview shows, in characters, and how many names of members. */
const MAX_PREVIEW_LENGTH = 300
const MAX_NAMES = 20

/** The URI of a reference. */
export function uriOf({ id }: Pick<Reference, 'id'>): string {
  return `${SCHEME}${id}`
}

/** The proposal's description of kept data. The URL is a credential, so it is not for texts or logs. */
export function dataReference(reference: Reference, url?: string): Readonly<Record<string, unknown>> {
  const { id, server, type, size, expiresAt, sha256 } = reference
  return {
    ref_id: id,
    origin_server: server,
    mime_type: type,
    size_bytes: size,
    expires_at: isoTime(expiresAt),
    ...(url !== undefined && { access_url: url }),
    checksum: { algorithm: 'sha256', value: sha256 },
  }
}

/** Kept data, and its description for the caller. */
export interface Described {
  readonly reference: Reference
  readonly data: Readonly<Record<string, unknown>>
}

/** The members of `_meta` that describe the kept data of a result. */
export function metaOf(kept: readonly Described[]): Readonly<Record<string, unknown>> {
  const [first] = kept
  if (!first) return {}
  return {
    [REFERENCE_KEY]: first.data,
    [REFERENCES_KEY]: kept.length > 1 ? kept.map(({ data }) => data) : undefined,
  }
}

/**
 * The content blocks in place of data: a link, and a preview. `beginning` has the first bytes, or all of them; `value` is
 * their JSON, if they are JSON.
 */
export function blocksOf(
  { reference, data }: Described,
  beginning: Uint8Array,
  value?: unknown,
): readonly unknown[] {
  const link = {
    type: 'resource_link',
    uri: uriOf(reference),
    name: reference.name,
    mimeType: reference.type,
    size: reference.size,
    _meta: { [REFERENCE_KEY]: data },
  }
  return [link, { type: 'text', text: previewOf(reference, beginning, value) }]
}

/** A preview of a few hundred characters. `beginning` has the first bytes, or all of them. */
function previewOf(reference: Reference, beginning: Uint8Array, value?: unknown): string {
  const uri = uriOf(reference)
  const facts = `${reference.type}, ${reference.size} bytes${shapeOf(value)}`
  const how = [
    `[Kept by the gateway as ${uri}: ${facts}, until ${isoTime(reference.expiresAt)}.`,
    `Read parts with read_reference, or send "${uri}" as the argument of a tool to use all of it.]`,
  ].join('\n')
  const text = headOf(reference, beginning)
  return text === '' ? how : `${how}\n${text}`
}

function headOf({ type, size }: Reference, beginning: Uint8Array): string {
  if (!isJson({ type }) && !type.startsWith('text/')) return ''
  // The last character may be cut in the middle.
  const text = new TextDecoder().decode(beginning.subarray(0, MAX_PREVIEW_LENGTH * 4))
  const head = text.slice(0, MAX_PREVIEW_LENGTH).replace(/[\uD800-\uDBFF]$/, '')
  return Buffer.byteLength(head) < size ? `${head}…` : head
}

/** The shape of a JSON value, in a few words. */
function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return `, ${value.length} rows${namesOf(value[0])}`
  if (!isObject(value)) return ''
  const lists = Object.entries(value).flatMap(([name, member]) =>
    Array.isArray(member) ? [`${name} has ${member.length} rows${namesOf(member[0])}`] : [],
  )
  return lists.length === 0 ? namesOf(value) : `; ${lists.slice(0, 3).join('; ')}`
}

function namesOf(row: unknown): string {
  if (!isObject(row)) return ''
  const names = Object.keys(row)
  const more = names.length > MAX_NAMES ? ', …' : ''
  return ` with ${names.slice(0, MAX_NAMES).join(', ').slice(0, 300)}${more}`
}
