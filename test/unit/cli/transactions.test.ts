import { expect, it } from 'vitest'
import { rollbackText, transactionList, transactionText } from '../../../src/cli/tx.ts'
import { newTransaction } from '../../../src/records/transitions.ts'
import type { Transaction } from '../../../src/records/transactions.ts'

const start = newTransaction({ id: 't', principal: { id: 'me' }, timeout: 1000, lifetime: 1000, now: 0 })
const acknowledged = { by: 'ann', at: 0 }

it('transactions of every status are listed in aligned columns', () => {
  const all: readonly Transaction[] = [
    { ...start, status: 'partially_rolled_back' },
    { ...start, status: 'partially_rolled_back', acknowledged },
    { ...start, status: 'rolling_back' },
    start,
  ]
  expect(transactionList(all).split('\n')).toEqual([
    'needs attention        1970-01-01T00:00:00Z  t  me  0 steps',
    'partially rolled back  1970-01-01T00:00:00Z  t  me  0 steps',
    'rolling back           1970-01-01T00:00:00Z  t  me  0 steps',
    'active                 1970-01-01T00:00:00Z  t  me  0 steps',
  ])
})

it('text of callers and servers never starts a line of its own', () => {
  const hostile = 'x\n\u001b[2Kall is well\u202e'
  const error = { code: 'UPSTREAM_ERROR', message: hostile }
  const whole: Transaction = {
    ...start,
    id: hostile,
    principal: { id: hostile },
    description: hostile,
    reason: hostile,
    status: 'partially_rolled_back',
    compensations: [{ step: hostile, status: 'compensation_failed', error }],
  }
  const texts = [
    transactionList([whole]),
    rollbackText(whole),
    transactionText({ transaction: whole, actions: new Map() }),
  ]
  for (const line of texts.join('\n').split('\n')) expect(line).not.toMatch(/^\s*all is well|\p{C}/u)
})
