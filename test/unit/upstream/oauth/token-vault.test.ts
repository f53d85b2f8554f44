import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { createTokenVault } from '../../../../src/upstream/oauth/token-vault.ts'

describe('the token vault', () => {
  it('the vault returns a value under its own name only', async () => {
    const vault = createTokenVault(new MemoryStore())
    await vault.write(['grant', 'one', 'alice'], { token: 'secret' }, 1000)
    expect(await vault.read(['grant', 'one', 'alice'])).toEqual({ token: 'secret' })
    expect(await vault.read(['grant', 'onealice'])).toBeUndefined()
    await vault.delete(['grant', 'one', 'alice'])
    expect(await vault.read(['grant', 'one', 'alice'])).toBeUndefined()
  })

  it('a one-time value is returned to one of concurrent readers', async () => {
    const vault = createTokenVault(new MemoryStore())
    await vault.write(['state', 'abc'], { user: 'alice' }, 1000)
    const taken = await Promise.all([1, 2, 3].map(() => vault.take(['state', 'abc'])))
    expect(taken.filter((each) => each !== undefined)).toEqual([{ user: 'alice' }])
  })

  it('C228 vault entries can be read with the key only, and cannot be moved or modified', async () => {
    const store = new MemoryStore()
    const key = randomBytes(32)
    const written: [string, string][] = []
    const put = store.put.bind(store)
    store.put = (name, value, ttl) => {
      written.push([name, value])
      return put(name, value, ttl)
    }
    const vault = createTokenVault(store, async () => key)
    await vault.write(['grant', 'one', 'alice'], { token: 'secret' }, 1000)
    await vault.write(['grant', 'one', 'bob'], { token: 'other' }, 1000)
    expect(await createTokenVault(store, async () => key).read(['grant', 'one', 'alice'])).toEqual({
      token: 'secret',
    })
    expect(await createTokenVault(store).read(['grant', 'one', 'alice'])).toBeUndefined()
    const [alice = ''] = written[0] ?? []
    const [, ofBob = ''] = written[1] ?? []
    await put(alice, ofBob, 1000)
    expect(await vault.read(['grant', 'one', 'alice'])).toBeUndefined()
    await put(alice, 'AAAA', 1000)
    expect(await vault.read(['grant', 'one', 'alice'])).toBeUndefined()
  })
})
