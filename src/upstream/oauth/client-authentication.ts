/**
 * How the gateway's client authenticates at a token endpoint (RFC 6749 §2.3, RFC 7523 §2.2). What the metadata lists is
 * tried first, and the other ways to send a secret after `invalid_client`: the metadata may be wrong or silent, and not
 * every server decodes HTTP Basic.
 */
import { createPrivateKey } from 'node:crypto'
import { importJWK, type JWK } from 'jose'
import * as oauth from 'oauth4webapi'
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { clientCredentials } from '../../core/text/redactor.ts'
import type { Secret } from '../../core/text/secret.ts'
import { permanent } from './refusals.ts'

const methods = ['none', 'client_secret_basic', 'client_secret_post', 'private_key_jwt'] as const

/** The `token_endpoint_auth_method` of a client. */
export type ClientAuth = (typeof methods)[number]

/** The gateway's client at an authorization server. */
export interface OAuthClient {
  readonly id: string
  readonly secret?: string
  /** The private key of a client that signs assertions, as PEM or JWK. It is never stored. */
  readonly key?: Secret
  readonly auth: ClientAuth
}

/** A way to authenticate, by a name that can be remembered. */
interface Authentication {
  readonly name: string
  readonly apply: oauth.ClientAuth
}

/** The method with this name. */
export function readClientAuth(value: unknown): ClientAuth | undefined {
  return methods.find((method) => method === value)
}

/** The method for a client with this id and secret, among those that the authorization server supports. */
export function clientAuth(
  { token_endpoint_auth_methods_supported: listed }: oauth.AuthorizationServer,
  { id, secret }: { readonly id: string; readonly secret: string },
): ClientAuth {
  // RFC 8414 §2: the default if the metadata lists none.
  const supported = listed ?? ['client_secret_basic']
  const hasPost = supported.includes('client_secret_post')
  if (!supported.includes('client_secret_basic'))
    return hasPost ? 'client_secret_post' : 'client_secret_basic'
  // In a body there is one way to write any secret.
  return hasPost && clientCredentials(id, secret).length > 1 ? 'client_secret_post' : 'client_secret_basic'
}

/** The ways to authenticate a client, the best one first. @throws SERVER_UNAVAILABLE if its key is unusable */
export async function authentications(
  server: oauth.AuthorizationServer,
  { id, secret, key, auth }: OAuthClient,
): Promise<readonly Authentication[]> {
  if (auth === 'private_key_jwt' && key) {
    return [{ name: auth, apply: await signing(key, server) }]
  }
  const none = { name: 'none', apply: oauth.None() }
  if (secret === undefined) return [none]
  const post = { name: 'post', apply: oauth.ClientSecretPost(secret) }
  const basic = clientCredentials(id, secret).map((credentials, at) => ({
    name: `basic ${at}`,
    apply: basicAuth(credentials),
  }))
  if (auth === 'client_secret_post') return [post, ...basic]
  return auth === 'none' ? [none, ...basic, post] : [...basic, post]
}

function basicAuth(credentials: string): oauth.ClientAuth {
  return (_server, _client, _body, headers) => headers.set('authorization', `Basic ${credentials}`)
}

/** Signs assertions as the authorization server accepts them (RFC 7523 §2.2). */
async function signing(key: Secret, server: oauth.AuthorizationServer): Promise<oauth.ClientAuth> {
  const { kid, ...jwk } = readPrivateKey(key.reveal()) ?? {}
  const accepted = server.token_endpoint_auth_signing_alg_values_supported
  const possible = algorithmsOf(jwk)
  const algorithm = possible.find((each) => accepted?.includes(each)) ?? possible[0]
  const imported = algorithm === undefined ? undefined : await importJWK(jwk, algorithm)
  if (imported instanceof CryptoKey) {
    const [privateKey, alg] = [{ key: imported, ...(kid !== undefined && { kid }) }, algorithm]
    // The library has one of two names for a curve.
    const modify = (header: Record<string, unknown>): void => void Object.assign(header, { alg })
    return oauth.PrivateKeyJwt(privateKey, { [oauth.modifyAssertion]: modify })
  }
  const message = 'The private key of the gateway for the authorization server is unusable.'
  const fix = 'set oauth.private_key of this server to a private key that signs'
  throw new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/** A private key in PEM or JWK; undefined if it is none that signs. */
function readPrivateKey(text: string): JWK | undefined {
  const given = readJson(text)
  try {
    const key = isObject(given) ? createPrivateKey({ key: given, format: 'jwk' }) : createPrivateKey(text)
    const jwk: JWK = key.export({ format: 'jwk' })
    if (algorithmsOf(jwk).length === 0) return undefined
    return isObject(given) && typeof given.kid === 'string' ? { ...jwk, kid: given.kid } : jwk
  } catch {
    return undefined
  }
}

/** The signature algorithms of a key, the usual one first. */
function algorithmsOf({ kty, crv }: JWK): readonly string[] {
  if (kty === 'RSA') return ['RS256', 'PS256']
  return byCurve[crv ?? ''] ?? []
}

const byCurve: Readonly<Record<string, readonly string[]>> = {
  'P-256': ['ES256'],
  'P-384': ['ES384'],
  'P-521': ['ES512'],
  Ed25519: ['EdDSA', 'Ed25519'],
}
