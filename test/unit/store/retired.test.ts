import { expect, it } from 'vitest'
import { RetiredStores } from '../../../src/store/open.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

/** A store that records when it was closed. */
function closing(closed: string[], name: string): MemoryStore {
  const store = new MemoryStore()
  store.close = async () => void closed.push(name)
  return store
}

it('replaced stores are closed with the gateway, and each is reported', async () => {
  const closed: string[] = []
  const told: unknown[] = []
  const retired = new RetiredStores((store) => told.push(store))
  const store = closing(closed, 'first')
  const first = retired.retire(store)
  expect([closed, told]).toEqual([[], []])
  await retired.close()
  expect(closed).toEqual(['first'])
  await first
  expect(told).toEqual([store])
  await retired.retire(closing(closed, 'second'))
  expect(closed).toEqual(['first', 'second'])
})
