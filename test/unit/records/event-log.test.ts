import { beforeEach, describe } from 'vitest'
import { MemoryStore } from '../../../src/store/memory.ts'
import { eventLogContract } from '../../support/event-log-contract.ts'

let now = 0
let store = new MemoryStore()
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
})

describe('on the memory store', () => {
  eventLogContract(() => ({
    store,
    pass: async (milliseconds) => {
      now += milliseconds
    },
  }))
})
