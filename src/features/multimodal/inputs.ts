import { isObject } from '../../core/json.ts'
import { wordsOf } from '../../core/words.ts'

/** An argument of a tool that takes media. */
export interface Input {
  readonly name: string
  /** What it takes, as a media type or a range of them. */
  readonly type: string
  /** Whether bytes stand in it, in base64 or a data URI; else it says where they are. */
  readonly isBinary: boolean
  /** The type is the schema's own word. */
  readonly isDeclared: boolean
}

/** The arguments of a tool that take media: as its schema says, else as they are called. */
export function inputsOf(inputSchema: unknown): readonly Input[] {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  if (!isObject(properties)) return []
  return Object.entries(properties).flatMap(([name, schema]) => inputOf(name, schema) ?? [])
}

/** The media types a tool takes, each once. */
export function inputTypes(inputs: readonly Input[]): string[] {
  return [...new Set(inputs.map(({ type }) => type))].toSorted()
}

const formats: ReadonlySet<unknown> = new Set(['byte', 'binary', 'data-url', 'data-uri'])
const OCTETS = 'application/octet-stream'

function inputOf(name: string, schema: unknown): Input | undefined {
  const own = isObject(schema) && schema.type === 'array' ? schema.items : schema
  if (!isObject(own) || (own.type !== undefined && ![own.type].flat().includes('string'))) return undefined
  const { contentEncoding, contentMediaType, format } = own
  const called = typeCalled(name)
  const isBinary = contentEncoding === 'base64' || formats.has(format)
  if (typeof contentMediaType === 'string' && contentMediaType.length <= 100)
    return { name, type: contentMediaType, isBinary, isDeclared: true }
  if (isBinary) return { name, type: called ?? OCTETS, isBinary, isDeclared: false }
  if (format === 'uri' || format === 'url')
    return { name, type: 'text/uri-list', isBinary, isDeclared: false }
  if (called === undefined || Array.isArray(own.enum)) return undefined
  return { name, type: called, isBinary: true, isDeclared: false }
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

/** What the name of an argument says that it takes: `imageData` takes an image, `image_id` and `file_path` do not. */
function typeCalled(name: string): string | undefined {
  const words = wordsOf(name)
  const last = words.at(-1) ?? ''
  const about = endings.has(last) && words.length > 1 ? words.at(-2) : undefined
  const kind = (word: string | undefined): string | undefined =>
    word !== undefined && Object.hasOwn(kinds, word) ? kinds[word] : undefined
  return kind(about) ?? kind(last)
}
