/** The content blocks of a result that hold data: text, media and embedded resources (server/tools, "Tool result"). */
import { isObject } from '../../core/json/json.ts'
import { endingOf } from './file-name.ts'

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
