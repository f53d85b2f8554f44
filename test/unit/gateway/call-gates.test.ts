import { describe, expect, it } from 'vitest'
import type { LoggedCall } from '../../../src/core/logged-call.ts'
import { gatesOf } from '../../../src/gateway/call-gates.ts'

const chain = ['limits', 'permissions', 'confirm', 'undo'].map((feature) => ({ feature }))
const call: LoggedCall = { at: 1, ms: 1, end: 'ok', id: 'r', who: 'anna', method: 'tools/call', in: 1 }

function outcomes(fields: Partial<LoggedCall>): readonly string[] {
  return gatesOf({ ...call, ...fields }, chain, undefined).map(({ outcome }) => outcome)
}

describe('the gates of a call', () => {
  it.for<[title: string, fields: Partial<LoggedCall>, expected: readonly string[]]>([
    ['a success', {}, ['passed', 'passed', 'passed', 'passed']],
    [
      'a failure of the server',
      { end: 'failed', spans: [['server', 0, 1]] },
      ['passed', 'passed', 'passed', 'passed'],
    ],
    ['a refusal', { end: 'denied', layer: 'permissions' }, ['passed', 'ended', 'not_reached', 'not_reached']],
    ['a failure before all', { end: 'failed' }, ['not_reached', 'not_reached', 'not_reached', 'not_reached']],
    [
      'a feature that is off now',
      { end: 'denied', layer: 'cost' },
      ['not_reached', 'not_reached', 'not_reached', 'not_reached'],
    ],
  ])('are known for %s', ([, fields, expected]) => {
    expect(outcomes(fields)).toEqual(expected)
  })

  it('have the reason of the end, and what features noted, as others wrote it', () => {
    const facts = { rule: 'arguments', approval: 'a1', approved_by: ['<b>'], unknown: 1 }
    const [, permissions, confirm] = gatesOf(
      { ...call, end: 'denied', layer: 'permissions', reason: 'It is not permitted.', facts },
      chain,
      undefined,
    )
    expect(permissions?.reasons).toEqual(['It is not permitted.', 'rule: arguments'])
    expect(confirm?.reasons).toEqual([])
    const [, , passed] = gatesOf({ ...call, facts }, chain, undefined)
    expect(passed?.reasons).toEqual(['approval: a1', 'approved_by: ["<b>"]'])
  })

  it('can be shown for an entry whose members are garbage', () => {
    const garbage = { spans: 'x', facts: 7, layer: 3 } as unknown as Partial<LoggedCall>
    expect(outcomes(garbage)).toHaveLength(4)
  })
})
