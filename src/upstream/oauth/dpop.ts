/**
 * Proofs of possession for tokens that are bound to a key (RFC 9449): at the token endpoint and at the server. Each proof is
 * for one request, and carries the last nonce that its receiver handed out.
 */
import { createHash, randomUUID } from 'node:crypto'
import { type CryptoKey as Key, exportJWK, generateKeyPair, importJWK, type JWK, SignJWT } from 'jose'
import * as oauth from 'oauth4webapi'
import type { OAuthSettings } from '../../core/settings.ts'
import type { RequestTarget } from '../transport/auth-retry.ts'
import type { Issuer } from './discovery.ts'

const ALGORITHM = 'ES256'

/** A new key if tokens of this issuer have to be bound to one. */
export async function dpopKeyFor(
  { dpop }: Pick<OAuthSettings, 'dpop'>,
  { needsDpop }: Issuer,
): Promise<DpopKey | undefined> {
  return dpop === 'on' || (dpop === undefined && needsDpop) ? DpopKey.generate() : undefined
}

/** A key, and the nonces that go into its proofs. */
export class DpopKey {
  /** The key itself, to be stored with the grant that is bound to it. */
  readonly jwk: JWK
  /** Makes the proofs for the token endpoint. */
  readonly handle: oauth.DPoPHandle
  readonly #privateKey: Key
  /** The last nonce of the server. */
  #nonce: string | undefined

  private constructor(jwk: JWK, privateKey: Key, publicKey: Key) {
    this.jwk = jwk
    this.#privateKey = privateKey
    this.handle = oauth.DPoP({}, { privateKey, publicKey })
  }

  static async generate(): Promise<DpopKey> {
    const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true })
    return DpopKey.of(await exportJWK(privateKey))
  }

  /** @throws if it is no private key for this purpose */
  static async of(jwk: JWK): Promise<DpopKey> {
    const [privateKey, publicKey] = await Promise.all([
      importJWK(jwk, ALGORITHM),
      importJWK(publicPart(jwk), ALGORITHM, { extractable: true }),
    ])
    if (!(privateKey instanceof CryptoKey) || !(publicKey instanceof CryptoKey))
      throw new TypeError('The key is symmetric.')
    return new DpopKey(jwk, privateKey, publicKey)
  }

  /** The proof for one request to the server with a token. */
  prove(token: string, { method, url }: RequestTarget): Promise<string> {
    return new SignJWT({
      htm: method,
      htu: url.replace(/[?#].*$/s, ''),
      jti: randomUUID(),
      ath: createHash('sha256').update(token).digest('base64url'),
      ...(this.#nonce !== undefined && { nonce: this.#nonce }),
    })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'dpop+jwt', jwk: publicPart(this.jwk) })
      .setIssuedAt()
      .sign(this.#privateKey)
  }

  /** Uses the nonce of a response of the server from now on. */
  learn(nonce: string | undefined): void {
    if (nonce !== undefined && /^[\x21\x23-\x5b\x5d-\x7e]{1,512}$/.test(nonce)) this.#nonce = nonce
  }
}

function publicPart({ d: _private, ...jwk }: JWK): JWK {
  return jwk
}
