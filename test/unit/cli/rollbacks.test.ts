import { expect, it } from 'vitest'
import { requireTransactions } from '../../../src/cli/tx.ts'
import { loadSettings } from '../../../src/config/load.ts'
import type { Settings } from '../../../src/core/settings.ts'
import { acknowledged, newTransaction } from '../../../src/records/transitions.ts'
import { transactionKey, transactionsIn } from '../../../src/records/transactions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

function settingsWith(transactions: string): Settings {
  const text = `upstreams: { it: { command: x } }\nfeatures: { transactions: ${transactions} }`
  return loadSettings(text, { file: 'f.yaml', env: {} }).settings
}

it('an acknowledged rollback is retained as long as the gateway retains it', async () => {
  const kept: number[] = []
  class Noting extends MemoryStore {
    override compareAndSwap(key: string, before: string, after: string, ttl: number): Promise<boolean> {
      kept.push(ttl)
      return super.compareAndSwap(key, before, after, ttl)
    }
  }
  const store = new Noting()
  const start = newTransaction({ id: 't', principal: { id: 'me' }, timeout: 1, lifetime: 1, now: 0 })
  for (const written of ['{ retention: 2h }', 'off']) {
    const book = transactionsIn(store, settingsWith(written))
    await store.delete(transactionKey('me', 't'))
    await book.open({ ...start, status: 'partially_rolled_back' })
    await book.change(transactionKey('me', 't'), acknowledged('ann', 0))
  }
  expect(kept).toEqual([7_200_000, 86_400_000])
})

it('a rollback is not left to gateways that have undo switched off', () => {
  expect(() => requireTransactions(settingsWith('off'))).toThrow('turn it on')
  expect(() => requireTransactions(settingsWith('{}'))).not.toThrow()
})
