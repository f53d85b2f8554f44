import { describe, expect, test } from 'vitest'
import type { PlannedAction } from '../../../src/records/rewind-plan.ts'
import {
  newRewind,
  orderSteps,
  partsOfRewind,
  progressOf,
  type Rewind,
  type RewindOrder,
  Rewinds,
} from '../../../src/records/rewinds.ts'
import { type Transaction, transactionKey } from '../../../src/records/transactions.ts'
import { newTransaction } from '../../../src/records/transitions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const order: RewindOrder = { by: 'ann', via: 'page' }

function planned(key: string, given: Partial<PlannedAction> = {}): PlannedAction {
  return {
    key,
    startedAt: 1,
    upstream: 'files',
    tool: 'write',
    principal: { id: 'me' },
    how: 'exactly',
    ...given,
  }
}

const changed = { kind: 'changed', read: 'read()', hash: 'h', difference: ['+ x'] } as const
const you = { principal: { id: 'you' } }
const plan: readonly PlannedAction[] = [
  planned('5'),
  planned('4', you),
  planned('3', { ...you, present: changed }),
  planned('2', { how: 'not at all', why: 'so' }),
  planned('1'),
]

function undoing(given: Partial<Rewind> = {}): Rewind {
  return { ...newRewind({ status: 'undoing', plan, order }), id: 'undo-1', ...given }
}

describe('an ordered plan', () => {
  test('becomes one transaction for each run of actions of a caller, without those that are left', () => {
    const parts = partsOfRewind(undoing()).map(({ transaction, caller, actions }) => [
      transaction,
      caller,
      actions.map(({ key }) => key),
    ])
    expect(parts).toEqual([
      ['undo-1', 'me', ['5']],
      ['undo-1-2', 'you', ['4']],
      ['undo-1-3', 'me', ['1']],
    ])
  })

  test('is audited with its transactions, and with what was left for whom', () => {
    expect(orderSteps({ ...undoing(), order })).toEqual([
      { order: 'undo', by: 'ann', via: 'page', transaction: 'undo-1', caller: 'me' },
      { order: 'undo', by: 'ann', via: 'page', transaction: 'undo-1-2', caller: 'you' },
      { order: 'undo', by: 'ann', via: 'page', transaction: 'undo-1-3', caller: 'me' },
      { order: 'undo', by: 'ann', via: 'page', left: ['3'], caller: 'you' },
    ])
    const forced = orderSteps({ ...undoing(), order: { ...order, force: true } })
    expect(forced).toHaveLength(3)
    expect(forced.every(({ force }) => force)).toBe(true)
  })
})

describe('the progress of a rewind', () => {
  const steps = (key: string): Pick<Transaction, 'steps'> => ({
    steps: [
      {
        id: 's1',
        deed: key,
        upstream: 'files',
        tool: 'write',
        kind: 'write',
        status: 'ok',
        runner: '',
      } as const,
    ],
  })
  const start = (id: string): Transaction =>
    newTransaction({ id, principal: { id: 'me' }, timeout: 0, lifetime: 0, now: 0 })

  async function outcomes(rewind: Rewind, transactions: Readonly<Record<string, Transaction>> = {}) {
    const byKey = new Map(
      partsOfRewind(rewind).map(({ caller, transaction }) => [
        transactionKey(caller, transaction),
        transactions[transaction],
      ]),
    )
    const { actions } = await progressOf(rewind, async (key) => byKey.get(key))
    return actions.map(({ action: { key }, outcome, error }) => [
      key,
      outcome,
      ...(error === undefined ? [] : [error]),
    ])
  }

  test('waits for each action until its transaction says what became of it', async () => {
    const first: Transaction = {
      ...start('undo-1'),
      ...steps('5'),
      status: 'rolled_back',
      compensations: [{ step: 's1', status: 'compensated', state: 'old' }],
    }
    const second: Transaction = { ...start('undo-1-2'), ...steps('4'), status: 'rolling_back' }
    expect(await outcomes(undoing(), { 'undo-1': first, 'undo-1-2': second })).toEqual([
      ['5', 'undone'],
      ['4', 'waiting'],
      ['3', 'left', expect.stringContaining('Something else changed it since: read()')],
      ['2', 'cannot', 'so'],
      ['1', 'waiting'],
    ])
  })

  test('says at the end why something was not undone', async () => {
    const error = { code: 'CONFLICT', message: 'no', details: { difference: ['- a'] } }
    const second: Transaction = {
      ...start('undo-1-2'),
      ...steps('4'),
      status: 'partially_rolled_back',
      compensations: [{ step: 's1', status: 'compensation_failed', error }],
    }
    const open: Transaction = { ...start('undo-1-3'), ...steps('1'), status: 'rolling_back' }
    const ended = undoing({ status: 'ended' })
    expect(await outcomes(ended, { 'undo-1-2': second, 'undo-1-3': open })).toMatchObject([
      ['5', 'not_undone', expect.stringContaining('another process')],
      ['4', 'not_undone', 'no'],
      ['3', 'left', expect.anything()],
      ['2', 'cannot', 'so'],
      ['1', 'not_undone', expect.stringContaining('has not finished')],
    ])
    expect((await outcomes({ ...ended, isLate: true }))[0]).toEqual([
      '5',
      'not_undone',
      expect.stringContaining('was not started'),
    ])
  })
})

describe('rewinds in a store', () => {
  test('are due while a gateway has to do something for them', async () => {
    const rewinds = new Rewinds(new MemoryStore())
    await rewinds.put(undoing())
    await rewinds.put(undoing({ id: 'undo-2', status: 'planned' }))
    expect(await rewinds.due()).toEqual(['undo-1'])
    expect(await rewinds.find('undo-2')).toMatchObject({ status: 'planned' })
    await rewinds.change('undo-1', (each) => ({ ...each, status: 'ended' }))
    await rewinds.change('undo-2', (each) => ({ ...each, status: 'undoing' }))
    expect(await rewinds.due()).toEqual(['undo-2'])
  })

  test.each([
    ['no JSON', 'x'],
    ['another value', '[1]'],
    ['a plan of something else', JSON.stringify({ ...undoing(), plan: [null, 1] })],
    [
      'an action without a caller',
      JSON.stringify({ ...undoing(), plan: [{ ...planned('1'), principal: {} }] }),
    ],
  ])('that cannot be read, as %s, are none, and are not due any more', async (_what, text) => {
    const store = new MemoryStore()
    const rewinds = new Rewinds(store)
    await rewinds.put(undoing())
    await store.put('rewind:undo-1', text, 60_000)
    expect(await rewinds.find('undo-1')).toBeUndefined()
    expect(await rewinds.change('undo-1', (each) => each)).toBeUndefined()
    expect(await rewinds.due()).toEqual([])
  })

  test('have at most so many actions', async () => {
    const many = Array.from({ length: 10_001 }, (_, index) => planned(String(index)))
    const put = new Rewinds(new MemoryStore()).put(undoing({ plan: many }))
    await expect(put).rejects.toThrow('10001 actions are too many')
  })
})
