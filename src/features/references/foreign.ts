/**
 * Data of servers that are not behind this gateway: it is downloaded from the URL that a caller names, and kept as data
 * of the caller.
 *
 * Invariant: only hosts of `allow_hosts` are reached, over https and at addresses of the internet; redirects are refused.
 * The URL is a credential: it occurs in no error, log or record.
 */
import { createHash, type Hash } from 'node:crypto'
import { bareHost } from '../../core/address.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Reference, References } from '../../records/references.ts'
import { type DialFailure, MAX_URL_LENGTH, type OpenedResponse, type Opener } from '../dialer.ts'
import { withBeginning } from './beginning.ts'
import { mediaTypeOf, SNIFFED_BYTES } from './media-type.ts'
import { nameIn } from './sent-file.ts'
import { UPLOADS } from '../../records/plain-name.ts'

/** How long a download may take, in milliseconds. */
const DOWNLOAD_TIMEOUT_MS = 600_000

interface Options {
  readonly references: References
  readonly opener: Opener
  readonly allowHosts: readonly string[]
  /** How long the data is kept, in milliseconds. */
  readonly ttl: number
}

/** Foreign data, as a caller describes it. */
export interface ForeignData {
  readonly url: string
  readonly checksum?: Checksum | undefined
}

/** The digest of data in hex. */
interface Checksum {
  readonly algorithm: 'sha256' | 'md5'
  readonly value: string
}

/**
 * Downloads data, and keeps it for the caller.
 * @throws PERMISSION_DENIED, UPSTREAM_ERROR, SERVER_UNAVAILABLE, CONFLICT if its checksum differs, QUOTA_EXHAUSTED
 */
export async function download(
  { principal, signal }: Call,
  { url: text, checksum }: ForeignData,
  { references, opener, allowHosts, ttl }: Options,
): Promise<Reference> {
  const url = allowedUrl(text, allowHosts)
  const response = await opener.open({
    url: url.href,
    headers: { accept: '*/*', 'accept-encoding': 'identity' },
    timeoutMs: DOWNLOAD_TIMEOUT_MS,
    signal,
  })
  if (response.kind === 'failed') throw failed(url.hostname, response.reason)
  try {
    const declared = contentOf(response, url.hostname)
    const bytes = checked(response.body, { host: url.hostname, checksum })
    const name = nameOf(url, response)
    const { found: type, all } = await withBeginning(bytes, SNIFFED_BYTES, (beginning) =>
      mediaTypeOf(beginning, { type: declared, name }),
    )
    return await references.add(principal, { server: UPLOADS, name, type, ttl }, all)
  } finally {
    response.close()
  }
}

/** @throws INVALID_INPUT, PERMISSION_DENIED */
function allowedUrl(text: string, allowHosts: readonly string[]): URL {
  if (!URL.canParse(text)) throw invalidParam('access_url', 'must be a URL')
  if (text.length > MAX_URL_LENGTH)
    throw invalidParam('access_url', `must have at most ${MAX_URL_LENGTH} characters`)
  const url = new URL(text)
  const host = bareHost(url.hostname)
  if (url.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw invalidParam('access_url', 'must be an https URL without a user')
  if (allowHosts.some((allowed) => bareHost(allowed) === host)) return url
  throw new GatewayError('PERMISSION_DENIED', 'The gateway does not download data from this host.', {
    field: 'access_url',
    reason: 'host',
    suggestion: 'Ask the operator of the gateway to add the host to features.references.allow_hosts.',
  })
}

/** The media type that a response declares. @throws UPSTREAM_ERROR if it is not the data */
function contentOf({ status, headers }: OpenedResponse, host: string): string | undefined {
  const encoding = headers['content-encoding']
  if (status >= 300 && status < 400) throw refused(host, 'with a redirect, which is not followed')
  if (status !== 200) throw refused(host, `with status ${status}`)
  if (encoding !== undefined && encoding !== 'identity') throw refused(host, 'with encoded data')
  const type = headers['content-type']
  return typeof type === 'string' ? type : undefined
}

/** The same bytes; fails at their end if their checksum is another one. */
async function* checked(
  bytes: AsyncIterable<Uint8Array>,
  { host, checksum }: { readonly host: string; readonly checksum: Checksum | undefined },
): AsyncGenerator<Uint8Array> {
  const hash: Hash | undefined = checksum && createHash(checksum.algorithm)
  try {
    for await (const chunk of bytes) {
      hash?.update(chunk)
      yield chunk
    }
  } catch {
    throw failed(host, 'connection')
  }
  if (hash && hash.digest('hex') !== checksum?.value)
    throw new GatewayError('CONFLICT', 'The downloaded data has another checksum than the given one.', {
      field: 'checksum',
      reason: 'checksum',
      suggestion: 'Request the reference again from the server that has the data.',
    })
}

/** The checksum among the arguments: `{algorithm, value}`, or the hex of a SHA-256. @throws INVALID_INPUT */
export function checksumOf(value: unknown): Checksum | undefined {
  if (value === undefined) return undefined
  const { algorithm, value: digest } = isObject(value) ? value : { algorithm: 'sha256', value }
  const hex = typeof digest === 'string' ? digest.toLowerCase() : ''
  if (algorithm === 'sha256' && /^[0-9a-f]{64}$/.test(hex)) return { algorithm, value: hex }
  if (algorithm === 'md5' && /^[0-9a-f]{32}$/.test(hex)) return { algorithm, value: hex }
  throw invalidParam('checksum', 'must be {algorithm, value} with the algorithm sha256 or md5, in hex')
}

/** What people call the data: as its server says, or the end of the path if that can only be the name of a file. */
function nameOf({ pathname }: URL, { headers }: OpenedResponse): string {
  const disposition = headers['content-disposition']
  const said = typeof disposition === 'string' ? nameIn(disposition) : undefined
  const last = pathname.split('/').at(-1) ?? ''
  return said || (FILE_NAME.test(last) ? last : 'download')
}

/** The path of a URL may be a secret: what could be one is no name. */
const FILE_NAME = /^[\w-]{1,20}\.[A-Za-z]{1,5}$/

function refused(host: string, how: string): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', `${host} answered ${how}, so the data was not imported.`, {
    suggestion: 'Request the reference again from the server that has the data.',
  })
}

function failed(host: string, reason: DialFailure): GatewayError {
  if (reason === 'aborted') return new GatewayError('CANCELLED', 'The download was cancelled.')
  if (reason === 'url' || reason === 'address')
    return new GatewayError('PERMISSION_DENIED', `${host} is not at an address of the internet.`, {
      field: 'access_url',
      reason: 'address',
    })
  return new GatewayError('SERVER_UNAVAILABLE', `The data could not be downloaded from ${host}: ${reason}.`, {
    suggestion: 'Try again later, or request the reference again.',
  })
}
