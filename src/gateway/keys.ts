/**
 * The gateway's own keys: for encryption of request state, for the token vault, and for signatures. They are in
 * the store, so that all members share them, and are cached for a minute.
 */
import { world } from '../core/world.ts'
import { asGatewayError } from '../core/error.ts'
import { asObject } from '../core/json/json.ts'
import { parseJson } from '../core/json/read.ts'
import type { Log } from '../core/log.ts'
import { FOREVER, type Store } from '../store/store.ts'

type Claims = Readonly<Record<string, unknown>>

/** The delay after which the store is read again, in milliseconds. */
const STORE_RETRY_DELAY_MS = 5000
/**
 * How long a key is assumed to be in the store, in milliseconds. After that, a key that an emptied store lost is
 * written again: otherwise gateways started later would use other keys than those that run.
 */
const KEY_STALE_MS = 60_000
const ALGORITHM = 'ES256'
/** The name of the signing key. */
const SIGNING = 'signing'
/** The name of the key of the vault. */
const VAULT = 'vault'

type Jose = typeof import('jose')
type Jwk = Record<string, unknown>

/** A key and when it was read, by `performance.now()`. */
interface CachedKey {
  readonly text: Promise<string>
  readonly at: number
}

/** The gateway's own keys, generated once and stored, so that all gateways that share a store share them. */
export class GatewayKeys {
  readonly #store: () => Store
  readonly #issuer: () => string
  readonly #log: Log
  /** Encrypts until the shared key is known. */
  readonly #processKey = world.randomBytes(32)
  readonly #cached = new WeakMap<Store, Map<string, CachedKey>>()
  readonly #encryptionKeys = new WeakMap<Store, readonly Buffer[]>()
  #loadedAt = -Infinity
  #loadedFrom: Store | undefined
  #loading = Promise.resolve()
  #hasWarned = false

  /** A reload may replace the store; `issuer` is the `iss` claim of signatures. */
  constructor(store: () => Store, issuer: () => string, log: Log) {
    this.#store = store
    this.#issuer = issuer
    this.#log = log
  }

  // Arrow functions, because the keys are passed on as functions.

  /** The keys of request state: the first encrypts, any of them decrypts. */
  readonly encryptionKeys = (): readonly Buffer[] => {
    const current = this.#store()
    const found = this.#encryptionKeys.get(current)
    const staleAfter = found ? KEY_STALE_MS : STORE_RETRY_DELAY_MS
    if (this.#loadedFrom !== current || world.monotonic() - this.#loadedAt > staleAfter) {
      this.#loadedFrom = current
      this.#loadedAt = world.monotonic()
      this.#loading = this.#loadEncryptionKey()
    }
    return found ?? [this.#processKey]
  }

  /** Whether these are the keys in the store, and not one of this process alone. */
  readonly areShared = (): boolean => {
    this.encryptionKeys()
    return this.#encryptionKeys.has(this.#store())
  }

  /** Resolves once the keys in the store are known, or cannot be read for now. */
  readonly ready = (): Promise<void> => {
    this.encryptionKeys()
    return this.#loading
  }

  /** The key that encrypts the vault of users' grants. @throws SERVER_UNAVAILABLE */
  // Never from the cache: it is rarely used, and grants encrypted with a key that the store lost are lost.
  readonly vault = async (): Promise<Buffer> => Buffer.from(await this.#load(VAULT, secret, 0), 'base64url')

  /** Signs claims as a compact JWS, with issuer and time. @throws SERVER_UNAVAILABLE */
  readonly sign = (claims: Claims): Promise<string> =>
    this.#signed({ ...claims, iss: this.#issuer() }, ({ kid }) => ({ kid: String(kid) }))

  /** Signs claims as a compact JWS that embeds the public key. @throws SERVER_UNAVAILABLE */
  readonly prove = (claims: Claims): Promise<string> =>
    this.#signed(claims, ({ kty, crv, x, y }) => ({ jwk: { kty, crv, x, y } }))

  /** The thumbprint of the signing key (RFC 7638). @throws SERVER_UNAVAILABLE */
  readonly thumbprint = async (): Promise<string> => String((await this.#signingKey()).jwk['kid'])

  /** The public signing key as a JSON Web Key Set. @throws SERVER_UNAVAILABLE */
  readonly published = async (): Promise<{ readonly keys: readonly unknown[] }> => ({
    keys: [publicPart((await this.#signingKey()).jwk)],
  })

  /** The cached key; read from the store, or generated there, once it is older than `staleAfter` milliseconds. */
  #load(
    name: string,
    generate: () => Promise<string> | string,
    staleAfter: number = KEY_STALE_MS,
  ): Promise<string> {
    const current = this.#store()
    const keys = this.#cached.get(current) ?? new Map<string, CachedKey>()
    this.#cached.set(current, keys)
    const known = keys.get(name)
    if (known && world.monotonic() - known.at < staleAfter) return known.text
    const text = known
      ? findOrCreate(current, keyOf(name), () => known.text).catch(() => known.text)
      : findOrCreate(current, keyOf(name), generate)
    keys.set(name, { text, at: world.monotonic() })
    text.catch(() => keys.delete(name))
    return text
  }

  async #loadEncryptionKey(): Promise<void> {
    const current = this.#store()
    try {
      // A store that is still connecting is not unavailable.
      await current.opened?.()
      const key = Buffer.from(await this.#load('seal', secret), 'base64url')
      const [before] = this.#encryptionKeys.get(current) ?? []
      // The process key stays: state that it encrypted must still decrypt.
      const keys =
        before === undefined || before.equals(key) ? [key, this.#processKey] : [key, before, this.#processKey]
      this.#encryptionKeys.set(current, keys)
    } catch (error) {
      if (!this.#hasWarned) {
        const use = 'request state is encrypted with a key of this process only'
        this.#log.warn('key.own', { use, ...reasonOf(error) })
      }
      this.#hasWarned = true
    }
  }

  async #signingKey(): Promise<{ jose: Jose; jwk: Jwk }> {
    const jose = await world.elsewhere(() => import('jose'))
    const generate = async (): Promise<string> => {
      const { privateKey } = await jose.generateKeyPair(ALGORITHM, { extractable: true })
      const jwk = await jose.exportJWK(privateKey)
      return JSON.stringify({
        ...jwk,
        kid: await jose.calculateJwkThumbprint(jwk),
        alg: ALGORITHM,
        use: 'sig',
      })
    }
    const text = await this.#load(SIGNING, () => world.elsewhere(generate))
    return { jose, jwk: keyIn(text) }
  }

  async #signed(claims: Claims, headerOf: (jwk: Jwk) => Readonly<Jwk>): Promise<string> {
    const { jose, jwk } = await this.#signingKey()
    const unsigned = new jose.SignJWT({ ...claims })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT', ...headerOf(jwk) })
      .setIssuedAt(Math.floor(world.now() / 1000))
    return world.elsewhere(async () => unsigned.sign(await jose.importJWK(jwk, ALGORITHM)))
  }
}

/** The public signing key of the gateways that share a store; undefined before the first signature. */
export async function signingKeyIn(store: Pick<Store, 'get'>): Promise<unknown> {
  const text = await store.get(keyOf(SIGNING))
  if (text === undefined) return undefined
  return publicPart(keyIn(text))
}

/** The key that encrypts the vault of users' grants; undefined if there is none yet. */
export async function vaultKeyIn(store: Pick<Store, 'get'>): Promise<Buffer | undefined> {
  const text = await store.get(keyOf(VAULT))
  return text === undefined ? undefined : Buffer.from(text, 'base64url')
}

/** A key that the gateway stored. */
function keyIn(text: string): Record<string, unknown> {
  const jwk = parseJson(text)
  return asObject(jwk)
}

function publicPart({ d: _private, ...jwk }: Record<string, unknown>): Record<string, unknown> {
  return jwk
}

/** The key of the store under which it is. */
function keyOf(name: string): string {
  return `key:${name}`
}

async function findOrCreate(
  store: Store,
  key: string,
  create: () => Promise<string> | string,
): Promise<string> {
  const found = await store.get(key)
  if (found !== undefined) return found
  const created = await create()
  return (await store.setIfAbsent(key, created, FOREVER)) ?? created
}

function secret(): string {
  return world.randomBytes(32).toString('base64url')
}

function reasonOf(error: unknown): { readonly reason: string } {
  const { message, cause } = asGatewayError(error)
  return { reason: cause instanceof Error ? cause.message : message }
}
