/** The token issuer of one server: discovered again after some time, and after the server refused a token. */
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import type { Issuer } from './discovery.ts'
import { permanent } from './refusals.ts'

/** Provides the token issuer of a server. */
export interface Issuers {
  /** @throws SERVER_UNAVAILABLE */
  current(): Promise<Issuer>
  /** The server refused a token, so it may trust another authorization server from now on. */
  doubt(): void
}

/** How long the metadata of an authorization server is cached, in milliseconds. */
const ISSUER_TTL_MS = 3_600_000

/** Caches what `discover` finds. */
export function createIssuers(oauth: OAuthSettings, discover: () => Promise<Issuer>): Issuers {
  return new IssuerCache(discover, hasOwnCredentials(oauth))
}

class IssuerCache implements Issuers {
  readonly #discover: () => Promise<Issuer>
  readonly #isBound: boolean
  #known: { readonly issuer: Promise<Issuer>; readonly until: number; isSettled: boolean } | undefined
  #last: Issuer | undefined

  constructor(discover: () => Promise<Issuer>, isBound: boolean) {
    this.#discover = discover
    this.#isBound = isBound
  }

  current(): Promise<Issuer> {
    if (this.#known && Date.now() < this.#known.until) return this.#known.issuer
    const found = { issuer: this.#find(), until: Date.now() + ISSUER_TTL_MS, isSettled: false }
    this.#known = found
    found.issuer.then(
      () => (found.isSettled = true),
      () => {
        if (this.#known === found) this.#known = undefined
      },
    )
    return found.issuer
  }

  doubt(): void {
    if (this.#known?.isSettled) this.#known = undefined
  }

  async #find(): Promise<Issuer> {
    const issuer = await this.#discover().catch((error: unknown) => {
      if (this.#last && asGatewayError(error).category === 'transient') return this.#last
      throw error
    })
    const before = this.#last?.server.issuer
    if (this.#isBound && before !== undefined && before !== issuer.server.issuer) throw moved(before)
    this.#last = issuer
    return issuer
  }
}

/**
 * Whether the configuration has something that is meant for one authorization server: a client that was registered there, or
 * what is presented for a token. A client id that is a URL is meant for all of them.
 */
function hasOwnCredentials({ grant, clientId }: OAuthSettings): boolean {
  if (grant === 'token_exchange' || grant === 'jwt_bearer') return true
  return clientId !== undefined && !clientId.startsWith('https://')
}

function moved(before: string): GatewayError {
  const host = new URL(before).host
  const message = `The server names another authorization server than before (${host}), and its client is not known there.`
  const fix = 'set oauth.issuer of this server, with the client for it, and restart the gateway'
  return new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}
