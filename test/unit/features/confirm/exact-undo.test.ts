import { describe, expect, it } from 'vitest'
import { Slot } from '../../../../src/core/slot.ts'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { noCallUndo } from '../../../support/feature-deps.ts'
import { asked, type Bench, bench, fieldsOf, modern, plain, question, says } from './bench.ts'

const secured = new Slot<true>('secured')
type Given = NonNullable<Parameters<typeof bench>[0]>

/** A gateway with a tool that overwrites, of which undo secures calls, and how often it was asked to. */
function overwriting(given: Given = {}, canSecure = (): boolean => true): { one: Bench; tried(): number } {
  let tried = 0
  const one = bench({
    op: 'write',
    ...given,
    deps: {
      callUndo: {
        ...noCallUndo,
        canSecure,
        couldSecure: async () => canSecure(),
        secure: async (call) => {
          tried++
          return canSecure() ? secured.set(call, true) : undefined
        },
      },
    },
  })
  return { one, tried: () => tried }
}

describe('a call that overwrites, and that undo restores exactly', () => {
  it.each([
    ['destructive', {}],
    ['reversible', { settings: { level: 'reversible' }, risk: 'reversible' }],
  ] satisfies [string, Given][])(
    'runs without a question once it is secured, at level %s',
    async (_l, given) => {
      const { one } = overwriting(given)
      const logFields = new Map<string, unknown>()
      expect((await one.call({ logFields })).kind).toBe('result')
      expect(one.served.map((call) => secured.of(call))).toEqual([true])
      expect(logFields.get('unasked')).toBe('exact_undo')
      await one.call({ client: plain })
      expect(one.served).toHaveLength(2)
    },
  )

  it('is asked about as ever if it cannot be secured', async () => {
    const { one } = overwriting({}, () => false)
    expect(question(await one.call())['message']).toContain('Run delete_repo')
    expect(one.served).toEqual([])
  })

  it.each([
    ['it deletes', { op: 'delete' }],
    ['it executes', { op: 'execute' }],
    ['it administers', { op: 'admin' }],
    ['the server has no trust', { server: { trust: false, tools: {} } }],
    ['the owner wants to be asked', { settings: { exact_undo: 'ask' } }],
    ['every call is confirmed', { settings: { level: 'all' } }],
    ['tools without annotations are', { settings: { unannotated: 'confirm' } }],
    ['the tool has `confirm`', { tool: { confirm: true } }],
    ['the tool has a question', { tool: { confirm: 'Write {repo}?' } }],
    ['the tool has a text to type', { tool: { typeToConfirm: 'repo' } }],
    ['other people approve it', { tool: { approval: 'out_of_band' } }],
    ['it has approvers', { tool: { approvers: ['ada'] } }],
    ['its cost requires approval', { tool: { cost: { category: 'requires_approval' } } }],
    ['its owner says that it is destructive', { tool: { risk: 'destructive' } }],
    [
      'its server asks for confirmation',
      { definition: { name: 'delete_repo', requires_confirmation: true } },
    ],
  ] satisfies [string, Given][])('is asked about if %s', async (_why, given) => {
    const { one, tried } = overwriting(given)
    const outcome = await one.call()
    expect(outcome.kind === 'input_required' || fieldsOf(outcome)['isError']).toBe(true)
    expect([tried(), one.served.length]).toEqual([0, 0])
  })

  it('is asked about if its verb reaches people or moves money', async () => {
    const { one, tried } = overwriting({ verb: 'publish' })
    asked(await one.call())
    expect(tried()).toBe(0)
  })

  it('is asked about as the pivot of a transaction', async () => {
    const { one, tried } = overwriting({ tool: { pivot: true } })
    const step = { transaction: 't', step: 's', deed: 'd', mustBeUndoable: false }
    asked(await one.call({ slots: stepSlot.put(step) }))
    expect(tried()).toBe(0)
  })

  it('is not secured where nothing is asked, or the gateway itself calls', async () => {
    const { one, tried } = overwriting({ settings: { rollbacks: true } })
    await one.call({ internal: 'read' })
    await one.call({ internal: 'compensate', client: plain }).catch(() => undefined)
    expect(tried()).toBe(0)
    const harmless = overwriting({ risk: 'reversible' })
    await harmless.one.call()
    expect([harmless.tried(), harmless.one.served.length]).toEqual([0, 1])
  })

  it('does not run once a person was asked and denied it, though it could be secured then', async () => {
    let isReadable = false
    const { one } = overwriting({}, () => isReadable)
    await one.call({ client: plain })
    const [approval] = await one.approvals.list()
    isReadable = true
    expect(fieldsOf(await one.call({ client: plain }))['isError']).toBe(true)
    await one.approvals.decide(approval?.id ?? '', { by: 'me', via: 'command_line', verdict: 'denied' })
    await expect(one.call({ client: plain })).rejects.toMatchObject({ code: 'CONFIRMATION_DECLINED' })
    expect(one.served).toEqual([])
    const form = asked(await overwriting({}, () => false).one.call())
    const declined = one.call({
      client: modern,
      requestState: form.requestState,
      inputResponses: says('decline'),
    })
    await expect(declined).rejects.toMatchObject({ code: 'CONFIRMATION_DECLINED' })
  })
})
