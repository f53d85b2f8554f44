import { describe, expect, it } from 'vitest'
import { noCallUndo } from '../../../support/feature-deps.ts'
import type { CallUndo } from '../../../../src/features/offers.ts'
import { type Bench, bench, fieldsOf, modern, plain, question, says, yes } from './bench.ts'

const at = Date.UTC(2026, 10, 29)
const change = {
  kind: 'difference',
  lines: ['content, line 2:', '- two', '+ <b>three</b>'],
  at,
} as const

/** A gateway whose undo knows what calls would change, and how often it read that. */
function reading(given: Parameters<typeof bench>[0] = {}): { readonly one: Bench; reads(): number } {
  let reads = 0
  const callUndo: CallUndo = {
    ...noCallUndo,
    preview: async () => {
      reads++
      return change
    },
  }
  return { one: bench({ ...given, deps: { ...given.deps, callUndo } }), reads: () => reads }
}

const shown = `

What would change, as read at 2026-11-29T00:00:00.000Z:

    content, line 2:
    - two
    + <b>three</b>`

describe('what a call would change', () => {
  it('is below the question of a form, in the form alone', async () => {
    const { one, reads } = reading()
    const outcome = await one.call()
    const { message, requestedSchema } = question(outcome)
    expect(message).toBe(
      `Run delete_repo on hub with owner: octo, repo: test-repo? Deletes a repository.${shown}`,
    )
    expect(JSON.stringify(requestedSchema)).not.toContain('content, line 2')
    expect(JSON.stringify(outcome.kind === 'input_required' && outcome.requestState)).not.toContain('three')
    expect(reads()).toBe(1)
  })

  it('is not read for the answer to the question, and again for a second question', async () => {
    const { one, reads } = reading()
    const first = await one.call()
    const requestState = first.kind === 'input_required' ? first.requestState : {}
    const again = await one.call({ requestState, inputResponses: says('accept') })
    expect(question(again)['message']).toContain('without ticking “Run it”.\n\nWhat would change')
    expect(reads()).toBe(2)
    const second = again.kind === 'input_required' ? again.requestState : {}
    await one.call({ requestState: second, inputResponses: says('accept', { confirm: 'yes' }) })
    expect([reads(), one.served.length]).toEqual([2, 1])
  })

  it('is kept with an approval, and read once for it', async () => {
    const { one, reads } = reading()
    const outcome = await one.call({ client: plain })
    await one.call({ client: plain })
    expect(reads()).toBe(1)
    const [approval] = await one.approvals.list()
    expect(approval?.change).toEqual(change)
    const { content, _meta: meta, confirmation_message: message } = fieldsOf(outcome)
    expect(JSON.stringify(content)).toContain(JSON.stringify(shown).slice(1, -1))
    expect(message).not.toContain('What would change')
    expect(Object(meta)['dev.gatehouse/confirmation']).toMatchObject({
      change: { kind: 'difference', read_at: '2026-11-29T00:00:00.000Z', lines: change.lines },
    })
  })

  it('is not part of what is approved', async () => {
    const { one } = reading()
    await one.call({ client: plain })
    const [approval] = await one.approvals.list()
    await one.approvals.decide(approval?.id ?? '', { by: 'me', via: 'command_line', verdict: 'approved' })
    const other = bench({ deps: { store: one.store } })
    expect(fieldsOf(await other.call({ client: plain }))['isError']).toBeUndefined()
  })

  it.each([
    ['no question is needed', { risk: 'reversible', op: 'write' } as const, {}],
    ['the gateway itself calls', {}, { internal: 'compensate' } as const],
    ['no one can be asked', { settings: { fallback: 'deny' } } as const, { client: plain }],
  ])('is not read if %s', async (_what, given, call) => {
    const { one, reads } = reading(given)
    await one.call(call).catch(() => undefined)
    expect(reads()).toBe(0)
  })
})

describe('an argument that is text of several lines', () => {
  const args = { path: '/a', content: 'one\n\t</pre>\n\u202etwo', password: 'a\nb', 'x\ny': '1\n2' }

  it('is shown by its lines, of which none is taken for markup or for the gateway', async () => {
    const message = String(question(await bench().call({ client: modern }, args))['message'])
    expect(message).toBe(
      [
        'Run delete_repo on hub with path: /a, content: 3 lines, password: ***, x\\ny: 2 lines? Deletes a repository.',
        '',
        'Arguments of several lines:',
        '',
        '    content:',
        '      one',
        '      \t</pre>',
        String.raw`      \u202etwo`,
        String.raw`    x\ny:`,
        '      1',
        '      2',
      ].join('\n'),
    )
  })

  it('is not repeated if the difference has its lines', async () => {
    const { one } = reading()
    const message = question(await one.call({ client: modern }, { content: args.content }))['message']
    expect(message).toMatch(/Deletes a repository\.\n\nWhat would change/)
  })

  it('is left out where the owner words the question', async () => {
    const message = question(await bench({ tool: { confirm: 'Write {path}?' } }).call({}, args))['message']
    expect(message).toBe('Write /a?')
  })

  it('is shown up to 40 lines', async () => {
    const message = question(await bench().call({}, { content: 'x\n'.repeat(100) }))['message']
    expect(message).toMatch(/\n {4}… and 62 more lines$/)
  })

  it('may run once it is confirmed', async () => {
    const one = bench()
    const outcome = await one.call({}, args)
    const requestState = outcome.kind === 'input_required' ? outcome.requestState : {}
    await one.call({ requestState, inputResponses: yes }, args)
    expect(one.served).toHaveLength(1)
  })
})
