import { describe, expect, it } from 'vitest'
import { fateOf, type Person, personRules } from '../../../src/records/persons.ts'
import { callerHash, windowsOf } from '../../../src/records/principal.ts'
import { newTransaction } from '../../../src/records/transitions.ts'
import { keyPrefixes } from '../../../src/store/store.ts'

const anna = 'user:Änna "x", ou=<b>'
const [hash, other] = [callerHash(anna), callerHash('user:ben')]
const sealed: Readonly<Record<string, unknown>> = {
  'oauth:grant:1': { value: 'secret', principal: anna },
  'oauth:grant:2': { value: 'secret', principal: 'user:ben' },
  'oauth:state:3': { principal: anna },
  'oauth:start:4': { principal: anna },
  'oauth:session:5': { claims: { sub: anna.slice('user:'.length) } },
  'oauth:session:6': { claims: { sub: 'ben' } },
  'oauth:client:7': { id: 'client' },
}
const person: Person = { id: anna, grants: new Set(['oauth:grant:8']), unsealed: (key) => sealed[key] }
const soon = Date.now() + 60_000

function fate(key: string, value: unknown) {
  return fateOf({ key, text: typeof value === 'string' ? value : JSON.stringify(value) }, person)
}

describe('what the store has of a person', () => {
  it('is said for the keys of every prefix', () => {
    expect(Object.keys(personRules).toSorted()).toEqual(Object.keys(keyPrefixes).toSorted())
  })

  it.each([
    ['an approval', 'approval/1', { caller: anna }, 'approvals'],
    ['a decision for later calls', 'approval:kept:1', { owner: hash, grant: {} }, 'remembered decisions'],
    ['a budget', `budget:${hash}:all:1`, '3', 'budgets'],
    ['a keyed call', `call:${hash}/files:k`, { state: 'done' }, 'calls with an idempotency key'],
    ['a session of a client', `client-session/${hash}:s`, {}, 'sessions of clients'],
    ['a context', 'context/1', { owner: hash }, 'contexts on servers'],
    ['a dead letter', `dead-letter/${hash}:1`, {}, 'dead letters'],
    ['a dead letter about it', `dead-letter/${other}:1`, { event: { by: hash } }, 'dead letters'],
    ['an action', 'deed/1', { principal: { id: anna }, status: 'ok' }, 'actions'],
    ['an operation', `operation:${hash}/1`, { state: 'completed' }, 'operations'],
    ['a rewind', 'rewind:1', { status: 'ended', plan: [{ principal: { id: anna } }] }, 'rewinds'],
    ['an upload', `upload/${hash}:1`, {}, 'uploads'],
    ['a grant', 'oauth:grant:1', '', 'grants at servers'],
    ['a grant of an earlier version', 'oauth:grant:8', '', 'grants at servers'],
    ['a sign-in', 'oauth:state:3', '', 'sign-ins'],
    ['a session of the pages', 'oauth:session:5', '', 'sessions of the pages'],
    ['a damaged record of its own', `subscription/${hash}:1`, 'garbage', 'subscriptions to events'],
  ])('is %s, which is removed', (_what, key, value, counted) => {
    expect(fate(key, value)).toEqual({ counts: { [counted]: 1 } })
  })

  it.each([
    ['approval/1', { caller: 'user:ben', decisions: [{ by: 'user:carl' }] }],
    [`call:${other}/files:k`, { state: 'done' }],
    [`budget:${hash}0:all`, '1'],
    ['oauth:grant:2', ''],
    ['oauth:session:6', ''],
    ['oauth:client:7', ''],
    ['deed/1', { principal: { id: 'user:ben' }, arguments: { to: anna } }],
    ['deed/2', null],
    ['contract/files', { upstream: anna }],
    ['unknown:1', { caller: anna }],
  ])('is not what others have: %s', (key, value) => {
    expect(fate(key, value)).toBeUndefined()
  })

  it('is removed with what belongs to it', () => {
    expect(fate(`reference/${hash}:1`, { blob: 'b1' })).toEqual({ counts: { 'kept data': 1 }, blob: 'b1' })
    expect(fate('session:s1', { principal: anna, refresh: 'r' })).toEqual({
      counts: { 'scoped sessions': 1 },
      also: ['session:s1:used', 'session:s1:refresh:r'],
    })
    expect(fate(`states/${hash}:1`, '12')).toEqual({ counts: {} })
  })

  it('is a name in what others need, where a placeholder takes its place', () => {
    const by = [{ by: 'user:carl' }, { by: anna, verdict: 'approved', reason: 'fine' }]
    const approval = { caller: 'user:ben', arguments: { id: 1 }, decisions: by, status: 'used' }
    const changed = JSON.parse(fate('approval/1', approval)?.text ?? '') as object
    expect(changed).toEqual({ ...approval, decisions: [by[0], { ...by[1], by: '(forgotten)' }] })
    const pause = { version: 1, by: anna, since: 1 }
    expect(JSON.parse(fate('pause:writes', pause)?.text ?? '')).toEqual({ ...pause, by: '(forgotten)' })
    const rewind = {
      id: 'r',
      status: 'ended',
      plan: [{ principal: { id: 'user:ben' } }],
      order: { by: anna, via: 'x' },
    }
    expect(JSON.parse(fate('rewind:r', rewind)?.text ?? '')).toMatchObject({
      order: { by: '(forgotten)', via: 'x' },
    })
    const action = { principal: { id: 'user:ben' }, arguments: { row: 1 }, status: 'unknown' }
    const found = fate('deed/1', { ...action, acknowledged: { by: anna, at: 1 } })
    expect(JSON.parse(found?.text ?? '')).toEqual({ ...action, acknowledged: { by: '(forgotten)', at: 1 } })
    const kept = fate('approval:kept:1', {
      owner: other,
      grant: { by: ['user:carl', anna], via: ['token', 'token'] },
    })
    expect(JSON.parse(kept?.text ?? '')).toMatchObject({ grant: { by: ['user:carl', '(forgotten)'] } })
    const logged = {
      at: 1,
      ms: 1,
      end: 'ok',
      who: 'user:ben',
      facts: { approved_by: `user:carl, ${anna}`, n: 1 },
    }
    const entries = [
      logged,
      { at: 2, end: 'ok', who: anna },
      { id: 'r', who: anna },
      { id: 'e', by: hash },
      { by: other },
    ]
    const segment = fate(`log:{${'a'.repeat(32)}}:epoch:1`, [0, 0, entries])
    expect(segment?.counts).toEqual({
      'decisions for others': 1,
      'calls in the log': 1,
      'contents of calls': 1,
      events: 1,
    })
    const erased = { erased: true }
    const facts = { approved_by: 'user:carl, (forgotten)', n: 1 }
    expect(JSON.parse(segment?.text ?? '')).toEqual([
      0,
      0,
      [{ ...logged, facts }, erased, erased, erased, { by: other }],
    ])
  })

  it.each([
    [`operator ${anna}`, 'operator (forgotten)'],
    [`operator ${anna}: it was late`, 'operator (forgotten): it was late'],
    [`rewind by ${anna}`, 'rewind by (forgotten)'],
    [`gatehouse undo by ${anna}`, 'gatehouse undo by (forgotten)'],
    [`rewind by ${anna}2`, undefined],
    [`${anna} said so`, undefined],
  ])('is a name in the reason why a transaction of others was rolled back: %s', (reason, replaced) => {
    const transaction = newTransaction({
      id: 't',
      principal: { id: 'user:ben' },
      timeout: 1,
      lifetime: 1,
      now: 1,
    })
    const changed = fate(`transaction/${other}:t`, { ...transaction, reason })
    expect(changed && JSON.parse(changed.text ?? '')).toEqual(
      replaced === undefined ? undefined : { ...transaction, reason: replaced },
    )
  })

  it('is left while it is in use', () => {
    const calls = { what: 'calls with an idempotency key', by: 'gateway' }
    expect(fate(`call:${hash}/files:k`, { state: 'executing', owner: 'gateway' })?.running).toEqual(calls)
    expect(fate(`operation:${hash}/1`, { state: 'working', owner: 'gateway#part' })?.running?.by).toBe(
      'gateway',
    )
    const action = { principal: { id: anna }, status: 'pending' }
    expect(fate('deed/1', { ...action, startedAt: Date.now() })?.running).toBeDefined()
    expect(fate('deed/1', { ...action, startedAt: Date.now() - 3_600_000 })?.running).toBeUndefined()
    const rewind = { status: 'undoing', plan: [{ principal: { id: anna } }] }
    expect(fate('rewind:1', rewind)?.running).toEqual({ what: 'rewinds' })
    const decided = { caller: 'user:ben', decisions: [{ by: anna }], status: 'pending', expiresAt: soon }
    expect(fate('approval/1', decided)?.running).toBeDefined()
    expect(fate('approval/1', { ...decided, expiresAt: 1 })?.running).toBeUndefined()
  })

  it('has rate limit windows of its own', () => {
    expect(windowsOf('user:anna')).toBe('rate:{user:anna')
    expect(windowsOf(anna)).toMatch(/^rate:\{user%3A%C3%84nna%20/)
  })
})
