/**
 * Descriptions of kept data: a link and a preview for models, facts for programs, ids for logs. And the data that
 * content blocks have (server/tools, "Tool result").
 */
import { isObject } from '../../core/json/json.ts'
import { isoTime } from '../../core/time/waiting.ts'
import type { UsedReference } from '../../core/used-reference.ts'
import { REFERENCE_KEY, REFERENCES_KEY } from '../../protocol/meta-keys.ts'
import type { Reference } from '../../records/references.ts'
import { isJson, SCHEME } from './selection.ts'

/** How much of the data is read for a preview, in bytes. */
export const PREVIEWED_BYTES = 2048
/** How much of the data a preview shows, in characters, and how many names of members. */
const MAX_PREVIEW_LENGTH = 300
const MAX_NAMES = 20

/** The URI of a reference. */
export function referenceUri({ id }: Pick<Reference, 'id'>): string {
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
export interface DescribedReference {
  readonly reference: Reference
  readonly data: Readonly<Record<string, unknown>>
}

/** The members of `_meta` that describe the kept data of a result. */
export function metaOf(kept: readonly DescribedReference[]): Readonly<Record<string, unknown>> {
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
  { reference, data }: DescribedReference,
  beginning: Uint8Array,
  value?: unknown,
): readonly unknown[] {
  const link = {
    type: 'resource_link',
    uri: referenceUri(reference),
    name: reference.name,
    mimeType: reference.type,
    size: reference.size,
    _meta: { [REFERENCE_KEY]: data },
  }
  return [link, { type: 'text', text: previewOf(reference, beginning, value) }]
}

/** A preview of a few hundred characters. `beginning` has the first bytes, or all of them. */
function previewOf(reference: Reference, beginning: Uint8Array, value?: unknown): string {
  const uri = referenceUri(reference)
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

/** The data of a block as it is in the block, and what is known of it. */
export interface BlockData {
  readonly string: string
  readonly isBase64: boolean
  /** The media type, as far as the block says. */
  readonly type: string | undefined
  readonly name: string | undefined
}

/** The media types that are kept as the server names them (RFC 6838); others may be anything. */
const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,100}(?:;.{0,100})?$/
const MAX_NAME_LENGTH = 200
const ANY_TYPE = 'application/octet-stream'

/** The data of a block; undefined if it has none. */
export function dataOf({
  type,
  text,
  data,
  mimeType,
  resource,
}: Readonly<Record<string, unknown>>): BlockData | undefined {
  if (type === 'text' && typeof text === 'string')
    return { string: text, isBase64: false, type: undefined, name: undefined }
  if (typeof data === 'string') {
    const media = mediaType(mimeType) ?? ANY_TYPE
    const kind = type === 'image' || type === 'audio' ? type : 'data'
    return { string: data, isBase64: true, type: media, name: `${kind}.${endingOf(media)}` }
  }
  return isObject(resource) ? dataOfResource(resource) : undefined
}

function dataOfResource({
  uri,
  mimeType,
  text,
  blob,
}: Readonly<Record<string, unknown>>): BlockData | undefined {
  const last = typeof uri === 'string' ? (uri.split('/').at(-1) ?? '') : ''
  const name = last === '' ? 'resource' : last.slice(0, MAX_NAME_LENGTH)
  if (typeof text === 'string') return { string: text, isBase64: false, type: mediaType(mimeType), name }
  if (typeof blob !== 'string') return undefined
  return { string: blob, isBase64: true, type: mediaType(mimeType) ?? ANY_TYPE, name }
}

/** The media type and the name of data, where its block leaves them open: those of text, or of JSON. */
export function factsOf(
  { type, name }: Pick<BlockData, 'type' | 'name'>,
  isJson: boolean,
): { readonly type: string; readonly name: string } {
  return {
    type: type ?? (isJson ? 'application/json' : 'text/plain'),
    name: name ?? (isJson ? 'result.json' : 'result.txt'),
  }
}

function mediaType(given: unknown): string | undefined {
  return typeof given === 'string' && MEDIA_TYPE.test(given) ? given : undefined
}

type Logged = Readonly<Record<string, unknown>>

/** Data that was kept, or read. */
export function loggedReference({ id, server, name, type, size, sha256 }: Reference | UsedReference): Logged {
  return { id, server, name, type, size, sha256 }
}

/** Data in arguments: where it was, and the call that returned it. */
export function loggedUse(used: UsedReference): Logged {
  const { path, tool, requestId } = used
  return { path, ...loggedReference(used), tool, request_id: requestId }
}

/** The length of a name, in characters. */
const MAX_FILE_NAME_LENGTH = 100

/** The ends of the names of files, where the media type does not say them. */
const endings: Readonly<Record<string, string>> = {
  'application/gzip': 'gz',
  'application/octet-stream': 'bin',
  'application/javascript': 'js',
  'application/msword': 'doc',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'audio/mpeg': 'mp3',
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'text/javascript': 'js',
  'text/markdown': 'md',
  'text/plain': 'txt',
  'text/tab-separated-values': 'tsv',
}

/** The name of a file with data of a media type, by what people call the data. */
export function fileName(name: string, type: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]+/g, '_').replace(/^[._-]+/, '')
  const [, stem = plain, ending = endingOf(type)] = /^(.+)\.([A-Za-z0-9]{1,10})$/.exec(plain) ?? []
  return `${stem.slice(0, MAX_FILE_NAME_LENGTH - ending.length - 1) || 'data'}.${ending}`
}

/** The end of a file's name, from its media type. */
function endingOf(type: string): string {
  const [bare = ''] = type.toLowerCase().split(';', 1)
  const known = Object.hasOwn(endings, bare.trim()) ? endings[bare.trim()] : undefined
  if (known !== undefined) return known
  const [, suffix] = /\+([a-z0-9]{1,10})$/.exec(bare.trim()) ?? []
  const [, subtype] = /^[a-z]+\/(?:x-)?([a-z0-9]{1,10})$/.exec(bare.trim()) ?? []
  return suffix ?? subtype ?? 'bin'
}
