/**
 * URLs of kept data for programs that cannot send credentials. A URL names the data, its expiry and, sealed, the caller
 * whose rights apply: whoever has it reads the data until then, as long as that caller may.
 *
 * Invariant: a signature is valid for one id, its data and one expiry, and a URL that works once does so for all gateways that
 * share the store.
 */
import { hash } from 'node:crypto'
import { world } from '../../core/world.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { Principal } from '../../core/principal.ts'
import type { Reference } from '../../records/references.ts'
import { fromStoredPrincipal, type StoredPrincipal, toStoredPrincipal } from '../../records/principal.ts'
import type { Services } from '../feature.ts'

/** The path of data, before its id. */
export const DATA_PATH = '/data/'

/** What a valid URL says. */
export interface SignedUrl {
  readonly principal: Principal
  /** The SHA-256 of the data: under the same id there may be other data now. */
  readonly sha256: string
  /** Uses up a URL that works once, and does nothing for others. @throws FORBIDDEN if it was used before */
  use(): Promise<void>
  /** Whether it was used up. */
  isUsed(): Promise<boolean>
}

/** How a URL is made. */
interface UrlOptions {
  /** How long it works, in milliseconds. */
  readonly ttl: number
  /** It works for one GET; HEAD does not count. */
  readonly isOnce?: true
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

  /** A URL of a caller's data: a credential. Undefined where the gateway does not listen for HTTP. */
  of(
    principal: Principal,
    { id, sha256 }: Pick<Reference, 'id' | 'sha256'>,
    { ttl, isOnce }: UrlOptions,
  ): string | undefined {
    const base = this.#deps.pages.url(`${DATA_PATH}${id}`)
    if (base === undefined) return undefined
    const exp = this.#now() + ttl
    const value: Sealed = { principal: toStoredPrincipal(principal), sha256, ...(isOnce && { isOnce }) }
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
function isSealed(value: unknown): value is Sealed {
  return isObject(value) && isObject(value.principal) && typeof value.sha256 === 'string'
}

function invalidUrl(): GatewayError {
  return new GatewayError('FORBIDDEN', 'This URL is not valid, has expired or has been used.', {
    reason: 'url',
    suggestion: 'Request another URL of the data.',
  })
}
