import { describe, expect, test } from 'vitest'
import type { Action, ActionStates, Compensation } from '../../../src/records/actions.ts'
import {
  choose,
  type Chosen,
  isToBeUndone,
  plannedActions,
  planChanges,
  type PresentState,
  withPresent,
} from '../../../src/records/rewind-plan.ts'

const way: Compensation = { kind: 'exact', tool: 'write', arguments: {}, description: 'write()' }

/** A write to a file, whose content was `before`, and then `left`. */
function write(
  key: string,
  path: string,
  [before, left]: readonly [string, string],
  given: Partial<Action> = {},
) {
  const states: ActionStates = {
    tool: 'read',
    arguments: { path },
    parts: [['content']],
    before,
    left: { hash: left },
  }
  return action(key, { states, arguments: { path, content: left }, ...given })
}

function action(key: string, given: Partial<Action> = {}): Action {
  return {
    key,
    startedAt: 1000,
    principal: { id: 'me' },
    upstream: 'files',
    tool: 'write',
    arguments: {},
    status: 'ok',
    way,
    ...given,
  }
}

/** What reads show now, by path: the content, or why it cannot be read. */
function present(newestFirst: readonly Action[], now: Readonly<Record<string, PresentState | string>>) {
  const plan = choose(newestFirst, [])
  const states = plan.flatMap(({ action: { key, states: known } }) => {
    const found = now[String(known?.arguments['path'])]
    if (found === undefined) return []
    const state =
      typeof found === 'string' ? { hash: found, read: 'read()', difference: [`+ ${found}`] } : found
    return [[key, state] as const]
  })
  return withPresent(plan, new Map(states))
}

/** In a few words: the key of each action, and what is known of the present. */
function told(plan: readonly Chosen[]): string[] {
  return plan.map(({ action: { key }, how, present: known }) => {
    if (how === 'not at all') return `${key} not at all`
    return known ? `${key} ${known.kind}` : key
  })
}

describe('two writes to one file', () => {
  const newest = write('2', '/a', ['one', 'two'])
  const oldest = write('1', '/a', ['', 'one'])

  test('are both as they were left if the newer one explains the present state', () => {
    expect(told(present([newest, oldest], { '/a': 'two' }))).toEqual(['2 as_left', '1 as_left'])
  })

  test('are both changed if somebody wrote after the newer one, with the difference of each', () => {
    const plan = present([newest, oldest], { '/a': 'theirs' })
    expect(told(plan)).toEqual(['2 changed', '1 changed'])
    expect(plan.map(({ present: known }) => known)).toEqual([
      { kind: 'changed', read: 'read()', hash: 'theirs', difference: ['+ theirs'] },
      { kind: 'changed', read: 'read()', hash: 'theirs', difference: ['+ theirs'] },
    ])
  })

  test('are as they were left if somebody brought back the state before the newer one', () => {
    expect(told(present([newest, oldest], { '/a': 'one' }))).toEqual(['2 as_left', '1 as_left'])
  })

  test('leave the older one to somebody who wrote between them', () => {
    const between = write('2', '/a', ['theirs', 'two'])
    const plan = present([between, oldest], { '/a': 'two' })
    expect(told(plan)).toEqual(['2 as_left', '1 changed'])
    expect(plan[1]?.present).toMatchObject({
      hash: 'theirs',
      difference: [expect.stringContaining('before a later action of this plan')],
    })
  })

  test('of which the newer one is not in the plan leave the older one changed', () => {
    expect(told(present([oldest], { '/a': 'two' }))).toEqual(['1 changed'])
  })

  test('of which the newer one cannot be undone leave the older one changed', () => {
    const stuck = { ...newest, way: { kind: 'none', reason: 'so' } as const }
    expect(told(present([stuck, oldest], { '/a': 'two' }))).toEqual(['2 not at all', '1 changed'])
  })

  test('of several callers explain each other if both see the same', () => {
    const mine = write('1', '/a', ['', 'one'], { principal: { id: 'you' } })
    expect(told(present([newest, mine], { '/a': 'two' }))).toEqual(['2 as_left', '1 as_left'])
  })

  test('of callers who see different states are not compared with each other', () => {
    const plan = choose([newest, oldest], [])
    const seen = (hash: string): PresentState => ({ hash, read: 'read()', difference: [] })
    const verdicts = (now: string) =>
      told(
        withPresent(
          plan,
          new Map([
            ['2', seen('two')],
            ['1', seen(now)],
          ]),
        ),
      )
    expect(verdicts('one')).toEqual(['2 as_left', '1 as_left'])
    expect(verdicts('other')).toEqual(['2 as_left', '1 unknown'])
  })
})

test('a chain of writes is as it was left from the newest to the oldest, and the first foreign change ends it', () => {
  const chain = ['e', 'd', 'c', 'b'].map((left, index) => {
    const before = ['d', 'c', 'b', 'a'][index] ?? ''
    return write(left, '/a', [before, left])
  })
  expect(told(present(chain, { '/a': 'e' }))).toEqual(['e as_left', 'd as_left', 'c as_left', 'b as_left'])
  const [newest, , ...rest] = chain
  const broken = newest ? [newest, write('d', '/a', ['x', 'd']), ...rest] : []
  expect(told(present(broken, { '/a': 'e' }))).toEqual(['e as_left', 'd as_left', 'c changed', 'b changed'])
})

describe('an action whose undo reads no state', () => {
  const moved = action('2', {
    tool: 'move',
    arguments: { source: '/a', destination: '/b' },
    way: { ...way, tool: 'move', arguments: { source: '/b', destination: '/a' } },
  })
  const written = write('1', '/a', ['', 'one'])

  test('may explain the state of an earlier one that names the same thing: it cannot be told', () => {
    const plan = present([moved, written], { '/a': 'absent' })
    expect(told(plan)).toEqual(['2', '1 unknown'])
    expect(plan[1]?.present).toMatchObject({ why: expect.stringContaining('later actions of this plan') })
  })

  test.each([
    ['a folder in which the other one is', '/', true],
    ['something in the other one', '/a/b', true],
    ['another file whose name begins alike', '/ab', false],
    ['another file', '/c', false],
  ])('that names %s explains it only if that is the same place', (_what, path, isTouched) => {
    const other = action('2', { arguments: { path }, way: { ...way, arguments: {} } })
    const expected = isTouched ? '1 unknown' : '1 changed'
    expect(told(present([other, written], { '/a': 'theirs' }))).toEqual(['2', expected])
  })

  test('and that names nothing, such as one that was too large, may explain everything on its server', () => {
    const nameless = action('2', { arguments: {} })
    expect(told(present([nameless, written], { '/a': 'theirs' }))).toEqual(['2', '1 unknown'])
    const elsewhere = action('2', { arguments: {}, upstream: 'graph' })
    expect(told(present([elsewhere, written], { '/a': 'theirs' }))).toEqual(['2', '1 changed'])
  })

  test('does not explain what came after it', () => {
    expect(told(present([written, moved], { '/a': 'theirs' }))).toEqual(['1 changed', '2'])
  })

  test('makes what depends on it uncertain too', () => {
    const earlier = write('0', '/a', ['zero', ''])
    expect(told(present([moved, written, earlier], { '/a': 'absent' }))).toEqual([
      '2',
      '1 unknown',
      '0 unknown',
    ])
  })
})

describe('what cannot be read', () => {
  const written = write('1', '/a', ['', 'one'])

  test('says why', () => {
    const plan = present([written], { '/a': { unread: 'it is away' } })
    expect(plan[0]?.present).toEqual({ kind: 'unknown', why: 'it is away' })
    expect(isToBeUndone(plan[0] ?? { how: 'not at all' })).toBe(true)
  })

  test('or was not read when it was left, says that, and may explain an earlier action there', () => {
    const { states } = written
    if (!states) throw new Error('no states')
    const { left: _left, ...unread } = states
    const lost = { ...written, key: '2', states: { ...unread, left: { unread: 'it ended' } } }
    const never = { ...written, key: '3', states: unread }
    const plan = present([never, lost, written], { '/a': 'theirs' })
    expect(plan.map(({ present: known }) => known)).toEqual([
      { kind: 'unknown', why: 'what the call left was not read' },
      { kind: 'unknown', why: 'it ended' },
      { kind: 'unknown', why: expect.stringContaining('later actions') },
    ])
  })
})

test('ids beyond 2^53 are names of different things', () => {
  const big = (key: string, id: unknown) => {
    const { states, ...rest } = write(key, '', ['', 'one'])
    return states ? { ...rest, states: { ...states, arguments: { id } } } : rest
  }
  const other = action('2', { arguments: { id: '9007199254740993' } })
  const plan = choose([other, big('1', '9007199254740992')], [])
  const states = new Map([['1', { hash: 'theirs', read: 'read()', difference: [] }]])
  expect(told(withPresent(plan, states))).toEqual(['2', '1 changed'])
})

test('only force undoes what somebody else changed since, and nothing undoes what cannot be undone', () => {
  const [changed] = present([write('1', '/a', ['', 'one'])], { '/a': 'theirs' })
  if (!changed) throw new Error('none')
  expect([isToBeUndone(changed), isToBeUndone(changed, true)]).toEqual([false, true])
  expect(isToBeUndone({ how: 'not at all' }, true)).toBe(false)
})

test('the differences of a plan are bounded together', () => {
  const writes = Array.from({ length: 400 }, (_, index) => write(String(index), `/${index}/`, ['', 'one']))
  const long = { hash: 'theirs', read: 'read()', difference: ['x'.repeat(8000)] }
  const now = Object.fromEntries(writes.map((_, index) => [`/${index}/`, long]))
  const plan = present(writes, now)
  expect(JSON.stringify(plannedActions(plan)).length).toBeLessThan(1_300_000)
  expect(plan.at(-1)?.present).toMatchObject({
    kind: 'changed',
    difference: [expect.stringContaining('not shown')],
  })
})

test('a later plan differs by new actions, by those that are gone, and by another verdict', () => {
  const [one, two, three] = ['1', '2', '3'].map((key) => write(key, `/${key}`, ['', 'left']))
  if (!one || !two || !three) throw new Error('none')
  const before = plannedActions(present([two, one], { '/1': 'left', '/2': 'left' }))
  expect(planChanges(before, plannedActions(present([two, one], { '/1': 'left', '/2': 'left' })))).toEqual([])
  const after = plannedActions(present([three, two], { '/3': 'left', '/2': 'theirs' }))
  const at = '1970-01-01T00:00:01.000Z  me  files  write:'
  expect(planChanges(before, after)).toEqual([
    { key: '3', change: 'new', text: `${at} exactly, as it was left` },
    {
      key: '2',
      change: 'other',
      text: `${at} exactly, changed by something else since; before: exactly, as it was left`,
    },
    { key: '1', change: 'gone', text: `${at} undone, or not kept any more` },
  ])
})

test('another change by somebody else is another plan, another reason why a state is unknown is not', () => {
  const written = write('1', '/a', ['', 'one'])
  const plan = (now: PresentState | string) => plannedActions(present([written], { '/a': now }))
  expect(planChanges(plan('theirs'), plan('others'))).toHaveLength(1)
  expect(planChanges(plan({ unread: 'away' }), plan({ unread: 'still away' }))).toEqual([])
})

test('text of servers in a change is on one line, without control characters', () => {
  const tool = 'x\n\u001b[2J\u202e\ud800'
  const [change] = planChanges([], plannedActions(choose([action('1', { tool, upstream: tool })], [])))
  expect(change?.text).not.toMatch(/\p{C}/u)
})
