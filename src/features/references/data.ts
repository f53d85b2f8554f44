/**
 * Kept data over HTTP: `GET /data/<ref_id>`, with a signature in the URL or with the credentials of its caller. It is
 * served so that no browser runs it, whatever it contains. It does not expire while it is sent.
 */
import { world } from '../../core/world.ts'
import type { ByteExchange, ByteResponse, Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import type { ByteRange } from '../../store/blobs/blobs.ts'
import { answered } from '../builtin-tool.ts'
import type { ByteRoute } from '../feature.ts'
import { loggedReference } from './logged.ts'
import { readableReference } from './may-read.ts'
import { DATA_PATH, type DataUrls } from './urls.ts'

interface Options {
  readonly references: References
  readonly urls: DataUrls
  mayRead(reference: Reference, call: Call): Promise<boolean>
  readonly log: Log
}

/** How often the expiry of data in use is looked at, from when on it is moved, and how far, in milliseconds. */
const EXTEND_INTERVAL_MS = 10_000
const SOON_MS = 30_000
const EXTENSION_MS = 60_000
/** How long one use may keep data beyond its expiry, in milliseconds. */
const MAX_USE_MS = 3_600_000

/** The path of data. */
export function dataRoute(options: Options): ByteRoute {
  return {
    verb: 'GET',
    path: `${DATA_PATH}:ref_id`,
    bearer: async ({ name, query }) => options.urls.open(name, query)?.principal,
    handle: async (call) => {
      const resume = call.pauseDeadline?.()
      try {
        await serve(call, options)
      } finally {
        resume?.()
      }
      return answered({})
    },
  }
}

async function serve(call: Call, options: Options): Promise<void> {
  const { exchange } = call
  if (!exchange) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  const { references, urls } = options
  const signed = urls.open(exchange.name, exchange.query)
  const reference = await readableReference(call, exchange.name, options)
  if (signed && signed.sha256 !== reference.sha256) throw unknownReference()
  if (exchange.verb !== 'HEAD') await signed?.use()
  call.logFields.set('references', [loggedReference(reference)])
  const { range, ...response } = answerTo(exchange, reference)
  if (!range || exchange.verb === 'HEAD') return exchange.send(response)
  const body = await references.open(reference, range)
  await whileKept(options, call, reference, () => exchange.send({ ...response, body }))
}

/** Runs a function while the data is kept. */
async function whileKept(
  { references, log }: Options,
  { principal }: Call,
  { id, expiresAt }: Reference,
  use: () => Promise<void>,
): Promise<void> {
  const until = world.now() + MAX_USE_MS
  let expiry = expiresAt
  const extend = async (): Promise<void> => {
    const now = world.now()
    if (expiry - now > SOON_MS || now > until) return
    expiry = now + EXTENSION_MS
    await references.extend(principal, id, expiry)
  }
  await extend()
  const timer = world.setInterval(() => background(extend(), log), EXTEND_INTERVAL_MS)
  try {
    await use()
  } finally {
    world.clearInterval(timer)
  }
}

interface Answer extends Pick<ByteResponse, 'status' | 'headers'> {
  /** The bytes of the body; absent if there are none. */
  readonly range?: ByteRange
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>

/** The response to a request, by its conditions and range (RFC 9110 sections 13 and 14). */
function answerTo(
  { verb, headers: requested }: Pick<ByteExchange, 'verb' | 'headers'>,
  reference: Reference,
): Answer {
  const { size, sha256 } = reference
  const etag = `"${sha256}"`
  const headers = headersOf(reference, etag)
  if (matches(requested['if-none-match'], etag)) return { status: 304, headers }
  const whole = {
    status: 200,
    headers: { ...headers, 'content-length': String(size) },
    range: { start: 0, end: size },
  }
  const condition = requested['if-range']
  // A range counts for GET only.
  const isRanged = verb === 'GET' && (condition === undefined || condition === etag)
  const range = isRanged ? rangeOf(requested.range, size) : undefined
  if (range === undefined) return whole
  if (range === 'unsatisfiable')
    return { status: 416, headers: { ...headers, 'content-range': `bytes */${size}`, 'content-length': '0' } }
  const { start, end } = range
  const partial = {
    'content-range': `bytes ${start}-${end - 1}/${size}`,
    'content-length': String(end - start),
  }
  return { status: 206, headers: { ...headers, ...partial }, range }
}

function headersOf({ name, type, sha256 }: Reference, etag: string): Readonly<Record<string, string>> {
  return {
    // Servers may name types with characters that no header can have.
    'content-type': /^[\x20-\x7e]+$/.test(type) ? type : 'application/octet-stream',
    'content-disposition': `attachment; ${filenameOf(name)}`,
    'accept-ranges': 'bytes',
    etag,
    'repr-digest': `sha-256=:${Buffer.from(sha256, 'hex').toString('base64')}:`,
    'cache-control': 'private, no-store',
    'content-security-policy': "sandbox; default-src 'none'",
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    vary: 'Origin, Authorization',
  }
}

/** The name of a file, which is a plain one, in ASCII and as it is (RFC 6266). */
function filenameOf(name: string): string {
  const ascii = name.replaceAll(/[^\x20-\x7e]|["\\%]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(/['()*]/g, encodedCharacter)
  return `filename="${ascii}"; filename*=UTF-8''${encoded}`
}

function encodedCharacter(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}

function matches(header: Headers[string], etag: string): boolean {
  if (typeof header !== 'string') return false
  return header.split(',').some((each) => [etag, `W/${etag}`, '*'].includes(each.trim()))
}

/** The requested range; undefined if there is none, or several, which are all answered with everything. */
function rangeOf(header: Headers[string], size: number): ByteRange | 'unsatisfiable' | undefined {
  const found = typeof header === 'string' ? /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim()) : null
  const [, first = '', last = ''] = found ?? []
  if (first === '' && last === '') return undefined
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (first !== '' && last !== '' && Number(last) < Number(first)) return undefined
  return start >= size || end <= start ? 'unsatisfiable' : { start, end }
}
