/**
 * URLs of data in the arguments of one call, for servers that download it. Each works once, for a short time. A call that
 * is made again with responses has the same URLs: an approval is for the arguments as they were shown.
 */
import type { Call, Outcome } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import type { Reference } from '../../records/references.ts'
import type { DataUrls } from './urls.ts'

/** How long a URL works, in milliseconds, and how much of that a call needs. */
const URL_TTL_MS = 900_000
const MIN_LEFT_MS = 60_000
/** The key of this layer in a call's request state, which is encrypted before it leaves the gateway. */
const STATE_KEY = 'reference_urls'

/** The URLs of one call. */
export class CallUrls {
  readonly #call: Call
  readonly #urls: DataUrls
  readonly #known: Map<string, string>
  readonly #used = new Map<string, string>()

  constructor(call: Call, urls: DataUrls) {
    this.#call = call
    this.#urls = urls
    const state = call.requestState[STATE_KEY]
    this.#known = new Map(
      Object.entries(isObject(state) ? state : {}).flatMap(([key, url]) =>
        typeof url === 'string' && isLasting(url) ? [[key, url] as const] : [],
      ),
    )
  }

  /** Whether there are URLs: whether the gateway listens for HTTP. */
  get areHosted(): boolean {
    return this.#urls.areHosted
  }

  /** The URL of data at a place of the arguments; undefined where the gateway does not listen for HTTP. */
  of(reference: Reference, key: string): string | undefined {
    const options = { ttl: URL_TTL_MS, isOnce: true } as const
    const url = this.#known.get(key) ?? this.#urls.of(this.#call.principal, reference, options)
    if (url !== undefined) this.#used.set(key, url)
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
  return expiry > Date.now() + MIN_LEFT_MS
}
