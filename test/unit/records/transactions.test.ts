import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import type { Action } from '../../../src/records/actions.ts'
import {
  acknowledged,
  newTransaction,
  committed,
  compensated,
  rolledBack,
  rollingBack,
  stepResumed,
  stepWaiting,
  stepStarted,
  stepEnded,
  stepLost,
  stepRemoved,
  takenOver,
  newUndoTransaction,
} from '../../../src/records/transitions.ts'
import {
  type CompensationStatus,
  hasEnded,
  type Transition,
  needsAttention,
  type Step,
  type Transaction,
  transactionKey,
  Transactions,
} from '../../../src/records/transactions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const principal = { id: 'ann' }

function active(given: Partial<Transaction> = {}): Transaction {
  return { ...newTransaction({ id: 't', principal, timeout: 1000, lifetime: 5000, now: 0 }), ...given }
}

function step(id: string, given: Partial<Step> = {}): Step {
  const about = { upstream: 'one', tool: 'put', kind: 'write', runner: 'me' } as const
  return { id, deed: `deed of ${id}`, ...about, status: 'pending', ...given }
}

const ids = fc.constantFrom('s1', 's2', 's3')
const error = fc.constantFrom(undefined, { code: 'UPSTREAM_ERROR' })
const who = fc.constantFrom('me', 'you')
const now = fc.nat(20_000)

const ends = fc.constantFrom(
  { status: 'ok' },
  { status: 'failed' },
  { status: 'failed', isUnsent: true },
) as fc.Arbitrary<Parameters<typeof stepEnded>[1]>
const results: fc.Arbitrary<CompensationStatus> = fc
  .record({ step: ids, error })
  .map(({ step: id, error: found }) => {
    return found
      ? { step: id, status: 'compensation_failed', error: found }
      : { step: id, status: 'compensated' }
  })

const moves: fc.Arbitrary<readonly [string, Transition]> = fc.oneof(
  fc.tuple(ids, now).map(([id, at]) => ['begin', stepStarted(step(id), { maxSteps: 2, now: at })] as const),
  fc.tuple(ids, ends, now).map(([id, end, at]) => ['end', stepEnded(id, end, at)] as const),
  fc.tuple(ids, now).map(([id, at]) => ['lose', stepLost(step(id), at)] as const),
  fc.tuple(ids, now).map(([id, at]) => ['remove', stepRemoved(id, at)] as const),
  fc
    .tuple(ids, fc.option(who, { nil: undefined }))
    .map(([id, by]) => ['ask', by === undefined ? stepWaiting(id) : stepResumed(id, by)] as const),
  now.map((at) => ['commit', committed(at)] as const),
  fc.constant(['roll back', rollingBack('why')] as const),
  fc
    .tuple(who, fc.option(who, { nil: undefined }))
    .map(([by, before]) => ['take up', takenOver(by, before)] as const),
  fc.tuple(results, who).map(([each, by]) => ['compensate', compensated(each, by)] as const),
  fc.tuple(who, now).map(([by, at]) => ['finish', rolledBack(by, at)] as const),
  now.map((at) => ['acknowledge', acknowledged('bob', at)] as const),
)

const legal: Readonly<Record<Transaction['status'], readonly Transaction['status'][]>> = {
  active: ['active', 'committed', 'rolling_back'],
  rolling_back: ['rolling_back', 'rolled_back', 'partially_rolled_back'],
  committed: ['committed'],
  rolled_back: ['rolled_back'],
  partially_rolled_back: ['partially_rolled_back'],
}

describe('transitions of a transaction', () => {
  it('any sequence of transitions reaches only legal states', () => {
    fc.assert(
      fc.property(fc.array(moves, { maxLength: 40 }), (tried) => {
        let before = active()
        for (const [name, move] of tried) {
          const after = made(move, before)
          check(name, before, after)
          before = after
        }
      }),
    )
  })

  it('a transition does not change a transaction that another process changed', () => {
    const rolling = active({ status: 'rolling_back', runner: 'you' })
    expect(takenOver('me', undefined)(rolling)).toBe(rolling)
    expect(() => compensated({ step: 's1', status: 'compensated' }, 'me')(rolling)).toThrow(GatewayError)
  })

  it('an abandoned step is ended unless it was replaced, is waiting for input or is complete', () => {
    const lose = stepLost(step('s1'), 0)
    expect(lose(active({ steps: [step('s1')] })).steps).toMatchObject([
      { status: 'failed', error: { code: 'OUTCOME_UNKNOWN' } },
    ])
    const others = [{ deed: 'another' }, { runner: 'you' }, { isOpen: true }, { status: 'ok' }] as const
    for (const other of others) {
      const transaction = active({ steps: [step('s1', other)] })
      expect(lose(transaction)).toBe(transaction)
    }
    const over = active({ status: 'rolled_back', steps: [step('s1')] })
    expect(lose(over)).toBe(over)
  })

  it('each step restarts the idle timeout, up to the lifetime', () => {
    const one = stepStarted(step('s1'), { maxSteps: 9, now: 800 })(active())
    expect(one.expiresAt).toBe(1800)
    expect(stepEnded('s1', { status: 'ok' }, 4900)(one).expiresAt).toBe(5000)
  })

  it('the id of a step that was never sent can be used again', () => {
    const failed = active({ steps: [step('s1', { status: 'failed', isUnsent: true })] })
    expect(stepStarted(step('s1'), { maxSteps: 1, now: 0 })(failed).steps).toEqual([step('s1')])
    const done = active({ steps: [step('s1', { status: 'failed' })] })
    expect(() => stepStarted(step('s1'), { maxSteps: 9, now: 0 })(done)).toThrow('already has a step "s1"')
  })
})

function made(move: Transition, before: Transaction): Transaction {
  try {
    return move(before)
  } catch (thrown) {
    if (!(thrown instanceof GatewayError) || thrown.code !== 'TRANSACTION_CONFLICT') throw thrown
    return before
  }
}

function check(name: string, before: Transaction, after: Transaction): void {
  expect(legal[before.status]).toContain(after.status)
  if (hasEnded(before) && name !== 'acknowledge') expect(after).toBe(before)
  if (hasEnded(before))
    expect({ ...after, acknowledged: undefined }).toEqual({ ...before, acknowledged: undefined })
  if (before.acknowledged) expect(after.acknowledged).toEqual(before.acknowledged)
  expect(after.steps.filter(({ status }) => status === 'pending').length).toBeLessThanOrEqual(1)
  expect(after.steps.length).toBeLessThanOrEqual(2)
  if (hasEnded(after)) expect(after.steps.every(({ status }) => status !== 'pending')).toBe(true)
  expect(new Set(after.steps.map(({ id }) => id)).size).toBe(after.steps.length)
  expect(new Set(after.compensations.map((each) => each.step)).size).toBe(after.compensations.length)
  expect(after.compensations.slice(0, before.compensations.length)).toEqual(before.compensations)
  expect(after.expiresAt).toBeLessThanOrEqual(after.endsAt)
  if (before.status !== 'active') expect(after.steps.length).toBeLessThanOrEqual(before.steps.length)
  const isClean = after.compensations.every((each) => each.error === undefined)
  if (after.status === 'rolled_back') expect(isClean).toBe(true)
  if (after.status === 'partially_rolled_back') expect(isClean).toBe(false)
}

describe('stored transactions', () => {
  it('transactions are stored separately by caller for any id', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.string(), fc.string({ unit: 'grapheme' })), { maxLength: 8 }),
        async (all) => {
          const keys = new Set(all.map(([one, id]) => transactionKey(one, id)))
          expect(keys.size).toBe(new Set(all.map((each) => JSON.stringify(each))).size)
          for (const key of keys) expect(key.startsWith('transaction/')).toBe(true)
        },
      ),
    )
  })

  it('a transaction is opened once', async () => {
    const repository = new Transactions(new MemoryStore(), 1000)
    const opened = await Promise.all([repository.open(active()), repository.open(active())])
    expect(opened.toSorted()).toEqual([false, true])
  })

  it('all concurrent changes are recorded', async () => {
    const repository = new Transactions(new MemoryStore(), 1000)
    await repository.open(active())
    const key = transactionKey('ann', 't')
    await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        repository.change(key, (found) => ({
          ...found,
          steps: [...found.steps, step(`s${index}`, { status: 'ok' })],
        })),
      ),
    )
    expect((await repository.find(key))?.steps).toHaveLength(20)
  })

  it('transactions are listed by caller and by open status', async () => {
    const repository = new Transactions(new MemoryStore(), 1000)
    await repository.open(active())
    await repository.open(active({ id: 'u', status: 'committed' }))
    await repository.open(active({ id: 'v', principal: { id: 'bob' }, status: 'rolling_back' }))
    const idsOf = (found: Awaited<ReturnType<typeof repository.list>>): string[] =>
      found.map(({ transaction }) => transaction.id).toSorted()
    expect(idsOf(await repository.list())).toEqual(['t', 'u', 'v'])
    expect(idsOf(await repository.list('bob'))).toEqual(['v'])
    expect(idsOf(await repository.unfinished())).toEqual(['t', 'v'])
  })

  it('records of other versions or software are not taken for transactions', async () => {
    const store = new MemoryStore()
    await store.put(transactionKey('ann', 't'), '{"status":"active"}', 1000)
    await store.put(transactionKey('ann', 'u'), '{"status":"active', 1000)
    const repository = new Transactions(store, 1000)
    expect(await repository.list()).toEqual([])
    expect(await repository.unfinished()).toEqual([])
    await expect(repository.change(transactionKey('ann', 't'), (found) => found)).rejects.toMatchObject({
      code: 'RESOURCE_NOT_FOUND',
    })
  })

  it('ended transactions expire, except those that need attention', async () => {
    let time = 0
    const repository = new Transactions(new MemoryStore(() => time), 1000)
    await repository.open(active({ id: 'done', status: 'rolled_back' }))
    const left = active({ id: 'left', status: 'partially_rolled_back' })
    expect(needsAttention(left)).toBe(true)
    await repository.open(left)
    time = 2000
    expect((await repository.list()).map(({ transaction }) => transaction.id)).toEqual(['left'])
    await repository.change(transactionKey('ann', 'left'), acknowledged('bob', 0))
    time = 3500
    expect(await repository.list()).toEqual([])
  })
})

describe('a transaction from actions outside of transactions', () => {
  const deed = (key: string, startedAt: number, id = 'ann'): Action => {
    const way = { kind: 'none', reason: 'x' } as const
    return {
      key,
      startedAt,
      principal: { id },
      upstream: 'one',
      tool: 'put',
      arguments: {},
      status: 'ok',
      way,
    }
  }

  it('actions are arranged in order of execution, to be rolled back by any gateway', () => {
    const found = newUndoTransaction([deed('b', 2), deed('a', 1)], { id: 'undo-1', by: 'somebody', now: 9 })
    expect(found).toMatchObject({
      id: 'undo-1',
      principal,
      status: 'rolling_back',
      reason: 'somebody',
      steps: [
        { id: 'step-1', deed: 'a', status: 'ok' },
        { id: 'step-2', deed: 'b', status: 'ok' },
      ],
    })
    expect(found).not.toHaveProperty('runner')
  })

  it('only actions of one caller are accepted', () => {
    const about = { id: 'u', by: 'x', now: 0 }
    expect(() => newUndoTransaction([deed('a', 1), deed('b', 2, 'bob')], about)).toThrow(TypeError)
    expect(() => newUndoTransaction([], about)).toThrow(TypeError)
  })
})
