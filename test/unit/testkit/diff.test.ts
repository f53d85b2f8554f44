import { describe, expect, it } from 'vitest'
import { parseCassette } from '../../../src/testkit/cassette.ts'
import { diffCassettes } from '../../../src/testkit/diff.ts'
import { isRecorded } from '../../../src/testkit/player.ts'
import { steady, steadyCode } from '../../../src/testkit/steady.ts'

const marks = ['***', '[redacted]']

describe('isRecorded', () => {
  it.each([
    ['a', 'a', true],
    ['a *** c ***', 'a b c d', true],
    ['a *** c', 'a b d', false],
    ['***', { any: 1 }, true],
    ['ab***bc', 'abc', false],
    [{ key: '[redacted]', n: 1 }, { key: 'x', n: 1 }, true],
    [{ key: '***' }, { key: 'x', more: 1 }, false],
    [['***', 2], ['x', 2], true],
    [['***', 2], ['x'], false],
    [1, '1', false],
    ['a.c', 'abc', false],
  ])('compares the recorded %j with %j: %s', (recorded, given, expected) => {
    expect(isRecorded(recorded, given, marks)).toBe(expected)
  })
})

describe('steady', () => {
  const volatile = {
    _meta: { a: 1 },
    text: 'at 2026-11-26T10:00:00.123Z took 12.5 ms by 0b7d2f54-8f3c-4a51-9f0e-2f5a1c3d4e5f',
    startedAt: 1_764_000_000_000,
    duration_ms: 3,
    duration: { kept: 1 },
    sum: 42,
    commit: '9f0e2f5a1c3d4e5f9f0e',
    nextCursor: 'abc',
    resultType: 'complete',
  }
  const expected = {
    text: 'at <time> took <duration> by <id>',
    startedAt: '<time>',
    duration_ms: '<varies>',
    duration: { kept: 1 },
    sum: 42,
    commit: '<id>',
    nextCursor: '<id>',
  }

  it('replaces what differs in every run, and nothing else', () => {
    expect(steady(volatile)).toEqual(expected)
    expect(steady('facade deadbeef 1234567890 words')).toBe('facade deadbeef 1234567890 words')
  })

  it.each([
    new Date().toISOString(),
    new Date().toString(),
    new Date().toUTCString(),
    new Date().toLocaleString('en-US'),
    new Date().toLocaleTimeString('en-US'),
    new Date().toLocaleString('en-GB'),
    new Date().toLocaleString('de-DE'),
    '23:59:01.250',
  ])('replaces the time %s', (time) => {
    expect(steady(`created at ${time}`)).toBe('created at <time>')
  })

  it.each(['10:30', 'chapter 3:16', '::ffff:10:20:30', 'a ratio of 16:09:1', '10.0.0.1:80:80'])(
    'keeps %s',
    (text) => {
      expect(steady(text)).toBe(text)
    },
  )

  it('is the same in tests made from recordings', async () => {
    const source = `${steadyCode()}\nexport { steady }`
    const module: unknown = await import(`data:text/javascript,${encodeURIComponent(source)}`)
    expect(module).toHaveProperty('steady')
    expect(run(module, volatile)).toEqual(expected)
  })
})

function run(module: unknown, value: unknown): unknown {
  if (typeof module !== 'object' || module === null || !('steady' in module)) return undefined
  return typeof module.steady === 'function' ? module.steady(value) : undefined
}

describe('diffCassettes', () => {
  const recording = (name: string, calls: Readonly<Record<string, unknown>>) => {
    const entries = Object.entries(calls).flatMap(([tool, result], index) => [
      { type: 'frame', t: 0, dir: 'c2s', frame: { id: index, method: 'tools/call', params: { name: tool } } },
      { type: 'frame', t: 1, dir: 's2c', frame: { id: index, result } },
    ])
    const head = { type: 'header', cassetteVersion: 2, transport: 'stdio' }
    return parseCassette([head, ...entries].map((line) => JSON.stringify(line)).join('\n'), name)
  }

  it('finds changed, removed and added answers', () => {
    const before = recording('a', { same: { t: '3 ms' }, changed: { list: [1, 2] }, gone: {}, secret: '***' })
    const after = recording('b', { same: { t: '4 ms' }, changed: { list: [1] }, added: {}, secret: 'x' })
    expect(diffCassettes(before, after)).toMatchObject({
      compared: 3,
      differences: [
        { kind: 'changed', params: { name: 'changed' }, values: [{ path: 'result.list[1]', before: 2 }] },
        { kind: 'removed', params: { name: 'gone' }, lines: [6, undefined] },
        { kind: 'added', params: { name: 'added' }, lines: [undefined, 6] },
      ],
    })
  })

  it('finds the same request whatever opaque values its server chose', () => {
    const conversation = (opaque: string) => {
      const retry = { name: 'ask', inputResponses: { a: { action: 'accept' } }, requestState: opaque }
      const asking = { resultType: 'input_required', inputRequests: {}, requestState: opaque }
      const messages = [
        ['c2s', { id: 1, method: 'tools/list', params: { cursor: opaque } }],
        ['s2c', { id: 1, result: { tools: [], nextCursor: opaque } }],
        ['c2s', { id: 2, method: 'tools/call', params: { name: 'ask' } }],
        ['s2c', { id: 2, result: asking }],
        ['c2s', { id: 3, method: 'tools/call', params: retry }],
        ['s2c', { id: 3, result: { content: [] } }],
      ] as const
      const head = { type: 'header', cassetteVersion: 2, transport: 'stdio', era: 'modern' }
      const frames = messages.map(([dir, frame]) => ({ type: 'frame', t: 0, dir, frame }))
      return parseCassette([head, ...frames].map((line) => JSON.stringify(line)).join('\n'), opaque)
    }
    expect(diffCassettes(conversation('one'), conversation('two'))).toEqual({ compared: 3, differences: [] })
  })
})
