/**
 * The media type of a file, from its first bytes (as in the WHATWG's MIME Sniffing) and from what its sender says. What a
 * file is prevails over what it is called; a program or a page under the name of something harmless is refused.
 */
import { GatewayError } from '../../core/error.ts'
import { textType } from '../../core/text/file-type.ts'

/** How much of a file is looked at, in bytes. */
export const SNIFFED_BYTES = 1024

/** What a sender says of a file. */
export interface Declared {
  readonly type?: string | undefined
  readonly name?: string | undefined
}

/** How a kind of file begins. */
interface Signature {
  readonly type: string
  /** The bytes in hex, from `at`; `..` is any byte. */
  readonly begins: string
  readonly at?: number
  /** Other types that are stored in this form. */
  readonly holds?: RegExp
  /** It runs, or contains what does, where it is not expected. */
  readonly isActive?: true
}

const archives = /zip|openxmlformats|opendocument|java-archive|android|epub|x-compressed|\bkmz\b|\bxpi\b|3mf/
const isoMedia = /^(?:video|audio|image)\//

const signatures: readonly Signature[] = [
  { type: 'image/png', begins: '89504e470d0a1a0a' },
  { type: 'image/jpeg', begins: 'ffd8ff', holds: /^image\/(?:jpg|pjpeg)$/ },
  { type: 'image/gif', begins: '474946383.61' },
  { type: 'image/webp', begins: '52494646........57454250' },
  { type: 'audio/wav', begins: '52494646........57415645', holds: /^audio\/(?:x-wav|wave|vnd\.wave)$/ },
  { type: 'image/bmp', begins: '424d........00000000', holds: /^image\/x-(?:ms-)?bmp$/ },
  { type: 'image/tiff', begins: '49492a00', holds: /^image\// },
  { type: 'image/tiff', begins: '4d4d002a', holds: /^image\// },
  { type: 'application/pdf', begins: '255044462d', holds: /^application\/(?:x-pdf|illustrator)$/ },
  { type: 'application/zip', begins: '504b0304', holds: archives, isActive: true },
  { type: 'application/zip', begins: '504b0506', holds: archives, isActive: true },
  { type: 'application/gzip', begins: '1f8b', holds: /gzip|\btar\b|tgz|x-gtar|compressed/, isActive: true },
  { type: 'application/x-bzip2', begins: '425a68', holds: /bzip|\btar\b/, isActive: true },
  { type: 'application/x-xz', begins: 'fd377a585a00', holds: /xz|\btar\b/, isActive: true },
  { type: 'application/x-7z-compressed', begins: '377abcaf271c', isActive: true },
  { type: 'application/vnd.rar', begins: '526172211a07', holds: /rar/, isActive: true },
  { type: 'application/zstd', begins: '28b52ffd', holds: /zstd/, isActive: true },
  { type: 'application/x-elf', begins: '7f454c46', holds: /executable|sharedlib|x-object/, isActive: true },
  { type: 'application/x-mach-binary', begins: 'cffaedfe', holds: /executable/, isActive: true },
  { type: 'application/x-mach-binary', begins: 'cafebabe0000000', holds: /executable/, isActive: true },
  { type: 'application/java-vm', begins: 'cafebabe0000', holds: /java/, isActive: true },
  { type: 'application/wasm', begins: '0061736d', isActive: true },
  {
    type: 'application/x-cfb',
    begins: 'd0cf11e0a1b11ae1',
    holds: /^application\/(?:vnd\.ms-|msword|x-ms)/,
    isActive: true,
  },
  { type: 'video/mp4', begins: '66747970', at: 4, holds: isoMedia },
  { type: 'video/webm', begins: '1a45dfa3', holds: /matroska|^audio\/webm$/ },
  { type: 'audio/mpeg', begins: '494433', holds: /^audio\// },
  { type: 'audio/ogg', begins: '4f676753', holds: /ogg|opus/ },
  { type: 'audio/flac', begins: '664c6143', holds: /flac/ },
  { type: 'font/woff2', begins: '774f4632' },
  { type: 'application/vnd.sqlite3', begins: '53514c69746520666f726d6174203300', holds: /sqlite/ },
]

/** How far behind the header of a Windows program can be, in bytes. */
const MAX_PROGRAM_OFFSET = 65_536
/** Windows programs begin with two letters, so more of them is looked at. */
const PROGRAM = 'application/vnd.microsoft.portable-executable'
/** RFC 6838, with parameters. */
const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,100}(?:;[\x20-\x7e]{0,100})?$/
/** What senders write that say nothing. */
const NOTHING = /^(?:application\/(?:octet-stream|x-www-form-urlencoded|unknown)|binary\/octet-stream)$/

/** The media type of a file. @throws INVALID_INPUT if it is something harmful under another name */
export function mediaTypeOf(beginning: Uint8Array, declared: Declared): string {
  const bytes = Buffer.from(beginning.subarray(0, SNIFFED_BYTES))
  const given = declaredType(declared.type)
  const found = signatureOf(bytes)
  if (!found) return given ?? typeOfText(bytes, declared.name)
  const { type, holds, isActive } = found
  if (given === undefined || essence(given) === type) return given ?? type
  if (holds?.test(essence(given)) === true) return given
  if (isActive === true) throw surprising(given, type)
  return type
}

/** Whether a media type is one of some patterns, such as `image/*`. */
export function isOneOf(type: string, patterns: readonly string[]): boolean {
  const own = essence(type)
  return patterns.some((pattern) => {
    const wanted = essence(pattern)
    return (
      wanted === '*/*' || wanted === own || (wanted.endsWith('/*') && own.startsWith(wanted.slice(0, -1)))
    )
  })
}

/** A declared type; undefined if it says nothing, or is none. */
function declaredType(type: string | undefined): string | undefined {
  const given = type?.trim()
  return given !== undefined && MEDIA_TYPE.test(given) && !NOTHING.test(essence(given)) ? given : undefined
}

/** A type without its parameters. */
function essence(type: string): string {
  return (type.split(';', 1)[0] ?? '').trim().toLowerCase()
}

function signatureOf(bytes: Buffer): Signature | undefined {
  const hex = bytes.toString('hex', 0, 64)
  const found = signatures.find(({ begins, at = 0 }) => new RegExp(`^.{${at * 2}}${begins}`).test(hex))
  if (found) return found
  if (isProgram(bytes))
    return { type: PROGRAM, begins: '', holds: /x-msdownload|executable|x-dosexec/, isActive: true }
  return markupOf(bytes)
}

/** The header of a Windows program says where the one of its format is. */
function isProgram(bytes: Buffer): boolean {
  if (bytes.byteLength < 64 || bytes.toString('latin1', 0, 2) !== 'MZ') return false
  const at = bytes.readUInt32LE(60)
  if (at + 2 <= bytes.byteLength) return bytes.toString('latin1', at, at + 2) === 'PE'
  // It is further behind; in a text that begins with these letters, the number is larger by far.
  return at < MAX_PROGRAM_OFFSET
}

/** HTML and SVG, which browsers run. Any text may be the source of one. */
function markupOf(bytes: Buffer): Signature | undefined {
  const text = bytes
    .toString('utf8')
    .replace(/^\uFEFF/, '')
    .replace(/^(?:\s|<\?xml[^>]*\?>|<!--[^]*?-->)+/, '')
    .toLowerCase()
  if (/^<!doctype svg|^<svg[\s>]/.test(text))
    return { type: 'image/svg+xml', begins: '', holds: /^text\/|xml$/, isActive: true }
  if (
    /^<!doctype html|^<(?:html|head|body|script|iframe|title|style|meta|table|h1|div|a|p|br)[\s>]/.test(text)
  )
    return { type: 'text/html', begins: '', holds: /^text\/|xml$/, isActive: true }
  return undefined
}

function typeOfText(bytes: Buffer, name = ''): string {
  if (bytes.includes(0) || !isUtf8(bytes)) return 'application/octet-stream'
  return textType(name)
}

function isUtf8(bytes: Buffer): boolean {
  try {
    // The last character may be cut.
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true })
    return true
  } catch {
    return false
  }
}

function surprising(given: string, found: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The file is declared as ${given}, but is ${found}.`, {
    field: 'content-type',
    reason: 'media_type',
    suggestion: 'Send it with the type that it has, if that is intended.',
  })
}
