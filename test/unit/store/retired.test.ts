import { expect, it } from 'vitest'
import { RetiredStores } from '../../../src/store/open.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

/** A store that tells when it was closed. */
function closing(closed: string[], name: string): MemoryStore {
  const store = new MemoryStore()
  store.close = async () => void closed.push(name)
  return store
}

it('stores that were replaced are closed with the gateway, whenever that is', async () => {
  const closed: string[] = []
  const retired = new RetiredStores()
  const first = retired.retire(closing(closed, 'first'))
  expect(closed).toEqual([])
  await retired.close()
  expect(closed).toEqual(['first'])
  await first
  await retired.retire(closing(closed, 'second'))
  expect(closed).toEqual(['first', 'second'])
})
