import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { asked, bench, fieldsOf, legacy, modern, plain, question, says, yes } from './bench.ts'

describe('confirmation by elicitation', () => {
  it.each([
    ['of 2026-07-28', modern],
    ['of 2025-06-18', legacy],
  ])('a form is requested once, and then the call of a client %s runs', async (_what, client) => {
    const { call, served } = bench()
    const first = asked(await call({ client }))
    expect(served).toHaveLength(0)
    expect(question(first)).toMatchObject({
      mode: 'form',
      message: 'Run delete_repo on hub with owner: octo, repo: test-repo? Deletes a repository.',
      requestedSchema: {
        properties: { confirm: { type: 'boolean', default: false } },
        required: ['confirm'],
      },
    })
    const second = await call({ client, requestState: first.requestState, inputResponses: yes })
    expect(fieldsOf(second)['content']).toEqual([{ type: 'text', text: 'done' }])
    expect(served).toHaveLength(1)
    expect(served[0]?.requestState).toEqual({})
    expect(served[0]?.inputResponses).toBeUndefined()
  })

  it.each([
    ['decline', says('decline'), 'decline'],
    ['reject', says('reject'), 'decline'],
    ['cancel', says('cancel'), 'cancel'],
    ['an unknown action', says('whatever', { confirm: true }), 'cancel'],
    ['nothing', {}, 'timeout'],
    ['an error', { confirm: { error: Payload.of({ code: -32603, message: 'no' }) } }, 'error'],
  ])('a call does not run if the response is %s', async (_what, answers, reason) => {
    const { call, served } = bench()
    const { requestState: state } = asked(await call())
    await expect(call({ requestState: state, inputResponses: answers })).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
      extra: { reason },
    })
    expect(served).toHaveLength(0)
  })

  describe('a form that is accepted without its box', () => {
    const unticked = [
      ['not ticked', says('accept', { confirm: false })],
      ['not there', says('accept', {})],
      ['no boolean', says('accept', { confirm: 'true' })],
      ['null', says('accept', { confirm: null })],
      ['without content', { confirm: { result: Payload.of({ action: 'accept' }) } }],
    ] as const
    it.each(unticked)('that is %s is asked about once more in words', async (_what, answers) => {
      const { call, served } = bench()
      const first = asked(await call())
      const second = asked(await call({ requestState: first.requestState, inputResponses: answers }))
      expect(question(second)).toMatchObject({
        message: expect.stringMatching(
          /^Run delete_repo on hub .* You accepted it without ticking “Run it”\.$/,
        ),
        requestedSchema: { properties: { confirm: { type: 'string', title: 'Type “yes” to confirm' } } },
      })
      expect(served).toHaveLength(0)
      await call({ requestState: second.requestState, inputResponses: says('accept', { confirm: ' Yes' }) })
      expect(served).toHaveLength(1)
    })

    it.each([{ confirm: 'no' }, { confirm: '' }, { confirm: true }, {}])(
      'does not run with the second answer %j',
      async (content) => {
        const { call, served } = bench()
        const first = asked(await call())
        const answers = says('accept', { confirm: false })
        const second = asked(await call({ requestState: first.requestState, inputResponses: answers }))
        const inputResponses = says('accept', content)
        await expect(call({ requestState: second.requestState, inputResponses })).rejects.toMatchObject({
          code: 'CONFIRMATION_DECLINED',
          extra: { reason: 'decline' },
        })
        await expect(call({ requestState: first.requestState, inputResponses: yes })).rejects.toMatchObject({
          code: 'CONFIRMATION_TOKEN_INVALID',
        })
        expect(served).toHaveLength(0)
      },
    )

    it('needs no box if the call can be undone or taken back', async () => {
      const { call, served } = bench({ risk: 'reversible', op: 'write', settings: { level: 'reversible' } })
      const first = asked(await call())
      expect(question(first)['requestedSchema']).toEqual({ type: 'object', properties: {} })
      await call({ requestState: first.requestState, inputResponses: says('accept') })
      expect(served).toHaveLength(1)
      const second = asked(await call())
      await expect(
        call({ requestState: second.requestState, inputResponses: says('decline') }),
      ).rejects.toMatchObject({ code: 'CONFIRMATION_DECLINED' })
    })
  })

  it('the response of the caller is refused once the tool requires approval by others', async () => {
    const store = new MemoryStore()
    const { requestState: state } = asked(await bench({ deps: { store } }).call())
    const { call, served } = bench({ tool: { approval: 'out_of_band' }, deps: { store } })
    expect(fieldsOf(await call({ requestState: state, inputResponses: yes }))).toMatchObject({
      isError: true,
      status: 'confirmation_required',
    })
    expect(served).toHaveLength(0)
  })

  it('a response is accepted once, whatever it is', async () => {
    const { call, served } = bench()
    const { requestState: state } = asked(await call())
    await expect(call({ requestState: state, inputResponses: says('decline') })).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
    })
    await expect(call({ requestState: state, inputResponses: yes })).rejects.toMatchObject({
      code: 'CONFIRMATION_TOKEN_INVALID',
    })
    expect(served).toHaveLength(0)
  })

  it.each([
    ['with other arguments', {}, { owner: 'octo', repo: 'production-db' }],
    ['by another caller', { principal: { id: 'other' } }, undefined],
  ])('a response is refused for a call %s', async (_what, more, args) => {
    const { call, served } = bench()
    const { requestState: state } = asked(await call())
    await expect(call({ ...more, requestState: state, inputResponses: yes }, args)).rejects.toMatchObject({
      code: 'CONFIRMATION_TOKEN_INVALID',
    })
    expect(served).toHaveLength(0)
  })

  it('numbers that are equal only after parsing are not the same arguments', async () => {
    const { call } = bench()
    const numbered = (digits: string): { readonly params: Payload } => ({
      params: Payload.text(`{"name":"delete_repo","arguments":{"id":${digits}}}`),
    })
    const { requestState: state } = asked(await call(numbered('12345678901234567890')))
    await expect(
      call({ ...numbered('12345678901234567891'), requestState: state, inputResponses: yes }),
    ).rejects.toMatchObject({
      code: 'CONFIRMATION_TOKEN_INVALID',
    })
  })

  it('arguments in another order are the same arguments', async () => {
    const { call, served } = bench()
    const { requestState: state } = asked(await call())
    await call({ requestState: state, inputResponses: yes }, { repo: 'test-repo', owner: 'octo' })
    expect(served).toHaveLength(1)
  })

  it('a late response is refused', async () => {
    const { call, served } = bench({ settings: { ttl: 0 } })
    const { requestState: state } = asked(await call())
    await expect(call({ requestState: state, inputResponses: yes })).rejects.toMatchObject({
      extra: { reason: 'timeout' },
    })
    expect(served).toHaveLength(0)
  })

  it('no form is sent to clients without forms or to non-interactive clients, and the page to those that open URLs', async () => {
    const { call } = bench()
    expect((await call({ client: plain })).kind).toBe('result')
    const { kind, ...byUrl } = asked(
      await call({ client: { ...modern, capabilities: { elicitation: { url: {} } } } }),
    )
    expect(question({ kind, ...byUrl })).toMatchObject({ mode: 'url' })
    expect((await call({ client: { ...modern, nonInteractive: true } })).kind).toBe('result')
    expect((await call({ client: { ...legacy, revision: '2025-03-26' } })).kind).toBe('result')
  })

  it('the confirmation is not repeated when the server requests input afterwards', async () => {
    const ask: Outcome = {
      kind: 'input_required',
      inputRequests: { q1: { method: 'elicitation/create' } },
      requestState: { park: 'ticket' },
      isOpen: true,
    }
    const answers = { q1: { result: Payload.of({ action: 'accept' }) } }
    const { call, served } = bench({
      serve: async (each) =>
        each.inputResponses ? { kind: 'result', result: Payload.of({ content: [] }) } : ask,
    })
    const first = asked(await call())
    const second = asked(await call({ requestState: first.requestState, inputResponses: yes }))
    expect(second).toMatchObject({
      inputRequests: ask.inputRequests,
      isOpen: true,
      requestState: { park: 'ticket' },
    })
    const third = await call({ requestState: second.requestState, inputResponses: answers })
    expect(served.at(-1)).toMatchObject({ inputResponses: answers, requestState: { park: 'ticket' } })
    expect(fieldsOf(third)['_meta']).toMatchObject({ 'dev.gatehouse/approval': 'a.b.c' })
    // A grant covers one call and one of its rounds, at any gateway.
    await expect(call({ requestState: second.requestState, inputResponses: answers })).rejects.toMatchObject({
      code: 'CONFIRMATION_TOKEN_INVALID',
    })
    expect(served).toHaveLength(2)
    expect(
      (await call({ requestState: second.requestState, inputResponses: answers }, { repo: 'production-db' }))
        .kind,
    ).toBe('input_required')
  })
})

describe('confirmation by typing', () => {
  const tool = { confirm: 'Permanently delete {owner}/{repo}?', typeToConfirm: 'repo' }

  it('the text to type is the value of the argument', async () => {
    const { call, served } = bench({ tool })
    const first = asked(await call())
    expect(question(first)).toMatchObject({
      message: 'Permanently delete octo/test-repo?',
      requestedSchema: { properties: { confirm: { type: 'string', title: 'Type “test-repo” to confirm' } } },
    })
    await call({
      requestState: first.requestState,
      inputResponses: says('accept', { confirm: ' test-repo ' }),
    })
    expect(served).toHaveLength(1)
  })

  it('a call does not run if another text is typed', async () => {
    const { call, served } = bench({ tool })
    for (const confirm of ['production-db', true, '', undefined]) {
      const { requestState: state } = asked(await call())
      await expect(
        call({ requestState: state, inputResponses: says('accept', { confirm }) }),
      ).rejects.toMatchObject({
        extra: { reason: 'mismatch' },
      })
    }
    expect(served).toHaveLength(0)
  })

  it.each([
    [{}],
    [{ repo: { a: 1 } }],
    [{ repo: 'a\u202Eb' }],
    [{ repo: '  ' }],
    [{ repo: 'x'.repeat(500) }],
  ])('the text to type is the tool name if the value of %j cannot be typed', async (args) => {
    const { call } = bench({ tool })
    expect(question(await call({}, args))).toMatchObject({
      requestedSchema: { properties: { confirm: { title: 'Type “delete_repo” to confirm' } } },
    })
  })
})

describe('the signed decision', () => {
  it('the signed decision and the log state who confirmed what', async () => {
    const { call, signed } = bench()
    const { requestState: state } = asked(await call())
    const logFields = new Map<string, unknown>()
    const outcome = await call({ requestState: state, inputResponses: yes, logFields })
    expect(fieldsOf(outcome)['_meta']).toEqual({ 'dev.gatehouse/approval': 'a.b.c' })
    expect(signed).toEqual([
      {
        jti: expect.any(String),
        sub: 'agent',
        approval: expect.any(String),
        verdict: 'approved',
        by: ['agent'],
        via: ['elicitation'],
        at: expect.stringMatching(/^\d{4}-/),
        tool: 'delete_repo',
        upstream: 'hub',
        arguments_sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
    ])
    expect(logFields.get('approved_by')).toBe('agent')
    expect(logFields.get('approval')).toBe(signed[0]?.['approval'])
  })

  it('the signed decision is omitted if it cannot be signed, and the result is still returned', async () => {
    const { call } = bench({ deps: { sign: () => Promise.reject(new Error('no key')) } })
    const { requestState: state } = asked(await call())
    expect(fieldsOf(await call({ requestState: state, inputResponses: yes }))).toEqual({
      content: [{ type: 'text', text: 'done' }],
    })
  })

  it('the decision on a declined call states who declined it', async () => {
    const { call } = bench()
    const { requestState: state } = asked(await call())
    const logFields = new Map<string, unknown>()
    await expect(
      call({ requestState: state, inputResponses: says('decline'), logFields }),
    ).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
    })
    expect(logFields.get('declined_by')).toBe('agent')
  })
})

describe('one approval for several calls', () => {
  const remember = { for: 600_000, max: 3, offer: false }

  it('the approval covers the announced number of calls', async () => {
    const { call, served } = bench({ settings: { remember } })
    const first = asked(await call())
    expect(question(first)['message']).toContain(
      'Your approval applies to 3 calls of this tool within 10 min.',
    )
    await call({ requestState: first.requestState, inputResponses: yes })
    const more = await Promise.all([
      call({}, { repo: 'b' }),
      call({}, { repo: 'c' }),
      call({}, { repo: 'd' }),
    ])
    expect(more.map(({ kind }) => kind).toSorted()).toEqual(['input_required', 'result', 'result'])
    expect(served).toHaveLength(3)
  })

  it('the approval covers one session and one caller', async () => {
    const { call } = bench({ tool: { remember } })
    const { requestState: state } = asked(await call({ client: legacy }))
    await call({ client: legacy, requestState: state, inputResponses: yes })
    expect((await call({ client: legacy })).kind).toBe('result')
    expect((await call({ client: { ...legacy, session: 's2' } })).kind).toBe('input_required')
    expect((await call({ client: legacy, principal: { id: 'other' } })).kind).toBe('input_required')
  })

  it('the approval does not apply once the tool requires approval by others', async () => {
    const store = new MemoryStore()
    const before = bench({ tool: { remember }, deps: { store } })
    const { requestState: state } = asked(await before.call())
    await before.call({ requestState: state, inputResponses: yes })
    expect((await before.call()).kind).toBe('result')
    const after = bench({ tool: { remember, approval: 'out_of_band' }, deps: { store } })
    expect(fieldsOf(await after.call({ client: plain }))).toMatchObject({
      isError: true,
      status: 'confirmation_required',
    })
    expect(after.served).toHaveLength(0)
  })

  it('the approval does not cover transaction steps, and one call is not announced as several', async () => {
    const { call } = bench({ settings: { remember } })
    const { requestState: state } = asked(await call())
    await call({ requestState: state, inputResponses: yes })
    const step = { transaction: 't', step: 's', deed: 'd', mustBeUndoable: false }
    expect((await call({ slots: stepSlot.put(step) })).kind).toBe('input_required')
    expect((await call()).kind).toBe('result')
    const once = asked(await bench({ settings: { remember: { for: 600_000, max: 1, offer: false } } }).call())
    expect(question(once)['message']).not.toContain('Your approval applies')
  })

  it('a denial is not remembered', async () => {
    const { call } = bench({ settings: { remember } })
    const { requestState: state } = asked(await call())
    await expect(call({ requestState: state, inputResponses: says('decline') })).rejects.toMatchObject({
      code: 'CONFIRMATION_DECLINED',
    })
    expect((await call()).kind).toBe('input_required')
  })
})

describe('an optional approval for further calls', () => {
  const offered = { remember: { for: 600_000, max: 3, offer: true } }
  const chosen = says('accept', { confirm: true, remember: true })
  const box = (outcome: Outcome): unknown => Object(question(outcome)['requestedSchema']).properties.remember

  it('the option is an unticked field of the form', async () => {
    const first = asked(await bench({ settings: offered }).call({ client: legacy }))
    expect(box(first)).toEqual({
      type: 'boolean',
      title: 'Do not ask again about delete_repo',
      description: 'The decision then applies to 3 calls of this tool within 10 min, in this session.',
      default: false,
    })
    expect(question(first)['requestedSchema']).toMatchObject({ required: ['confirm'] })
    expect(question(first)['message']).not.toContain('holds')
  })

  it.each([
    ['leaves the option', yes, 'input_required'],
    ['ticks the option', chosen, 'result'],
    [
      'answers the option with another type',
      says('accept', { confirm: true, remember: 'true' }),
      'input_required',
    ],
  ] as const)('if the person %s, the next call is answered with: %s', async (_what, answers, kind) => {
    const { call } = bench({ settings: offered })
    const { requestState: state } = asked(await call({ client: legacy }))
    expect((await call({ client: legacy, requestState: state, inputResponses: answers })).kind).toBe('result')
    expect((await call({ client: legacy }, { repo: 'another' })).kind).toBe(kind)
  })

  it('the option covers the announced number of calls, one session and one caller', async () => {
    const { call, served } = bench({ settings: offered })
    const { requestState: state } = asked(await call({ client: legacy }))
    await call({ client: legacy, requestState: state, inputResponses: chosen })
    expect((await call({ client: { ...legacy, session: 's2' } })).kind).toBe('input_required')
    expect((await call({ client: legacy, principal: { id: 'other' } })).kind).toBe('input_required')
    const more = [
      await call({ client: legacy }),
      await call({ client: legacy }),
      await call({ client: legacy }),
    ]
    expect(more.map(({ kind }) => kind)).toEqual(['result', 'result', 'input_required'])
    expect(served).toHaveLength(3)
  })

  it.each([
    ['applies if the call is confirmed in words', 'yes', 'result'],
    ['does not apply to a declined call', 'no', 'input_required'],
  ])('the option that was chosen without the box %s', async (_what, confirm, kind) => {
    const { call } = bench({ settings: offered })
    const first = asked(await call())
    const answers = says('accept', { confirm: false, remember: true })
    const second = asked(await call({ requestState: first.requestState, inputResponses: answers }))
    const made = call({ requestState: second.requestState, inputResponses: says('accept', { confirm }) })
    await made.catch((error: unknown) => expect(error).toMatchObject({ code: 'CONFIRMATION_DECLINED' }))
    expect((await call()).kind).toBe(kind)
  })

  it('the option covers the principal if there are no sessions', async () => {
    const { call } = bench({ settings: offered })
    const first = asked(await call({ client: modern }))
    expect(box(first)).toMatchObject({
      description: expect.stringMatching(/within 10 min, on your behalf\.$/),
    })
    await call({ client: modern, requestState: first.requestState, inputResponses: chosen })
    expect((await call({ client: modern })).kind).toBe('result')
  })

  const step = { transaction: 't', step: 's', deed: 'd', mustBeUndoable: false }
  const nobody = { principal: { id: 'anonymous', isEverybody: true } } as const
  const never: readonly (readonly [string, Parameters<typeof bench>[0], Partial<Call>])[] = [
    ['a step of a transaction', {}, { slots: stepSlot.put(step) }],
    ['unauthenticated callers', {}, nobody],
    ['a tool with configured confirmation', { tool: { confirm: true } }, {}],
    ['a tool with its own question', { tool: { confirm: 'Delete {repo}?' } }, {}],
    ['a tool confirmed by typing', { tool: { typeToConfirm: 'repo' } }, {}],
    [
      'a tool confirmed by typing, with the option configured',
      { tool: { typeToConfirm: 'repo', ...offered } },
      {},
    ],
    ['a tool that executes code of the caller', { op: 'execute' }, {}],
    ['a tool that costs money', { tool: { cost: { category: 'requires_approval' } } }, {}],
    ['a tool with the option switched off', { tool: { remember: false } }, {}],
    ['a gateway with the option switched off', { settings: { remember: false } }, {}],
    ['a maximum of one call', { settings: { remember: { for: 600_000, max: 1, offer: true } } }, {}],
  ]
  it.each(never)('the option is neither offered nor accepted for %s', async (_what, given, more) => {
    const { call } = bench({ settings: offered, ...given })
    const first = asked(await call(more))
    expect(box(first)).toBeUndefined()
    const answers = says('accept', {
      confirm: given?.tool?.typeToConfirm ? 'test-repo' : true,
      remember: true,
    })
    expect((await call({ ...more, requestState: first.requestState, inputResponses: answers })).kind).toBe(
      'result',
    )
    expect((await call(more)).kind).toBe('input_required')
  })

  it('a remembered approval is not used for transaction steps or unauthenticated callers', async () => {
    const { call } = bench({ settings: offered })
    const everybody = { ...nobody, client: legacy }
    const { requestState: state } = asked(await call(everybody))
    await call({ ...everybody, requestState: state, inputResponses: chosen })
    expect((await call(everybody)).kind).toBe('result')
    expect((await call(nobody)).kind).toBe('input_required')
    expect((await call({ ...everybody, slots: stepSlot.put(step) })).kind).toBe('input_required')
  })

  it('the option is offered for a tool with configured confirmation if configured there', async () => {
    const { call } = bench({ tool: { confirm: true, ...offered } })
    expect(box(asked(await call()))).toMatchObject({ type: 'boolean' })
  })

  it('a remembered approval does not cover a tool of higher risk', async () => {
    const store = new MemoryStore()
    const settings = { ...offered, level: 'reversible' } as const
    const before = bench({ settings, risk: 'reversible', deps: { store } })
    const { requestState: state } = asked(await before.call())
    await before.call({ requestState: state, inputResponses: chosen })
    expect((await before.call()).kind).toBe('result')
    expect((await bench({ settings, risk: 'destructive', deps: { store } }).call()).kind).toBe(
      'input_required',
    )
  })

  it('a remembered approval is logged', async () => {
    const lines: unknown[] = []
    const info = (event: string, fields?: object): void => void lines.push({ event, ...fields })
    const { call } = bench({ settings: offered, deps: { log: { ...silentLog, info } } })
    const { requestState: state } = asked(await call())
    await call({ requestState: state, inputResponses: chosen })
    expect(lines).toEqual([
      {
        event: 'confirm.remembered',
        approval: expect.any(String),
        upstream: 'hub',
        tool: 'delete_repo',
        principal: 'agent',
        calls: 3,
        seconds: 600,
      },
    ])
  })
})
