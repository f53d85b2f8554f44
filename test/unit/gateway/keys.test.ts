import { createLocalJWKSet, jwtVerify } from 'jose'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { GatewayKeys, signingKeyIn } from '../../../src/gateway/keys.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import type { Store } from '../../../src/store/store.ts'
import { silentLog } from '../../support/silent-log.ts'

const issuer = (): string => 'https://gate.example.com'

function keysOf(store: Store, log = silentLog) {
  return new GatewayKeys(() => store, issuer, log)
}

/** Lets pending operations of a memory store settle. */
async function settle(): Promise<void> {
  await new Promise(setImmediate)
}

function aMinutePasses(): void {
  const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 61_000)
  onTestFinished(() => now.mockRestore())
}

describe('gateway keys', () => {
  it('signatures can be verified publicly and at every gateway that shares the store', async () => {
    const store = new MemoryStore()
    const [one, other] = [keysOf(store), keysOf(store)]
    expect(await signingKeyIn(store)).toBeUndefined()
    const signed = await one.sign({ approved: 'x' })
    const published = await other.published()
    expect(JSON.stringify(published)).not.toContain('"d":')
    expect({ keys: [await signingKeyIn(store)] }).toEqual(published)
    // The published keys are a JWK set.
    const { payload, protectedHeader } = await jwtVerify(signed, createLocalJWKSet(published as never))
    expect(payload).toMatchObject({ approved: 'x', iss: issuer(), iat: expect.any(Number) })
    expect(protectedHeader).toMatchObject({ alg: 'ES256', kid: expect.any(String) })
    const elsewhere = await keysOf(new MemoryStore()).published()
    await expect(jwtVerify(signed, createLocalJWKSet(elsewhere as never))).rejects.toThrow(
      /no applicable key/,
    )
  })

  it('keys are created once for concurrent requests', async () => {
    const store = new MemoryStore()
    const all = await Promise.all(Array.from({ length: 20 }, () => keysOf(store).vault()))
    expect(new Set(all.map((key) => key.toString('hex'))).size).toBe(1)
  })

  it('keys are those of the store once they are ready, and of this process alone while the store is away', async () => {
    const store = new MemoryStore()
    await keysOf(store).ready()
    const other = keysOf(store)
    expect(other.areShared()).toBe(false)
    await other.ready()
    expect(other.areShared()).toBe(true)
    const broken = new MemoryStore()
    broken.get = () => Promise.reject(new Error('away'))
    const alone = keysOf(broken)
    await alone.ready()
    expect(alone.areShared()).toBe(false)
    expect(alone.encryptionKeys()).toHaveLength(1)
  })

  it('keys decrypt state of other gateways and state from before the store was available', async () => {
    const store = new MemoryStore()
    const [one, other] = [keysOf(store), keysOf(store)]
    const seal = createRequestStateCodec(() => 0, 1000, one.encryptionKeys)
    const early = seal.close({ early: true }, 'b')
    other.encryptionKeys()
    await settle()
    const text = seal.close({ a: 1 }, 'b')
    expect(createRequestStateCodec(() => 0, 1000, other.encryptionKeys).open(text, 'b')).toEqual({ a: 1 })
    expect(seal.open(early, 'b')).toEqual({ early: true })
  })

  it('keys are restored into an emptied store, so that later gateways have the same', async () => {
    const store = new MemoryStore()
    const one = keysOf(store)
    one.encryptionKeys()
    const [signing, vault] = [await one.published(), await one.vault()]
    const seal = createRequestStateCodec(() => 0, 1000, one.encryptionKeys)
    const text = seal.close({ a: 1 }, 'b')
    for (const name of ['seal', 'vault', 'signing']) expect(await store.delete(`key:${name}`)).toBe(true)
    aMinutePasses()
    one.encryptionKeys()
    await Promise.all([one.published(), one.vault()])
    await settle()
    const other = keysOf(store)
    other.encryptionKeys()
    await settle()
    expect([await other.published(), await other.vault()]).toEqual([signing, vault])
    expect(createRequestStateCodec(() => 0, 1000, other.encryptionKeys).open(text, 'b')).toEqual({ a: 1 })
  })

  it('the token vault has the same key at every gateway from its first use', async () => {
    const store = new MemoryStore()
    const one = keysOf(store)
    const vault = await one.vault()
    await store.delete('key:vault')
    expect(await one.vault()).toEqual(vault)
    expect(await keysOf(store).vault()).toEqual(vault)
  })

  it('keys that another gateway created in an emptied store are adopted', async () => {
    const store = new MemoryStore()
    const one = keysOf(store)
    one.encryptionKeys()
    await one.vault()
    const text = createRequestStateCodec(() => 0, 1000, one.encryptionKeys).close({ a: 1 }, 'b')
    for (const name of ['seal', 'vault']) await store.delete(`key:${name}`)
    const other = keysOf(store)
    other.encryptionKeys()
    const vault = await other.vault()
    aMinutePasses()
    one.encryptionKeys()
    expect(await one.vault()).toEqual(vault)
    await settle()
    const later = createRequestStateCodec(() => 0, 1000, one.encryptionKeys)
    expect(
      createRequestStateCodec(() => 0, 1000, other.encryptionKeys).open(later.close({ c: 1 }, 'b'), 'b'),
    ).toEqual({ c: 1 })
    expect(later.open(text, 'b')).toEqual({ a: 1 })
  })

  it('while the store is unavailable state is encrypted for this process only, with one warning, and nothing is signed', async () => {
    const away = (): Promise<never> => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'away'))
    const warnings: string[] = []
    const store = Object.assign(new MemoryStore(), { get: away, setIfAbsent: away })
    const keys = keysOf(store, { ...silentLog, warn: (event: string) => void warnings.push(event) })
    const seal = createRequestStateCodec(() => 0, 1000, keys.encryptionKeys)
    const text = seal.close({ a: 1 }, 'b')
    await settle()
    expect(seal.open(text, 'b')).toEqual({ a: 1 })
    await settle()
    expect(warnings).toEqual(['key.own'])
    await expect(keys.sign({})).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})
