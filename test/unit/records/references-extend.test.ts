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

  it('is the latest of those that several uses ask for at once', async () => {
    const kept = new References(new MemoryStore(), { total: 1000 })
    const { id, expiresAt } = await kept.add(ada, facts, bytesOf('text'))
    await Promise.all([4, 1, 5, 2].map((each) => kept.extend(ada, id, expiresAt + each * 1000)))
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
  })
})
