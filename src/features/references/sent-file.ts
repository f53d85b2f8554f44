/**
 * The file in a request: the body itself, or the only file of a form. It is read as a stream. A file that is too large, is
 * not what its sender announced, or did not arrive completely is never kept: its bytes end with an error.
 */
import { createHash } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { Busboy, type BusboyFileStream } from '@fastify/busboy'
import type { ByteExchange } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'

/** A file that is sent. */
export interface SentFile {
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
  if (headerOf(exchange, 'content-encoding') !== undefined) throw encoded()
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
  if (size === 0) throw empty()
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

function empty(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'The file is empty.', { reason: 'empty' })
}

function encoded(): GatewayError {
  return new GatewayError('UNSUPPORTED_MEDIA_TYPE', 'A file is sent without Content-Encoding.')
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
