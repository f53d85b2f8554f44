// Requested uploads: how many of them a caller may have, and what is said of one without data.
import { describe, expect, it } from 'vitest'
import { References } from '../../../src/records/references.ts'
import { Uploads } from '../../../src/records/uploads.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const ada = { id: 'ada' }
const upload = { maxSize: 10, types: [], ttl: 1000 }

function world() {
  let now = 1_700_000_000_000
  const store = new MemoryStore()
  const uploads = new Uploads(store, () => now)
  const kept = new References(store, { total: 1000 }, () => now)
  /** Requests some at once, and resolves with those that were accepted. */
  const request = async (count: number, caller = ada) => {
    const requested = await Promise.allSettled(
      Array.from({ length: count }, () => uploads.request(caller, upload)),
    )
    return requested.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  }
  return { store, uploads, kept, request, pass: (ms: number) => void (now += ms) }
}

describe('requested uploads of a caller', () => {
  it('are a quarter of all at most, however many are requested at once', async () => {
    const { request, uploads } = world()
    expect(await request(260)).toHaveLength(250)
    await expect(uploads.request(ada, upload)).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    expect(await request(1, { id: 'bob' })).toHaveLength(1)
  })

  it('make room when they are done or expire, as long as not too many are known', async () => {
    const { uploads, request, pass } = world()
    for (const each of await request(250)) await uploads.finish(each)
    for (let round = 0; round < 3; round++) {
      expect(await request(250)).toHaveLength(250)
      pass(2000)
    }
    expect(await request(1)).toEqual([])
  })
})

it('records that are no uploads or references hide no others', async () => {
  const { store, uploads, kept, request } = world()
  await store.put('upload/x:1', '{"id":"1"}', 1000)
  await store.put('reference/x:1', '{"id":"1"}', 1000)
  expect(await request(1)).toHaveLength(1)
  expect(await uploads.find('x', '1')).toBeUndefined()
  expect(await kept.all()).toEqual([])
})

it('a requested upload is known to its owner alone until it expires', async () => {
  const { uploads, kept, pass } = world()
  const request = await uploads.request(ada, upload)
  const pending = { code: 'RESOURCE_NOT_FOUND', extra: { reason: 'not_uploaded' } }
  await expect(kept.find(ada, request.id)).rejects.toMatchObject(pending)
  expect(await kept.find({ id: 'bob' }, request.id)).toBeUndefined()
  pass(1001)
  expect(await kept.find(ada, request.id)).toBeUndefined()
})
