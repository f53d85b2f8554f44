import { describe, expect, it } from 'vitest'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { examplesOf, includes, judgeExamples } from '../../../../src/testkit/server-test/examples.ts'
import { Results } from '../../../../src/testkit/server-test/results.ts'
import type { WireAnswer } from '../../../../src/testkit/server-test/session.ts'

function toolOf(definition: object): Descriptor {
  const classification = { op: 'read' }
  return { upstream: 'files', kind: 'tool', name: 'add', definition, classification } as unknown as Descriptor
}

describe('the examples of a tool', () => {
  it('are those of the configuration, then those that its server lists, each once', () => {
    const listed = [{ input: { a: 2 }, output: 4 }, { input: 7 }, null, { output: 1 }, { input: { a: 1 } }]
    const definition = {
      dashdash: { examples: listed },
      _meta: { 'dev.gatehouse/dashdash': { examples: listed } },
    }
    const settings = { tools: { add: { examples: [{ input: { a: 1 } }] } } } as unknown as UpstreamSettings
    expect(examplesOf(toolOf(definition), settings)).toEqual([
      { input: { a: 1 } },
      { input: { a: 2 }, output: 4 },
    ])
  })

  it.each([null, 7, { examples: 'none' }, { examples: [null] }])('are none in %j', (dashdash) => {
    const settings = { tools: {} } as unknown as UpstreamSettings
    expect(examplesOf(toolOf({ dashdash, _meta: null }), settings)).toEqual([])
  })
})

describe('a result includes an output', () => {
  const long = parseJson('{"id": 12345678901234567890}')
  it.each([
    [{ a: 1, b: [{ c: 2, d: 3 }, 4] }, { b: [{ c: 2 }] }, true],
    [{ a: 1 }, { a: 1, b: 2 }, false],
    [{ a: 1 }, { a: '1' }, false],
    ['The sum is 5', 'sum is 5', true],
    [[1, 2, 3], [3, 1], true],
    [[1, 2, 3], [4], false],
    [null, {}, false],
    [null, null, true],
    [long, long, true],
    [long, parseJson('{"id": 12345678901234567891}'), false],
  ])('%j: %j is %s', (value, part, expected) => {
    expect(includes(value, part)).toBe(expected)
  })
})

describe('the check of an example', () => {
  const ms = 1
  const text = (value: string) => ({ content: [{ type: 'text', text: value }] })
  const results: readonly (readonly [unknown, WireAnswer | string, string, RegExp | undefined])[] = [
    [{ sum: 5 }, { kind: 'result', result: text('{"sum": 5, "of": [2, 3]}'), ms }, 'passed', undefined],
    [
      { sum: 5 },
      { kind: 'result', result: { ...text('5'), structuredContent: { sum: 5 } }, ms },
      'passed',
      undefined,
    ],
    ['sum is 5', { kind: 'result', result: text('The sum is 5.'), ms }, 'passed', undefined],
    [
      { at: '2026-01-02T03:04:05Z' },
      { kind: 'result', result: text('{"at": "2027-11-12T13:14:15Z"}'), ms },
      'passed',
      undefined,
    ],
    [undefined, { kind: 'result', result: text('anything'), ms }, 'passed', undefined],
    [
      { sum: 6 },
      { kind: 'result', result: text('{"sum": 5}'), ms },
      'failed',
      /does not contain \{"sum":6\}/,
    ],
    [
      undefined,
      { kind: 'result', result: { ...text('no'), isError: true }, ms },
      'failed',
      /the call failed: no/,
    ],
    [
      undefined,
      { kind: 'error', error: { code: -32602, message: 'bad' }, ms },
      'failed',
      /has no result: bad/,
    ],
    [
      undefined,
      { kind: 'none', why: 'timeout', message: 'no response within 2 ms', ms },
      'failed',
      /no response/,
    ],
    [undefined, 'not called: the time is over', 'skipped', /the time is over/],
  ]
  it.each(results)('with the output %j and the answer %j has %s', async (output, answer, status, message) => {
    const found = new Results((each) => each)
    const example = { input: {}, ...(output !== undefined && { output }) }
    await judgeExamples(toolOf({}), [example], { results: found, redactor: new Redactor() }, () => answer)
    const [{ message: said, ...check } = { status: 'none' }] = found.all
    expect(check).toMatchObject({
      status,
      test_id: 'tool/add/example-1',
      description: 'Example 1 of add gives the result that it shows.',
    })
    if (message) expect(said).toMatch(message)
    else expect(said).toBeUndefined()
  })
})
