// The expiry of kept data moves while it is used.
import { describe, expect, it } from 'vitest'
import { References } from '../../../src/records/references.ts'
import { Uploads } from '../../../src/records/uploads.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const ada = { id: 'ada' }
const facts = { server: 'one', name: 'data', type: 'text/plain', ttl: 60_000 }

async function* bytes(): AsyncGenerator<Uint8Array> {
  yield Buffer.from('text')
}

describe('the expiry of kept data', () => {
  it('moves forward, never back, and no data comes back', async () => {
    const kept = new References(new MemoryStore(), { total: 1000 })
    const { id, expiresAt } = await kept.add(ada, facts, bytes())
    await kept.extend(ada, id, expiresAt + 5000)
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
    await kept.extend(ada, id, expiresAt)
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
    await kept.extend({ id: 'bob' }, id, expiresAt + 5000)
    expect(await kept.find({ id: 'bob' }, id)).toBeUndefined()
  })

  it('is the latest of those that several uses ask for at once', async () => {
    const kept = new References(new MemoryStore(), { total: 1000 })
    const { id, expiresAt } = await kept.add(ada, facts, bytes())
    await Promise.all([4, 1, 5, 2].map((each) => kept.extend(ada, id, expiresAt + each * 1000)))
    expect((await kept.find(ada, id))?.expiresAt).toBe(expiresAt + 5000)
  })
})

describe('a requested upload', () => {
  const upload = { maxSize: 1000, types: [], ttl: 1000 }

  it('says to its owner alone that the data is not there yet', async () => {
    let now = 1_700_000_000_000
    const store = new MemoryStore()
    const kept = new References(store, { total: 1000 }, () => now)
    const uploads = new Uploads(store, () => now)
    const request = await uploads.request(ada, upload)
    const pending = { code: 'RESOURCE_NOT_FOUND', extra: { reason: 'not_uploaded' } }
    await expect(kept.find(ada, request.id)).rejects.toMatchObject(pending)
    expect(await kept.find({ id: 'bob' }, request.id)).toBeUndefined()
    now += 1001
    expect(await kept.find(ada, request.id)).toBeUndefined()
  })

  it('is limited for each caller, and makes room when it is done', async () => {
    const uploads = new Uploads(new MemoryStore())
    const requests = []
    for (let count = 0; count < 250; count++)
      requests.push(await uploads.request(ada, { ...upload, ttl: 60_000 }))
    await expect(uploads.request(ada, upload)).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    await expect(uploads.request({ id: 'bob' }, upload)).resolves.toBeDefined()
    const [first] = requests
    if (first) await uploads.finish(first)
    await expect(uploads.request(ada, upload)).resolves.toBeDefined()
  })
})
