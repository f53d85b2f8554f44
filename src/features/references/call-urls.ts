/**
 * URLs of data in the arguments of one call, for servers that download it. Each works once, for a short time. A call that
 * is made again with responses has the same URLs: an approval is for the arguments as they were shown.
 */
import { world } from '../../core/world.ts'
import type { Call, Outcome } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Reference, References } from '../../records/references.ts'
import type { DataUrls } from './urls.ts'

/** How long a URL works, in milliseconds, and how much of that a call needs. */
const URL_TTL_MS = 900_000
const MIN_LEFT_MS = 60_000
/** The key of this layer in a call's request state, which is encrypted before it leaves the gateway. */
const STATE_KEY = 'reference_urls'

interface Deps {
  readonly urls: DataUrls
  readonly references: Pick<References, 'extend'>
}

/** The URLs of one call. */
export class CallUrls {
  readonly #call: Call
  readonly #deps: Deps
  readonly #known: Map<string, string>
  readonly #used = new Map<string, string>()

  constructor(call: Call, deps: Deps) {
    this.#call = call
    this.#deps = deps
    const state = call.requestState[STATE_KEY]
    this.#known = new Map(
      Object.entries(isObject(state) ? state : {}).flatMap(([key, url]) =>
        typeof url === 'string' && isLasting(url) ? [[key, url] as const] : [],
      ),
    )
  }

  /** Whether there are URLs: whether the gateway listens for HTTP. */
  get areHosted(): boolean {
    return this.#deps.urls.areHosted
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
      const signed = this.#deps.urls.open(id, new URL(url).searchParams)
      return signed?.sha256 === sha256 && !(await signed.isUsed())
    } catch (error) {
      // The keys of the gateway may have changed.
      if (asGatewayError(error).code === 'FORBIDDEN') return false
      throw error
    }
  }

  async #made(reference: Reference): Promise<string | undefined> {
    const { principal } = this.#call
    const { urls, references } = this.#deps
    const url = urls.of(principal, reference, { ttl: URL_TTL_MS, isOnce: true })
    if (url !== undefined) await references.extend(principal, reference.id, world.now() + URL_TTL_MS)
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
