/**
 * URLs of kept data, for programs that cannot send credentials and for servers that download it, and what answers at them.
 * A URL names the data, its expiry and, sealed, the caller whose rights apply: whoever has it reads the data until then, as
 * long as that caller may.
 *
 * Invariant: a signature is valid for one id, its data and one expiry, and a URL that works once does so for all gateways that
 * share the store.
 */
import { deadlineSlot } from '../../../core/slot.ts'
import { hash } from 'node:crypto'
import type { Call, Outcome } from '../../../core/call.ts'
import { type ByteExchange, type ByteResponse, byteExchangeSlot } from '../../../core/http-paths.ts'
import { asGatewayError, GatewayError } from '../../../core/error.ts'
import { asObject } from '../../../core/json/json.ts'
import { background, type Log } from '../../../core/log.ts'
import type { Principal } from '../../../core/principal.ts'
import { world } from '../../../core/world.ts'
import { hasMembers } from '../../../durable/collection.ts'
import { fromStoredPrincipal, type StoredPrincipal, toStoredPrincipal } from '../../../records/principal.ts'
import { type Reference, type References, unknownReference } from '../../../records/references.ts'
import type { ByteRange } from '../../../store/blobs/blobs.ts'
import { answered } from '../../builtin-tool.ts'
import type { ByteRoute, Services } from '../../feature.ts'
import { loggedReference } from '../kept-data.ts'
import { readableReference, type ReferenceAccess } from '../read.ts'

/** The path of data, before its id. */
const DATA_PATH = '/data/'

/** What a valid URL says. */
interface SignedUrl {
  readonly principal: Principal
  /** The SHA-256 of the data: under the same id there may be other data now. */
  readonly sha256: string
  /** Uses up a URL that works once, and does nothing for others. @throws FORBIDDEN if it was used before */
  use(): Promise<void>
  /** Whether it was used up. */
  isUsed(): Promise<boolean>
}

interface Sealed {
  readonly principal: StoredPrincipal
  readonly sha256: string
  readonly isOnce?: true
}

/** Makes URLs of kept data, and checks them. */
export class DataUrls {
  readonly #deps: Pick<Services, 'identity' | 'pages' | 'store'>
  readonly #now: () => number

  constructor(deps: Pick<Services, 'identity' | 'pages' | 'store'>, now: () => number = world.now) {
    this.#deps = deps
    this.#now = now
  }

  /** Whether the gateway listens for HTTP, so that there are URLs. */
  get areHosted(): boolean {
    return this.#deps.pages.url(DATA_PATH) !== undefined
  }

  /**
   * A URL of a caller's data, which works for `ttl` milliseconds: a credential. Undefined where the gateway does not listen
   * for HTTP. `isOnce`: it works for one GET; HEAD does not count.
   */
  of(
    principal: Principal,
    { id, sha256 }: Pick<Reference, 'id' | 'sha256'>,
    ttl: number,
    isOnce = false,
  ): string | undefined {
    const base = this.#deps.pages.url(`${DATA_PATH}${id}`)
    if (base === undefined) return undefined
    const exp = this.#now() + ttl
    const value: Sealed = { principal: toStoredPrincipal(principal), sha256, ...(isOnce && { isOnce: true }) }
    const sig = this.#deps.identity.seal.close(value, useOf(id, exp), exp)
    return `${base}?sig=${sig}&exp=${exp}`
  }

  /** What the query of a URL says; undefined if it has no signature. @throws FORBIDDEN if it is not valid */
  open(id: string, query: URLSearchParams): SignedUrl | undefined {
    const sig = query.get('sig')
    if (sig === null) return undefined
    const exp = Number(query.get('exp') ?? Number.NaN)
    if (!Number.isSafeInteger(exp) || exp < this.#now()) throw invalidUrl()
    const opened = this.#deps.identity.seal.open(sig, useOf(id, exp))
    if (opened.kind !== 'valid' || !isSealed(opened.value)) throw invalidUrl()
    const { principal, sha256, isOnce } = opened.value
    return {
      principal: fromStoredPrincipal(principal),
      sha256,
      use: async () => {
        if (isOnce) await this.#useUp(opened.nonce, exp)
      },
      isUsed: async () => (await this.#deps.store.get(usedKey(opened.nonce))) !== undefined,
    }
  }

  async #useUp(nonce: string, exp: number): Promise<void> {
    const ttl = Math.max(1, exp - this.#now()) + MARGIN_MS
    const before = await this.#deps.store.setIfAbsent(usedKey(nonce), '', ttl)
    if (before !== undefined) throw invalidUrl()
  }
}

/** How long a used URL is remembered after its expiry, in milliseconds: the clocks of gateways may differ. */
const MARGIN_MS = 60_000

function usedKey(nonce: string): string {
  return `reference-url:${hash('sha256', nonce)}`
}

function useOf(id: string, exp: number): { readonly purpose: string; readonly binding: string } {
  return { purpose: 'data-url', binding: `${id}.${exp}` }
}

/** Only this file seals values for this purpose. */
const isSealed = hasMembers<Sealed>({ string: ['sha256'], object: ['principal'] })

function invalidUrl(): GatewayError {
  return new GatewayError('FORBIDDEN', 'This URL is not valid, has expired or has been used.', {
    reason: 'url',
    suggestion: 'Request another URL of the data.',
  })
}

/** How long a URL works, in milliseconds, and how much of that a call needs. */
const URL_TTL_MS = 900_000
const MIN_LEFT_MS = 60_000
/** The key of this layer in a call's request state, which is encrypted before it leaves the gateway. */
const STATE_KEY = 'reference_urls'

/** The URLs of one call. */
export class CallUrls {
  readonly #call: Call
  readonly #urls: DataUrls
  readonly #references: Pick<References, 'extend'>
  readonly #known: Map<string, string>
  readonly #used = new Map<string, string>()

  constructor(call: Call, urls: DataUrls, references: Pick<References, 'extend'>) {
    this.#call = call
    this.#urls = urls
    this.#references = references
    const state = call.requestState[STATE_KEY]
    this.#known = new Map(
      Object.entries(asObject(state)).flatMap(([key, url]) =>
        typeof url === 'string' && isLasting(url) ? [[key, url] as const] : [],
      ),
    )
  }

  /** Whether there are URLs: whether the gateway listens for HTTP. */
  get areHosted(): boolean {
    return this.#urls.areHosted
  }

  /**
   * The URL of data at a place of the arguments; the data is kept as long as it works. Undefined where the gateway does not
   * listen for HTTP.
   */
  async of(reference: Reference, key: string): Promise<string | undefined> {
    const known = this.#known.get(key)
    const isKnown = known !== undefined && (await this.#works(known, reference))
    const url = isKnown ? known : await this.#made(reference)
    if (url !== undefined) this.#used.set(key, url)
    return url
  }

  /** Whether a URL of an earlier round is for this data, and not used yet. */
  async #works(url: string, { id, sha256 }: Reference): Promise<boolean> {
    try {
      const signed = this.#urls.open(id, new URL(url).searchParams)
      return signed?.sha256 === sha256 && !(await signed.isUsed())
    } catch (error) {
      // The keys of the gateway may have changed.
      if (asGatewayError(error).code === 'FORBIDDEN') return false
      throw error
    }
  }

  async #made(reference: Reference): Promise<string | undefined> {
    const { principal } = this.#call
    const url = this.#urls.of(principal, reference, URL_TTL_MS, true)
    if (url !== undefined) await this.#references.extend(principal, reference.id, world.now() + URL_TTL_MS)
    return url
  }

  /** The outcome with the URLs for the next round, if there is one. */
  after(outcome: Outcome): Outcome {
    if (outcome.kind === 'result' || this.#used.size === 0) return outcome
    const state = { [STATE_KEY]: Object.fromEntries(this.#used) }
    return { ...outcome, requestState: { ...outcome.requestState, ...state } }
  }
}

function isLasting(url: string): boolean {
  const expiry = Number(URL.parse(url)?.searchParams.get('exp'))
  return expiry > world.now() + MIN_LEFT_MS
}

interface DataAccess extends ReferenceAccess {
  readonly urls: DataUrls
  readonly log: Log
}

/** How often it is checked whether data in use expires, how long before that it is held, and for how long, in milliseconds. */
const CHECK_INTERVAL_MS = 10_000
const SOON_MS = 30_000
const HOLD_MS = 60_000
/** How long one use may hold data beyond its expiry, in milliseconds. */
const MAX_USE_MS = 3_600_000

/** The path of data. */
export function dataRoute(options: DataAccess): ByteRoute {
  return {
    verb: 'GET',
    path: `${DATA_PATH}:ref_id`,
    bearer: async ({ name, query }) => options.urls.open(name, query)?.principal,
    handle: (call) => exchanged(call, (exchange) => serve(call, exchange, options)),
  }
}

/** Answers a request of bytes, which may take longer than a call. */
export async function exchanged(
  call: Call,
  serveBytes: (exchange: ByteExchange) => Promise<void>,
): Promise<Outcome> {
  const exchange = byteExchangeSlot.of(call)
  if (!exchange) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  const resume = deadlineSlot.of(call)?.pause()
  try {
    await serveBytes(exchange)
  } finally {
    resume?.()
  }
  return answered({})
}

async function serve(call: Call, exchange: ByteExchange, options: DataAccess): Promise<void> {
  const { references, urls } = options
  const signed = urls.open(exchange.name, exchange.query)
  const reference = await readableReference(call, exchange.name, options)
  if (signed && signed.sha256 !== reference.sha256) throw unknownReference()
  if (exchange.verb !== 'HEAD') await signed?.use()
  call.logFields.set('references', [loggedReference(reference)])
  const { range, ...response } = answerTo(exchange, reference)
  if (!range || exchange.verb === 'HEAD') return exchange.send(response)
  const body = await references.open(reference, range)
  await whileHeld(options, reference, () => exchange.send({ ...response, body }))
}

/** Runs a function while the bytes of the data are held. The data expires as before. */
async function whileHeld(
  { references, log }: DataAccess,
  reference: Reference,
  use: () => Promise<void>,
): Promise<void> {
  const until = world.now() + MAX_USE_MS
  let heldUntil = reference.expiresAt
  const hold = async (): Promise<void> => {
    const now = world.now()
    if (heldUntil - now > SOON_MS || now > until) return
    heldUntil = now + HOLD_MS
    await references.hold(reference, heldUntil)
  }
  await hold()
  const timer = world.setInterval(() => background(hold(), log), CHECK_INTERVAL_MS)
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
