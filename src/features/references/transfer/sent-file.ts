/**
 * The file in a request: the body itself, or the only file of a form, and its media type. It is read as a stream. A file that
 * is too large, is not what its sender announced, or did not arrive completely is never kept: its bytes end with an error.
 */
import { createHash } from 'node:crypto'
import type { ByteExchange } from '../../../core/http-paths.ts'
import { pipeline } from 'node:stream/promises'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { textType } from '../../../core/text/file-type.ts'
import type { Bytes } from '../../../store/blobs/blobs.ts'

/** A file that is sent. */
interface SentFile {
  /** The media type as declared. */
  readonly type: string | undefined
  /** As its sender wrote it. */
  readonly name: string | undefined
  /** To be read once, to the end or until `return`. */
  readonly bytes: Bytes
}

/** What a file may be. */
export interface FileLimits {
  /** In bytes. */
  readonly maxSize: number
  /** Announced before, in bytes and in hex. */
  readonly size?: number | undefined
  readonly sha256?: string | undefined
}

/** How large a form may be besides its file, in bytes. */
const MAX_FORM_BYTES = 16 * 1024

type Exchange = Pick<ByteExchange, 'headers' | 'body'>

/**
 * The file of a request, whose bytes end with an error if it is not permitted.
 * @throws INVALID_INPUT, PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE
 */
export async function sentFile(exchange: Exchange, limits: FileLimits): Promise<SentFile> {
  const type = headerOf(exchange, 'content-type')
  const isForm = type !== undefined && /^multipart\/form-data\s*;/i.test(type)
  const length = Number(headerOf(exchange, 'content-length') ?? 0)
  if (length > limits.maxSize + (isForm ? MAX_FORM_BYTES : 0)) throw tooLarge(limits.maxSize)
  if (headerOf(exchange, 'content-encoding') !== undefined)
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A file is sent without Content-Encoding.')
  const digests = isForm ? digestsOfForm(exchange, limits) : digestsOf(exchange, limits)
  const file = isForm
    ? await fileOfForm(type, upTo(exchange.body, limits.maxSize))
    : { type, name: nameIn(headerOf(exchange, 'content-disposition')), bytes: exchange.body }
  return { ...file, bytes: checked(file.bytes, limits, digests) }
}

/** The bytes of a form; ends with an error if there are too many for a file of a size. */
async function* upTo(bytes: Bytes, maxSize: number): AsyncGenerator<Uint8Array> {
  let size = 0
  for await (const chunk of bytes) {
    size += chunk.byteLength
    if (size > maxSize + MAX_FORM_BYTES) throw tooLarge(maxSize)
    yield chunk
  }
}

function headerOf({ headers }: Pick<Exchange, 'headers'>, name: string): string | undefined {
  const value = headers[name]
  return typeof value === 'string' ? value : undefined
}

/** The bytes of a file; ends with an error if it is not permitted. */
async function* checked(
  bytes: Bytes,
  { maxSize, size: announced }: FileLimits,
  digests: readonly Digest[],
): AsyncGenerator<Uint8Array> {
  const hashes = digests.map((digest) => ({ ...digest, hash: createHash(digest.algorithm) }))
  let size = 0
  for await (const chunk of bytes) {
    size += chunk.byteLength
    if (size > maxSize) throw tooLarge(maxSize)
    for (const { hash } of hashes) hash.update(chunk)
    yield chunk
  }
  if (size === 0) throw new GatewayError('INVALID_INPUT', 'The file is empty.', { reason: 'empty' })
  if (announced !== undefined && size !== announced) throw otherSize(announced, size)
  for (const { hash, algorithm, value } of hashes)
    if (!hash.digest().equals(value)) throw otherDigest(algorithm)
}

interface Digest {
  readonly algorithm: 'sha256' | 'sha512'
  readonly value: Buffer
}

const algorithms: Readonly<Record<string, Digest['algorithm']>> = { 'sha-256': 'sha256', 'sha-512': 'sha512' }

/** The headers of digests: of RFC 9530, and of RFC 3230. */
const digestHeaders = ['repr-digest', 'content-digest', 'digest']

/** The digest that was announced before. */
function announcedDigest({ sha256 }: FileLimits): readonly Digest[] {
  return sha256 === undefined ? [] : [{ algorithm: 'sha256', value: Buffer.from(sha256, 'hex') }]
}

/** That of a file in a form. @throws INVALID_INPUT if the request states one: it would be that of the form */
function digestsOfForm(exchange: Exchange, limits: FileLimits): readonly Digest[] {
  const stated = digestHeaders.find((name) => headerOf(exchange, name) !== undefined)
  if (stated !== undefined) throw digestOfForm(stated)
  return announcedDigest(limits)
}

/** The one that was announced, and those that a request states. @throws INVALID_INPUT if none of a header can be checked */
function digestsOf(exchange: Exchange, limits: FileLimits): readonly Digest[] {
  const stated = digestHeaders.flatMap((name) => {
    const header = headerOf(exchange, name)
    if (header === undefined) return []
    const found = header.split(',').flatMap((each): readonly Digest[] => {
      const [, given = '', value = ''] = /^\s*([\w-]+)=:?([A-Za-z0-9+/=]+):?\s*$/.exec(each) ?? []
      const algorithm = algorithms[given.toLowerCase()]
      return algorithm ? [{ algorithm, value: Buffer.from(value, 'base64') }] : []
    })
    if (found.length === 0) throw unknownDigest(name)
    return found
  })
  return [...announcedDigest(limits), ...stated]
}

/** The file of a form, which may have a few fields too. @throws INVALID_INPUT if it has none */
async function fileOfForm(contentType: string, body: Bytes): Promise<SentFile> {
  const parser = parserFor(contentType)
  const controller = new AbortController()
  const found = new Promise<Omit<SentFile, 'bytes'> & { readonly stream: BusboyFileStream }>(
    (resolve, reject) => {
      parser.on('file', (...[, stream, name, , type]) => resolve({ stream, name, type }))
      parser.on('filesLimit', () => parser.destroy(badForm('it has more than one file')))
      parser.on('fieldsLimit', () => parser.destroy(badForm('it has too many fields')))
      parser.on('finish', () => reject(badForm('it has no file')))
      parser.on('error', (error) => reject(formError(error)))
    },
  )
  const read = pipeline(body, parser, { signal: controller.signal })
  // Its failure also fails the parser.
  read.catch(() => undefined)
  const { stream, type, name } = await found
  // A file whose form ends early would not end.
  read.catch((error: unknown) => stream.destroy(formError(error)))
  return { type, name, bytes: bytesOf(stream, read, () => controller.abort()) }
}

/** The bytes of the file; they end once the rest of the form is read too. */
async function* bytesOf(
  stream: BusboyFileStream,
  read: Promise<void>,
  stop: () => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* stream
    await read
  } catch (error) {
    throw formError(error)
  } finally {
    stop()
  }
}

function parserFor(type: string): InstanceType<typeof Busboy> {
  try {
    const limits = { files: 1, fields: 10, fieldSize: 1024, headerPairs: 20, headerSize: 4096 }
    return new Busboy({ headers: { 'content-type': type }, limits })
  } catch (error) {
    throw formError(error)
  }
}

/** An error of the request as it is; one of the parser with its reason. */
function formError(error: unknown): GatewayError {
  if (error instanceof GatewayError) return error
  return error instanceof Error ? badForm(error.message) : asGatewayError(error)
}

/** The name in a `Content-Disposition` (RFC 6266). */
export function nameIn(disposition: string | undefined): string | undefined {
  const [, encodedName] = /;\s*filename\*\s*=\s*utf-8'[^']*'([^\s;]+)/i.exec(disposition ?? '') ?? []
  if (encodedName !== undefined)
    try {
      return decodeURIComponent(encodedName)
    } catch {
      return undefined
    }
  const [, quoted, token] =
    /;\s*filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))/i.exec(disposition ?? '') ?? []
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? token
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `The file is larger than ${limit} bytes.`, {
    details: { limit },
  })
}

function otherSize(announced: number, size: number): GatewayError {
  return new GatewayError('INVALID_INPUT', `The file has ${size} bytes; ${announced} were announced.`, {
    reason: 'size',
  })
}

function otherDigest(algorithm: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The ${algorithm} of the file is not the one that was stated.`, {
    reason: 'digest',
    suggestion: 'Send the file again.',
  })
}

function unknownDigest(header: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The header ${header} has no digest that can be checked.`, {
    field: header,
    reason: 'digest',
    suggestion: 'Use sha-256 or sha-512, such as Repr-Digest: sha-256=:<base64>:',
  })
}

function digestOfForm(header: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The header ${header} of a form cannot be checked.`, {
    field: header,
    reason: 'digest',
    suggestion: 'Send the file as the body, or leave out the header.',
  })
}

function badForm(problem: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The form cannot be read: ${problem}.`, {
    reason: 'form',
    suggestion: 'Send multipart/form-data with one file, or the file as the body.',
  })
}

/**
 * The media type of a file, by its first bytes, and all of its bytes, to be read once. Those of a file that is refused are
 * closed. @throws INVALID_INPUT if it is something harmful under another name, UNSUPPORTED_MEDIA_TYPE if it is none of the
 * accepted types, where there are some
 */
export async function typedFile(
  bytes: Bytes,
  declared: Declared,
  accepted: readonly string[] = [],
): Promise<{ readonly type: string; readonly bytes: Bytes }> {
  const iterator = bytes[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  try {
    for (let read = 0; read < SNIFFED_BYTES;) {
      const { done: isEnd, value } = await iterator.next()
      if (isEnd === true) break
      first.push(value)
      read += value.byteLength
    }
    const type = mediaTypeOf(Buffer.concat(first), declared)
    if (accepted.length > 0 && !isOneOf(type, accepted))
      throw new GatewayError(
        'UNSUPPORTED_MEDIA_TYPE',
        `The file is ${type}; ${accepted.join(', ')} is expected.`,
        { reason: 'media_type' },
      )
    return { type, bytes: joined(first, iterator) }
  } catch (error) {
    await iterator.return?.()
    throw error
  }
}

async function* joined(
  first: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* first
    for (;;) {
      const { done: isEnd, value } = await rest.next()
      if (isEnd === true) return
      yield value
    }
  } finally {
    await rest.return?.()
  }
}

/** How much of a file is looked at, in bytes. */
const SNIFFED_BYTES = 1024

/** What a sender says of a file. */
interface Declared {
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
    const accepted = essence(pattern)
    return (
      accepted === '*/*' ||
      accepted === own ||
      (accepted.endsWith('/*') && own.startsWith(accepted.slice(0, -1)))
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
