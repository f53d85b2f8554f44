/**
 * The gateway's own keys: encryption of request state, the token vault, and signatures. They live in the
 * store, so that all members share them, and are cached for a minute.
 */
import { randomBytes } from 'node:crypto'
import { asGatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { FOREVER, type Store } from '../store/store.ts'

/** The gateway's own keys. They are made once and kept in the store, so gateways that share a store share them. */
export interface Keys {
  /** What states are sealed with: by the first, and opened by any. */
  encryptionKeys(): readonly Buffer[]
  /** What the vault of users' grants is locked with. @throws SERVER_UNAVAILABLE */
  vault(): Promise<Buffer>
  /** Claims as a compact JWS, with who signed them and when. @throws SERVER_UNAVAILABLE */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** Claims as a compact JWS that holds the key it is verified with. @throws SERVER_UNAVAILABLE */
  prove(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** The thumbprint of the key that signs (RFC 7638). @throws SERVER_UNAVAILABLE */
  thumbprint(): Promise<string>
  /** What signatures are verified with, as a JSON Web Key Set. @throws SERVER_UNAVAILABLE */
  published(): Promise<{ readonly keys: readonly unknown[] }>
}

/** How long to wait before the store is asked again, in milliseconds. */
const STORE_RETRY_DELAY_MS = 5000
/**
 * How long a key is taken to be in the store, in milliseconds. One that a store lost which was emptied is put back
 * then, or else gateways that are started later would have others than those that run.
 */
const KEY_STALE_MS = 60_000
const ALGORITHM = 'ES256'
/** The name of the key that signs. */
const SIGNING = 'signing'

type Jose = typeof import('jose')

/** A key as it was found, and when. */
interface Kept {
  readonly text: Promise<string>
  readonly at: number
}

/** Keys in a store, which may become another one. `issuer` says who signs. */
export function createKeys(store: () => Store, { issuer, log }: { issuer(): string; log: Log }): Keys {
  const own = randomBytes(32)
  const kept = new WeakMap<Store, Map<string, Kept>>()
  const seals = new WeakMap<Store, readonly Buffer[]>()
  let askedAt = -Infinity
  let asked: Store | undefined
  let isWarned = false

  const keep = (
    name: string,
    make: () => Promise<string> | string,
    trust: number = KEY_STALE_MS,
  ): Promise<string> => {
    const current = store()
    const keys = kept.get(current) ?? new Map<string, Kept>()
    kept.set(current, keys)
    const known = keys.get(name)
    if (known && performance.now() - known.at < trust) return known.text
    const text = known
      ? findOrMake(current, keyOf(name), () => known.text).catch(() => known.text)
      : findOrMake(current, keyOf(name), make)
    keys.set(name, { text, at: performance.now() })
    text.catch(() => keys.delete(name))
    return text
  }

  const ask = async (): Promise<void> => {
    const current = store()
    try {
      // One that is still being reached is not away.
      await current.opened?.()
      const key = Buffer.from(await keep('seal', secret), 'base64url')
      const [before] = seals.get(current) ?? []
      // What was sealed before it was known can still be opened.
      seals.set(current, before === undefined || before.equals(key) ? [key, own] : [key, before, own])
    } catch (error) {
      if (!isWarned)
        log.warn('key.own', { use: 'states are sealed for this process alone', ...reasonOf(error) })
      isWarned = true
    }
  }

  const signing = async (): Promise<{ jose: Jose; jwk: Record<string, unknown> }> => {
    const jose = await import('jose')
    const text = await keep(SIGNING, async () => {
      const { privateKey } = await jose.generateKeyPair(ALGORITHM, { extractable: true })
      const jwk = await jose.exportJWK(privateKey)
      return JSON.stringify({
        ...jwk,
        kid: await jose.calculateJwkThumbprint(jwk),
        alg: ALGORITHM,
        use: 'sig',
      })
    })
    return { jose, jwk: JSON.parse(text) }
  }

  const signed = async (
    claims: Readonly<Record<string, unknown>>,
    header: (jwk: Record<string, unknown>) => Readonly<Record<string, unknown>>,
  ): Promise<string> => {
    const { jose, jwk } = await signing()
    return new jose.SignJWT({ ...claims })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT', ...header(jwk) })
      .setIssuedAt()
      .sign(await jose.importJWK(jwk, ALGORITHM))
  }

  return {
    encryptionKeys: () => {
      const current = store()
      const found = seals.get(current)
      if (asked !== current || performance.now() - askedAt > (found ? KEY_STALE_MS : STORE_RETRY_DELAY_MS)) {
        asked = current
        askedAt = performance.now()
        void ask()
      }
      return found ?? [own]
    },
    // It is seldom used, and what was locked with another is lost.
    vault: async () => Buffer.from(await keep('vault', secret, 0), 'base64url'),
    sign: (claims) => signed({ ...claims, iss: issuer() }, ({ kid }) => ({ kid: String(kid) })),
    prove: (claims) => signed(claims, ({ kty, crv, x, y }) => ({ jwk: { kty, crv, x, y } })),
    thumbprint: async () => String((await signing()).jwk['kid']),
    published: async () => {
      return { keys: [publicPart((await signing()).jwk)] }
    },
  }
}

/** What signatures of the gateways that share a store are verified with; nothing where none of them signed yet. */
export async function signingKeyIn(store: Pick<Store, 'get'>): Promise<unknown> {
  const text = await store.get(keyOf(SIGNING))
  if (text === undefined) return undefined
  const jwk: Record<string, unknown> = JSON.parse(text)
  return publicPart(jwk)
}

function publicPart({ d: _private, ...jwk }: Record<string, unknown>): Record<string, unknown> {
  return jwk
}

/** Where a key is kept. */
function keyOf(name: string): string {
  return `key:${name}`
}

async function findOrMake(store: Store, key: string, make: () => Promise<string> | string): Promise<string> {
  const found = await store.get(key)
  if (found !== undefined) return found
  const made = await make()
  return (await store.setIfAbsent(key, made, FOREVER)) ?? made
}

function secret(): string {
  return randomBytes(32).toString('base64url')
}

function reasonOf(error: unknown): { readonly reason: string } {
  const { message, cause } = asGatewayError(error)
  return { reason: cause instanceof Error ? cause.message : message }
}
