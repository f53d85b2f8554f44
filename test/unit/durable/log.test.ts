import { beforeEach, describe } from 'vitest'
import { MemoryStore } from '../../../src/store/memory.ts'
import { logContract } from '../../support/log-contract.ts'

let now = 0
let store = new MemoryStore()
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
})

describe('on the memory store', () => {
  logContract(() => ({
    store,
    pass: async (milliseconds) => {
      now += milliseconds
    },
  }))
})
