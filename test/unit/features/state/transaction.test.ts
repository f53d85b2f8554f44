import { describe, expect, test } from 'vitest'
import { TRANSACTION_ID, extensionOf } from '../../../../src/protocol/meta-keys.ts'
import { committed, newTransaction } from '../../../../src/records/transitions.ts'
import { transactionKey, Transactions } from '../../../../src/records/transactions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { alice, CHANGED, Stateful } from './setup.ts'

async function begun(isOn: boolean): Promise<{ at: Stateful; transactions: Transactions }> {
  const store = new MemoryStore()
  const transactions = new Transactions(store, 60_000)
  const now = Date.now()
  await transactions.open(
    newTransaction({ id: 'tx1', principal: alice, timeout: 60_000, lifetime: 60_000, now }),
  )
  return { at: new Stateful({ store, settings: { transaction: isOn } }), transactions }
}

function lastTransaction({ seen }: Stateful): unknown {
  const call = seen.at(-1)
  return call && extensionOf(call, TRANSACTION_ID)
}

describe('session state: the open transaction', () => {
  test('is the one of the last call that named one, until it ends', async () => {
    const { at, transactions } = await begun(true)
    const first = await at.result({ transaction_id: 'tx1' })
    expect(first.meta[CHANGED]).toBe(true)
    const second = await at.result({ session_state: first.token })
    expect(lastTransaction(at)).toBe('tx1')
    await transactions.change(transactionKey(alice.id, 'tx1'), committed(Date.now()))
    const third = await at.result({ session_state: second.token })
    expect(lastTransaction(at), 'after the commit').toBeUndefined()
    expect(third.meta[CHANGED]).toBe(true)
    expect((await at.result({ session_state: third.token })).meta[CHANGED]).toBe(false)
  })

  test('is not part of the state unless that is configured', async () => {
    const { at } = await begun(false)
    const first = await at.result({ transaction_id: 'tx1' })
    expect(first.all).not.toHaveProperty('_meta')
  })

  test('gives way to the one that a call names', async () => {
    const { at } = await begun(true)
    const { token } = await at.result({ transaction_id: 'tx1' })
    await at.result({ session_state: token, transaction_id: 'tx2' })
    expect(lastTransaction(at)).toBe('tx2')
  })
})
