/** The arguments of a tool that accept media: by its schema, or by their names. */
import { isObject } from './json/json.ts'
import { wordsOf } from './text/words.ts'

/** An argument that accepts media. */
export interface Input {
  readonly name: string
  /** The media type, or a range of types. */
  readonly type: string
  /** Whether it contains bytes, in base64 or a data URI; otherwise it contains their location. */
  readonly isBinary: boolean
  /** The schema declares the type. */
  readonly isDeclared: boolean
}

/** The arguments of a tool that accept media, by their schema or their names. */
export function inputsOf(inputSchema: unknown): readonly Input[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  if (!isObject(properties)) return []
  return Object.entries(properties).flatMap(([name, schema]) => inputOf(name, schema) ?? [])
}

/** The distinct media types that a tool accepts. */
export function inputTypes(inputs: readonly Input[]): string[] {
  return [...new Set(inputs.map(({ type }) => type))].toSorted()
}

const formats: ReadonlySet<unknown> = new Set(['byte', 'binary', 'data-url', 'data-uri'])
const OCTETS = 'application/octet-stream'

function inputOf(name: string, schema: unknown): Input | undefined {
  const own = isObject(schema) && schema.type === 'array' ? schema.items : schema
  if (!isObject(own) || (own.type !== undefined && ![own.type].flat().includes('string'))) return undefined
  const { contentEncoding, contentMediaType, format } = own
  const typeByName = typeFromName(name)
  const isBinary = contentEncoding === 'base64' || formats.has(format)
  if (typeof contentMediaType === 'string' && contentMediaType.length <= 100)
    return { name, type: contentMediaType, isBinary, isDeclared: true }
  if (isBinary) return { name, type: typeByName ?? OCTETS, isBinary, isDeclared: false }
  if (format === 'uri' || format === 'url')
    return { name, type: 'text/uri-list', isBinary, isDeclared: false }
  if (typeByName === undefined || Array.isArray(own.enum)) return undefined
  return { name, type: typeByName, isBinary: true, isDeclared: false }
}

const kinds: Readonly<Record<string, string>> = {
  image: 'image/*',
  images: 'image/*',
  audio: 'audio/*',
  video: 'video/*',
  attachment: OCTETS,
  attachments: OCTETS,
  file: OCTETS,
  files: OCTETS,
  base64: OCTETS,
}
const endings: ReadonlySet<string | undefined> = new Set(['data', 'base64', 'bytes', 'content'])

/** The media type that an argument's name implies: `imageData` takes an image, `image_id` and `file_path` do not. */
function typeFromName(name: string): string | undefined {
  const words = wordsOf(name)
  const last = words.at(-1) ?? ''
  const about = endings.has(last) && words.length > 1 ? words.at(-2) : undefined
  const kind = (word: string | undefined): string | undefined =>
    word !== undefined && Object.hasOwn(kinds, word) ? kinds[word] : undefined
  return kind(about) ?? kind(last)
}
