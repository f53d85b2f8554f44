import { describe, expect, test } from 'vitest'
import { chosenText, planAdvice, undoneText } from '../../../src/cli/undo.ts'
import type { Action, Compensation } from '../../../src/records/actions.ts'
import { choose, chosenView, partsOf } from '../../../src/records/rewind-plan.ts'
import { newTransaction, newUndoTransaction } from '../../../src/records/transitions.ts'
import type { Transaction } from '../../../src/records/transactions.ts'

const way: Compensation = { kind: 'exact', tool: 'drop', arguments: { id: 1 }, description: 'drop(id=1)' }

function deed(given: Partial<Action> = {}): Action {
  return {
    key: 'k1',
    startedAt: Date.UTC(2026, 10, 21, 10),
    principal: { id: 'me' },
    upstream: 'one',
    tool: 'make',
    arguments: { name: 'x' },
    status: 'ok',
    way,
    ...given,
  }
}

function transaction(status: Transaction['status'], given: Partial<Transaction> = {}): Transaction {
  const start = newTransaction({ id: 'tx', principal: { id: 'me' }, timeout: 1000, lifetime: 1000, now: 0 })
  const step = {
    id: 's1',
    deed: 'k1',
    upstream: 'one',
    tool: 'make',
    kind: 'write',
    status: 'ok',
    runner: '',
  } as const
  return { ...start, status, steps: [step], ...given }
}

describe('actions chosen for undo', () => {
  test.each<[string, Partial<Action>, object]>([
    ['can be undone exactly', {}, { how: 'exactly' }],
    ['can be undone approximately', { way: { ...way, kind: 'approximate' } }, { how: 'approximately' }],
    ['cannot be undone', { way: { kind: 'none', reason: 'so' } }, { how: 'not at all', why: 'so' }],
    [
      'may not have taken effect',
      { status: 'unknown' },
      { how: 'exactly', why: 'it is unknown whether it took effect' },
    ],
    ['has not finished', { status: 'pending' }, { how: 'not at all', why: 'it has not finished' }],
  ])('an action that %s is chosen with its reason', (_what, given, expected) => {
    expect(choose([deed(given)], [])).toEqual([{ action: deed(given), ...expected }])
  })

  test('the command that may add an undo is named once for each server with tools that have none', () => {
    const none: Partial<Action> = { way: { kind: 'none', reason: 'so', isUnconfigured: true } }
    const chosen = choose(
      [
        deed(none),
        deed({ ...none, key: 'k2' }),
        deed({ ...none, key: 'k3', tool: 'send\n' }),
        deed({ ...none, key: 'k4', upstream: 'two' }),
        deed({ key: 'k5', upstream: 'three', way: { kind: 'none', reason: 'too large' } }),
        deed({ key: 'k6', upstream: 'four' }),
      ],
      [],
    )
    expect(planAdvice(chosen, { config: 'my.yaml' })).toEqual([
      String.raw`one: gatehouse plan one --config my.yaml shows whether other tools undo make, send\n. With --write, it adds what is certain, for later calls.`,
      'two: gatehouse plan two --config my.yaml shows whether other tools undo make. With --write, it adds what is certain, for later calls.',
    ])
  })

  test.each<[string, Partial<Action>]>([
    ['failed', { status: 'failed' }],
    ['changed nothing', { way: { kind: 'nothing' } }],
    ['is undone already', { undoneAt: 1 }],
  ])('an action that %s is left out', (_what, given) => {
    expect(choose([deed(given)], [])).toEqual([])
  })

  test('an action in a committed transaction can be undone', () => {
    expect(choose([deed({ transaction: 'tx' })], [transaction('committed')])).toMatchObject([
      { how: 'exactly' },
    ])
  })

  test.each<[Transaction['status'], RegExp]>([
    ['active', /still open: see gatehouse tx rollback tx/],
    ['rolling_back', /^it is being undone$/],
    ['rolled_back', /was rolled back: see gatehouse tx show tx/],
    ['partially_rolled_back', /was rolled back: see gatehouse tx show tx/],
  ])('an action in a transaction that is %s is left to the transaction', (status, why) => {
    expect(choose([deed({ transaction: 'tx' })], [transaction(status)])).toMatchObject([
      { how: 'not at all', why: expect.stringMatching(why) },
    ])
  })

  test('an action compensated by its transaction is left out even if its own record is not marked', () => {
    const compensations = [{ step: 's1', status: 'compensated' } as const]
    expect(choose([deed({ transaction: 'tx' })], [transaction('rolled_back', { compensations })])).toEqual([])
  })

  test('an action whose undo failed can be tried again', () => {
    const failed = newUndoTransaction([deed()], { id: 'undo-1', by: 'me', now: 0 })
    const compensations = [{ step: failed.steps[0]?.id ?? '', status: 'compensation_failed' } as const]
    const ended = { ...failed, status: 'partially_rolled_back', compensations } as const
    expect(choose([deed()], [ended])).toMatchObject([{ how: 'exactly' }])
  })
})

describe('the text output of undo', () => {
  const [exact] = choose([deed({ arguments: { name: 'x\u202e\u001b[2J', long: 'y'.repeat(100) } })], [])
  if (!exact) throw new Error('there is none')

  test('the text is short and free of control and bidirectional characters', () => {
    const text = chosenText(exact)
    expect(text.split('\n')).toHaveLength(2)
    expect(text).toContain('2026-11-21T10:00:00Z  me  one  make(name="x\\u202e\\u001b[2J", long="yyy')
    expect(text).toMatch(/y…\)\n {4}exactly: drop\(id=1\)$/)
  })

  test('the text states whether each action was undone', () => {
    const action = { ...exact.action, how: exact.how }
    expect(undoneText({ action, outcome: 'undone' })).toBe('undone      2026-11-21T10:00:00Z  one  make')
    expect(undoneText({ action, outcome: 'not_undone', error: 'gone' })).toBe(
      'not undone  2026-11-21T10:00:00Z  one  make: gone',
    )
  })

  test('the JSON output contains the values in full', () => {
    expect(chosenView(exact)).toMatchObject({
      undo: 'exactly',
      arguments: { long: 'y'.repeat(100) },
      call: { tool: 'drop', arguments: { id: 1 } },
    })
  })
})

test('text of a server never starts a line of its own', () => {
  const why = 'what was there before could not be read: x\n\u001b[2Kall is well'
  const lines = chosenText({ action: deed({ upstream: why }), how: 'not at all', why }).split('\n')
  expect(lines).toHaveLength(2)
  expect(
    undoneText({ action: { ...deed(), how: 'exactly' }, outcome: 'not_undone', error: why }),
  ).not.toMatch(/\p{C}/u)
})

test('actions of several callers are undone in reverse order of execution', () => {
  const by = (key: string, id: string): Action => deed({ key, principal: { id } })
  const parts = partsOf([by('5', 'me'), by('4', 'you'), by('3', 'you'), by('2', 'me'), by('1', 'me')])
  expect(parts.map((part) => part.map(({ key }) => key))).toEqual([['5'], ['4', '3'], ['2', '1']])
  expect(partsOf([])).toEqual([])
})
