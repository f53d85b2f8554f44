/**
 * The draft extension `files` (SEP-2631): `files/authorizeUpload` and `files/authorizeDownload`. The gateway answers them
 * with URLs of its own, for files whose URIs are references. A server that has them itself is asked first at its own
 * address; what it returns is checked, since clients send the bytes there.
 */
import { world } from '../../core/world.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { unknownMethod } from '../../protocol/methods.ts'
import type { Reference, References } from '../../records/references.ts'
import { answered } from '../builtin-tool.ts'
import type { Services } from '../feature.ts'
import { readableReference } from './may-read.ts'
import { uriOf } from './preview.ts'
import { parseReference, SCHEME } from './selection.ts'
import { MAX_NAME_LENGTH, type UploadService } from './uploads.ts'
import type { DataUrls } from './urls.ts'

interface Options {
  readonly references: References
  readonly uploads: UploadService
  readonly urls: DataUrls
  /** How long URLs of data work, in milliseconds; undefined if clients get none. */
  readonly urlTtl: number | undefined
  /** The hosts, besides its own, at which a server may have clients transfer files. */
  hosts(upstream: string): readonly string[]
  mayRead(reference: Reference, call: Call): Promise<boolean>
  readonly deps: Pick<Services, 'invoker' | 'servers'>
}

/** The direction of a transfer, as clients declare it. */
export type Direction = 'upload' | 'download'

/** Whether a client can transfer files. */
export function canTransfer(
  { client: { capabilities } }: Pick<Call, 'client'>,
  direction: Direction,
): boolean {
  const { files } = capabilities
  return isObject(files) && files[direction] === true
}

/** The methods. */
export function fileMethods(options: Options): Readonly<Record<string, Handler>> {
  return {
    'files/authorizeUpload': (call) =>
      transfer(call, 'upload', { ...options, answer: () => authorizeUpload(call, options) }),
    'files/authorizeDownload': (call) =>
      transfer(call, 'download', { ...options, answer: () => authorizeDownload(call, options) }),
  }
}

/** The answer of the server if it has the method, else the one of the gateway. */
async function transfer(
  call: Call,
  direction: Direction,
  options: Options & { answer(): Promise<Outcome> },
): Promise<Outcome> {
  if (!canTransfer(call, direction)) throw unknownMethod(call.method)
  const { upstream } = call.target
  const { uri } = call.params.fields
  const isOwn = direction === 'download' && typeof uri === 'string' && uri.startsWith(SCHEME)
  if (upstream === undefined || isOwn) return options.answer()
  const outcome = await relayed(call, upstream, options)
  if (!outcome) return options.answer()
  if (outcome.kind === 'result')
    for (const name of ['upload', 'download']) checkDescriptor(outcome.result.member(name), upstream, options)
  return outcome
}

/** What a server answers; undefined if it does not have the method. */
async function relayed(call: Call, upstream: string, { deps }: Options): Promise<Outcome | undefined> {
  try {
    return await deps.invoker.relay({ ...call, target: { upstream, method: call.method } })
  } catch (error) {
    if (error instanceof GatewayError && error.rpc === METHOD_NOT_FOUND) return undefined
    throw error
  }
}

const METHOD_NOT_FOUND = -32601

/** Clients send and get bytes at the URL of a descriptor. @throws UPSTREAM_ERROR if it is not one of the server's */
function checkDescriptor(descriptor: unknown, upstream: string, { hosts, deps }: Options): void {
  if (descriptor === undefined) return
  const text = isObject(descriptor) && typeof descriptor.url === 'string' ? descriptor.url : ''
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url?.protocol !== 'https:') throw badDescriptor(upstream, 'is not an https URL')
  const reach = deps.servers.settings(upstream)?.reach
  const own = reach?.kind === 'url' ? [new URL(String(reach.url)).hostname] : []
  if ([...own, ...hosts(upstream)].includes(url.hostname)) return
  throw badDescriptor(upstream, `is at ${url.hostname}, which is not a host of the server`)
}

function badDescriptor(upstream: string, problem: string): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', `The URL for the transfer ${problem}.`, {
    reason: 'transfer_url',
    forOperator: `Server ${upstream}: the URL for the transfer of a file ${problem}. Add the host to file_hosts of features.references of the server, if it is right.`,
  })
}

async function authorizeUpload(call: Call, { uploads }: Options): Promise<Outcome> {
  const { name, mimeType, size, digest } = call.params.fields
  const sha256 = digest === undefined ? undefined : sha256In(digest)
  if (size !== undefined && (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 1))
    throw invalidParam('size', 'must be a positive integer')
  if (size !== undefined && size > uploads.max) throw tooLarge(uploads.max, size)
  if (mimeType !== undefined && (typeof mimeType !== 'string' || !MEDIA_TYPE.test(mimeType)))
    throw invalidParam('mimeType', 'must be a media type')
  if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH))
    throw invalidParam('name', `must be a text of 1 to ${MAX_NAME_LENGTH} characters`)
  mustBeHttps(uploads.url)
  const { request, url } = await uploads.request(call.principal, {
    name,
    maxSize: size ?? uploads.max,
    size,
    sha256,
    types: mimeType === undefined ? [] : [mimeType],
    isForProgram: true,
  })
  const file = { uri: uriOf(request), name, mimeType, size, digest }
  const headers = mimeType === undefined ? {} : { headers: { 'content-type': mimeType } }
  const expiresAt = isoTime(request.expiresAt)
  return answered({ file, upload: { transport: 'https', method: 'PUT', url, ...headers, expiresAt } })
}

async function authorizeDownload(call: Call, options: Options): Promise<Outcome> {
  const { uri } = call.params.fields
  const written = typeof uri === 'string' ? parseReference(uri) : undefined
  const isWhole = written !== undefined && Object.keys(written.part).length === 0
  if (!isWhole) throw invalidParam('uri', 'must be the URI of a file')
  const { references, urls, urlTtl: ttl } = options
  const reference = await readableReference(call, written.id, options)
  const url = ttl === undefined ? undefined : urls.of(call.principal, reference, { ttl })
  if (ttl === undefined || url === undefined)
    throw new GatewayError('UNSUPPORTED_OPERATION', 'The gateway returns no URLs of files.', {
      suggestion: 'Read the file by resources/read, or set features.references.urls: true.',
    })
  mustBeHttps(url)
  const until = world.now() + ttl
  await references.extend(call.principal, reference.id, until)
  const expiresAt = isoTime(until)
  return answered({
    file: fileOf(reference),
    download: { transport: 'https', method: 'GET', url, expiresAt },
  })
}

/** A file as the extension describes it. */
function fileOf(reference: Reference): Readonly<Record<string, unknown>> {
  const { name, type: mimeType, size, sha256 } = reference
  const value = Buffer.from(sha256, 'hex').toString('base64url')
  return { uri: uriOf(reference), name, mimeType, size, digest: { algorithm: 'sha-256', value } }
}

const MEDIA_TYPE = /^[\w.+-]{1,60}\/[\w.+-]{1,100}$/

/** The SHA-256 of a digest, in hex. @throws INVALID_INPUT */
function sha256In(digest: unknown): string {
  const { algorithm, value } = isObject(digest) ? digest : {}
  const isValid = algorithm === 'sha-256' && typeof value === 'string' && /^[\w-]{43}$/.test(value)
  if (!isValid) throw invalidParam('digest', 'must be a sha-256 in base64url without padding')
  return Buffer.from(value, 'base64url').toString('hex')
}

/** The extension has no other transport. @throws UNSUPPORTED_OPERATION */
function mustBeHttps(url: string | undefined): void {
  if (url?.startsWith('https:')) return
  throw new GatewayError('UNSUPPORTED_OPERATION', 'Files are transferred over https only.', {
    suggestion: 'Set listen.public_url to the https address of the gateway.',
  })
}

function tooLarge(maxSize: number, actualSize: number): GatewayError {
  return new GatewayError('INVALID_INPUT', `A file may have at most ${maxSize} bytes.`, {
    field: 'size',
    reason: 'too_large',
    data: { maxSize, actualSize },
  })
}
