import { describe, expect, it } from 'vitest'
import type { LoggedCall } from '../../../src/core/logged-call.ts'
import { type CallQuery, readQuery } from '../../../src/records/call-query.ts'

const NOW = Date.parse('2026-11-21T12:00:00Z')
const minutes = (count: number): number => count * 60_000

function call(fields: Partial<LoggedCall> = {}): string {
  const { at = NOW, ms = 12, end = 'ok', ...others } = fields
  return JSON.stringify({ at, ms, end, id: 'r1', who: 'anna', method: 'tools/call', in: 10, ...others })
}

function query(text: string): CallQuery {
  const read = readQuery(text, NOW)
  if ('problem' in read) throw new Error(read.problem)
  return read
}

function isFound(text: string, fields: Partial<LoggedCall>): boolean {
  const entry = call(fields)
  const { matches, mayHave } = query(text)
  const found = matches(entry)
  // What matches is never left out when many entries are looked at together.
  if (found) expect(mayHave(`[${call()},\n${entry}]`)).toBe(true)
  return found
}

describe('a query of the log of calls', () => {
  it.for<[text: string, matching: Partial<LoggedCall>, other: Partial<LoggedCall>]>([
    ['tool:write_file', { name: 'write_file' }, { name: 'write_files' }],
    ['tool:write_*', { name: 'write_files' }, { name: 'rewrite_files' }],
    ['tool:*', { name: 'x' }, {}],
    ['server:files', { server: 'files' }, { name: 'files' }],
    ['server:files tool:read', { server: 'files', name: 'read' }, { server: 'files', name: 'write' }],
    ['user:"anna maria"', { who: 'anna maria' }, { who: 'anna' }],
    ['client:claude*', { client: 'claude-code 2.1' }, { client: 'cursor 1' }],
    ['status:denied', { end: 'denied' }, { end: 'failed' }],
    ['status:error', { end: 'failed' }, { end: 'denied' }],
    ['status:denied', { end: 'denied' }, { reason: ',"end":"denied"' }],
    ['code:CONFLICT', { code: 'CONFLICT' }, { code: 'CONFLICTS' }],
    ['kind:write', { op: 'write' }, { op: 'read' }],
    ['since:1h', { at: NOW - minutes(59) }, { at: NOW - minutes(61) }],
    ['until:1h', { at: NOW - minutes(61) }, { at: NOW - minutes(59) }],
    ['since:2026-11-21T11:30Z', { at: NOW - minutes(29) }, { at: NOW - minutes(31) }],
    ['duration>500ms', { ms: 500.1 }, { ms: 500 }],
    ['duration<2s', { ms: 1999 }, { ms: 2000 }],
    ['duration>500', { ms: 501 }, { ms: 499 }],
    ['REFUSED', { reason: 'it was refused' }, { reason: 'it was done' }],
    ['name', { reason: 'the Name is wrong' }, { name: 'x' }],
    ['a.b', { reason: 'a.b' }, { reason: 'axb' }],
    ['"two words"', { reason: 'with two words' }, { reason: 'two other words' }],
    ['a"b', { reason: 'a"b' }, { reason: 'ab' }],
    ['intent:x', { reason: 'intent:x' }, { reason: 'x' }],
    ['user:9007199254740993', { who: '9007199254740993' }, { who: '9007199254740992' }],
    ['tool:größe', { name: 'größe' }, { name: 'grosse' }],
  ])('%s', ([text, matching, other]) => {
    expect(isFound(text, matching)).toBe(true)
    expect(isFound(text, other)).toBe(false)
  })

  it('is empty where every call matches', () => {
    expect(isFound('  ', {})).toBe(true)
  })

  it.for([
    'since:yesterdayish',
    'since:"last 3"',
    'status:unknown',
    'status:__proto__',
    'duration:5',
    'duration>soon',
    'until:',
  ])('says what is wrong with %s, or takes it as a word', (text) => {
    const read = readQuery(text, NOW)
    if (text === 'until:') expect('problem' in read).toBe(false)
    else expect(read).toMatchObject({ problem: expect.stringMatching(/^\S.*\.$/) as string })
  })

  it.for(['nothing', '{}', '[1]', '{"at":"x"}', ''])(
    'finds nothing in an entry that is none: %s',
    (entry) => {
      expect(query('since:1h').matches(entry)).toBe(false)
      expect(query('tool:x').matches(entry)).toBe(false)
      expect(query('duration>1').matches(entry)).toBe(false)
    },
  )
})
