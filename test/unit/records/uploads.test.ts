// Requested uploads: how many of them a caller may have.
import { describe, expect, it } from 'vitest'
import { Uploads } from '../../../src/records/uploads.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const ada = { id: 'ada' }
const upload = { maxSize: 10, types: [], ttl: 1000 }

function world() {
  let now = 1_700_000_000_000
  const uploads = new Uploads(new MemoryStore(), () => now)
  /** Requests some at once, and resolves with those that were accepted. */
  const request = async (count: number, caller = ada) => {
    const requested = await Promise.allSettled(
      Array.from({ length: count }, () => uploads.request(caller, upload)),
    )
    return requested.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  }
  return { uploads, request, pass: (ms: number) => void (now += ms) }
}

describe('requested uploads of a caller', () => {
  it('are a quarter of all at most, however many are requested at once', async () => {
    const { request } = world()
    expect(await request(260)).toHaveLength(250)
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
