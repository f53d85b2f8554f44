// The expiry of kept data moves while it is used.
import { describe, expect, it } from 'vitest'
import { References } from '../../../src/records/references.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { bytesOf } from '../../support/bytes-of.ts'

const ada = { id: 'ada' }
const facts = { server: 'one', name: 'data', type: 'text/plain', ttl: 60_000 }

describe('the expiry of kept data', () => {
  it('moves forward, never back, and no data comes back', async () => {
    const kept = new References(new MemoryStore(), { total: 1000 })
    const { id, expiresAt } = await kept.add(ada, facts, bytesOf('text'))
    await kept.extend(ada, id, expiresAt + 5000)
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
    await kept.extend(ada, id, expiresAt)
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
    await kept.extend({ id: 'bob' }, id, expiresAt + 5000)
    expect(await kept.find({ id: 'bob' }, id)).toBeUndefined()
  })

  it('stays as it is while a reader holds the bytes, which end with the reader', async () => {
    let now = 1_000_000
    const store = new MemoryStore(() => now)
    const kept = new References(store, { total: 1000 }, () => now)
    const data = await kept.add(ada, facts, bytesOf('text'))
    for (let reads = 0; reads < 5; reads++) {
      now = data.expiresAt - 1000 + reads
      const found = await kept.find(ada, data.id)
      expect(found?.expiresAt).toBe(data.expiresAt)
      if (found) await kept.hold(found, now + 60_000)
    }
    now = data.expiresAt
    expect(await kept.find(ada, data.id)).toBeUndefined()
    await kept.extend(ada, data.id, now + 60_000)
    expect(await kept.find(ada, data.id), 'it does not come back').toBeUndefined()
    expect(await kept.all(), 'its bytes are still needed').toHaveLength(1)
    now += 60_000
    expect(await kept.all()).toHaveLength(0)
  })

  it('is the latest of those that several uses ask for at once', async () => {
    const kept = new References(new MemoryStore(), { total: 1000 })
    const { id, expiresAt } = await kept.add(ada, facts, bytesOf('text'))
    await Promise.all([4, 1, 5, 2].map((each) => kept.extend(ada, id, expiresAt + each * 1000)))
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
  })
})
