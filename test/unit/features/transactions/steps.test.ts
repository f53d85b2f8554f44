import type { ServiceStubs } from '../../../support/feature-deps.ts'
import { referencesSlot } from '../../../../src/core/used-reference.ts'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import { begun, codeOf, Place, put } from '../../../support/saga-world.ts'

describe('a step of a transaction', () => {
  it('a step runs, and its result states the compensation', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    expect(await gateway.step('t', ...put('a'))).toMatchObject({
      structuredContent: { key: 'a' },
      transaction: { transaction_id: 't', step_id: 'step-1', status: 'ok' },
      _meta: {
        'dev.gatehouse/transaction': { status: 'ok', transaction_status: 'active' },
        transaction_id: 't',
        step_id: 'step-1',
        compensation: { tool: 'remove', arguments: { key: 'a' }, parameters: { key: 'a' }, server_id: 'one' },
      },
    })
    expect(one.things.get('a')).toBe('1')
  })

  it('a result has no `transaction` member if compat is off', async () => {
    const gateway = await begun({ settings: { compat: false } })
    const answer = await gateway.step('t', ...put('a'))
    expect(answer).toMatchObject({ _meta: { transaction_id: 't' } })
    expect(answer).not.toHaveProperty('transaction')
  })

  it('the stated compensation omits earlier values the caller never saw', async () => {
    const one = new Place()
    one.things.set('a', 'secret of another')
    const gateway = await begun({ places: { one } })
    const answer = await gateway.step('t', 'change', { key: 'a', value: 'mine' })
    expect(answer).toMatchObject({
      _meta: { compensation: { arguments: { key: 'a', value: '[kept by the gateway]' } } },
    })
    expect(JSON.stringify(answer)).not.toContain('secret')
    await gateway.ask('rollback', { transaction_id: 't' })
    expect(one.things.get('a')).toBe('secret of another')
  })

  it('the stated compensation omits an earlier value even if the arguments contain it', async () => {
    const one = new Place()
    one.things.set('a', '4711')
    const gateway = await begun({ places: { one } })
    const answer = await gateway.step('t', 'change', { key: 'a', value: '4709 4710 4711 4712' })
    expect(answer).toMatchObject({
      _meta: { compensation: { arguments: { key: 'a', value: '[kept by the gateway]' } } },
    })
  })

  it('a step is refused at a server with idempotency off', async () => {
    const one = new Place()
    const isOn = (name: string, upstream?: string): boolean => name !== 'idempotency' || upstream === 'two'
    const gateway = await begun({ places: { one, two: new Place() }, deps: { isOn } })
    expect(codeOf(await gateway.step('t', ...put('a')))).toBe('UNSUPPORTED_OPERATION')
    expect(one.calls).toEqual([])
  })

  it('a step does not run if data that it uses has expired', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    const facts = { server: 'one', name: 'data', type: 'text/plain', size: 1, sha256: 'hash', createdAt: 0 }
    const gone = { ...facts, id: 'gone', place: ['value'], path: 'value', written: 'ref://gone' }
    const references = { used: [gone], written: Payload.of({ key: 'a', value: 'ref://gone' }) }
    expect(
      codeOf(await gateway.step('t', ...put('a'), { call: { slots: referencesSlot.put(references) } })),
    ).toBe('SERVER_UNAVAILABLE')
    expect(one.calls).toEqual([])
  })

  it('a step of an unknown transaction or of another caller does not run', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    expect(codeOf(await gateway.step('u', ...put('a')))).toBe('RESOURCE_NOT_FOUND')
    const foreign = await gateway.step('t', ...put('a'), { call: { principal: { id: 'eve' } } })
    expect(codeOf(foreign)).toBe('RESOURCE_NOT_FOUND')
    expect(one.calls).toEqual([])
  })

  it.each([['commit'], ['rollback']])('a step after %s does not run', async (end) => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    await gateway.ask(end, { transaction_id: 't' })
    expect(codeOf(await gateway.step('t', ...put('a')))).toBe('TRANSACTION_CONFLICT')
    expect(one.calls).toEqual([])
  })

  it('a step with the id of another step does not run', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    await gateway.step('t', ...put('a'), { id: 's' })
    expect(codeOf(await gateway.step('t', ...put('b'), { id: 's' }))).toBe('TRANSACTION_CONFLICT')
    expect(one.calls).toEqual(['put a'])
  })

  it('a step that was never sent can be retried under its id', async () => {
    let isAway = true
    const gateway = await begun({
      next: async (call, run) => {
        if (!isAway) return run(call)
        throw new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })
      },
    })
    expect(codeOf(await gateway.step('t', 'get', { key: 'a' }, { id: 's' }))).toBe('SERVER_UNAVAILABLE')
    isAway = false
    expect(await gateway.step('t', ...put('a'), { id: 's' })).toMatchObject({ transaction: { step_id: 's' } })
  })

  it('a step found to have no compensation just before it runs does not run and is not recorded', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    expect(codeOf(await gateway.step('t', 'change', { key: 'a', value: '1' }))).toBe(
      'COMPENSATION_UNAVAILABLE',
    )
    expect(one.things.size).toBe(0)
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({ steps: [] })
  })

  it.each([
    ['transaction_id', ''],
    ['transaction_id', 'x'.repeat(129)],
    ['transaction_id', 'a\u0000b'],
    ['transaction_id', '\ud800'],
    ['transaction_id', 7],
    ['step_id', {}],
  ])('a step with the %s %j is refused', async (field, value) => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    const meta = { transaction_id: 't', [field]: value }
    const params = Payload.of({ name: 'put', arguments: { key: 'a' }, _meta: meta })
    const answer = await gateway.step('t', ...put('a'), { call: { params, meta } })
    expect(answer).toMatchObject({ thrown: { code: 'INVALID_INPUT', field } })
    expect(one.calls).toEqual([])
  })

  it('transaction metadata is not forwarded to the server', async () => {
    const seen: unknown[] = []
    const gateway = await begun({
      next: (call, run) => {
        seen.push(call.params.value, call.meta)
        return run(call)
      },
    })
    await gateway.step('t', ...put('a'), { id: 's' })
    expect(seen).toEqual([{ name: 'put', arguments: { key: 'a', value: '1' } }, {}])
  })

  it('a reading step is recorded without a compensation', async () => {
    const one = new Place()
    one.things.set('a', '1')
    const gateway = await begun({ places: { one } })
    const answer = await gateway.step('t', 'get', { key: 'a' })
    expect(answer).toMatchObject({ _meta: { step_id: 'step-1' } })
    expect(answer['_meta']).not.toHaveProperty('compensation')
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      status: 'rolled_back',
      steps_compensated: [],
    })
  })

  it('a failed step leaves its transaction open with nothing to undo', async () => {
    const one = new Place()
    one.things.set('a', '1')
    const gateway = await begun({ places: { one } })
    expect(await gateway.step('t', ...put('a'))).toMatchObject({
      isError: true,
      transaction: { status: 'failed', error: { code: 'UPSTREAM_ERROR', category: 'permanent' } },
    })
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({
      status: 'active',
      steps: [{ step_id: 'step-1', status: 'failed', tool: 'put' }],
    })
    expect(await gateway.ask('commit', { transaction_id: 't' })).toMatchObject({ steps_completed: 0 })
  })

  it('a temporary failure is recorded as such, without the text of its server', async () => {
    const one = new Place()
    const error = new GatewayError('UPSTREAM_ERROR', 'db.internal is busy', {
      category: 'transient',
      relayed: Payload.of({ code: -32000, message: 'db.internal is busy' }),
    })
    one.faults.set('put a', [() => error])
    const gateway = await begun({ places: { one } })
    await gateway.step('t', ...put('a'))
    const { steps } = await gateway.ask('status', { transaction_id: 't' })
    expect(steps).toMatchObject([
      { status: 'failed', error: { code: 'UPSTREAM_ERROR', category: 'transient' } },
    ])
    expect(JSON.stringify(steps)).not.toContain('internal')
  })

  it('a failed step rolls the transaction back if configured', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one }, settings: { on_step_failure: 'rollback' } })
    await gateway.step('t', ...put('a'))
    expect(await gateway.step('t', ...put('a'))).toMatchObject({
      _meta: {
        'dev.gatehouse/transaction': {
          transaction_status: 'rolled_back',
          rollback: { steps_compensated: [{ step_id: 'step-1', status: 'compensated' }] },
        },
      },
    })
    expect(one.things.size).toBe(0)
  })

  it('a step with a lost response is recorded as such and undone as far as its arguments allow', async () => {
    const one = new Place()
    const gateway = await begun({
      places: { one },
      next: async (call, run) => {
        const outcome = await run(call)
        if (stepSlot.of(call)) throw new GatewayError('OPERATION_TIMEOUT', 'too late')
        return outcome
      },
    })
    expect(await gateway.step('t', ...put('a'))).toMatchObject({
      thrown: { code: 'OPERATION_TIMEOUT', details: { transaction_id: 't', step_id: 'step-1' } },
    })
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({
      steps: [{ status: 'failed', error: { code: 'OUTCOME_UNKNOWN' } }],
    })
    expect(one.things.size).toBe(1)
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      steps_compensated: [{ step_id: 'step-1', status: 'compensated', error: { code: 'OUTCOME_UNKNOWN' } }],
    })
    expect(one.things.size).toBe(0)
  })

  it('a step with a lost response leaves no doubt if a snapshot is restored', async () => {
    const one = new Place()
    one.things.set('a', 'before')
    const gateway = await begun({
      places: { one },
      next: async (call, run) => {
        if (stepSlot.of(call)) throw new GatewayError('OPERATION_TIMEOUT', 'too late')
        return run(call)
      },
    })
    await gateway.step('t', 'change', { key: 'a', value: '1' })
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      status: 'rolled_back',
      steps_compensated: [{ state: 'old' }],
    })
    // The last read shows whether the state is the old one.
    expect(one.calls).toEqual(['get a', 'change a', 'get a'])
    expect([...one.things]).toEqual([['a', 'before']])
  })

  it.each([
    ['is not configured', 'mail', undefined, '"gatehouse plan one --write" adds'],
    ['is not known', 'mail', undefined, 'with upstreams.one.tools.mail.undo in the configuration'],
    ['is configured as none', 'put', 'none', 'upstreams.one.tools.put.pivot'],
  ] as const)(
    'a step whose undo %s is refused with the alternatives within the transaction',
    async (_what, tool, undo, way) => {
      const isProposed = way.includes('--write')
      const rule = undo === undefined ? undefined : readUndo(undo)
      const isUndoProposed = async (): Promise<boolean> => isProposed
      const gateway = await begun({ deps: { undoRule: () => rule, isUndoProposed } })
      const { thrown } = await gateway.step('t', tool, { key: 'a', to: 'bob' })
      const { suggestion, details } = Object(thrown)
      expect(thrown).toMatchObject({ code: 'COMPENSATION_UNAVAILABLE', user_actionable: true })
      expect(suggestion).toContain(way)
      // Suggestions within the transaction come first.
      expect(suggestion).toMatch(
        /the transaction is still open.*Outside of the transaction.*would not undo it/,
      )
      expect(details).toMatchObject({
        setting: `upstreams.one.tools.${tool}.undo`,
      })
      // A command is named only if it would add one.
      expect(details.command).toBe(isProposed ? 'gatehouse plan one --write' : undefined)
    },
  )

  it('a step that its server runs as a task stays pending until the call is continued', async () => {
    const task = { id: 'x', status: 'working', createdAt: 0, updatedAt: 0, ttl: null } as const
    const states: unknown[] = []
    const gateway = await begun({
      next: async (call, run) => {
        states.push(call.requestState['upstream_task'])
        if (states.length > 1) return run(call)
        return { kind: 'task', task, requestState: { upstream_task: { id: 'x' } } }
      },
    })
    const meta = { transaction_id: 't' }
    const params = Payload.of({ name: 'put', arguments: { key: 'a', value: '1' }, _meta: meta })
    const target = { method: 'tools/call', upstream: 'one', name: 'put' }
    const first = await gateway.handle(toolCall({ params, meta, target }))
    if (first.kind !== 'task') throw new TypeError('it is no task')
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({
      steps: [{ status: 'pending' }],
    })
    await gateway.handle(toolCall({ params, meta, target, requestState: first.requestState }))
    expect(states).toEqual([undefined, { id: 'x' }])
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({ steps: [{ status: 'ok' }] })
  })

  it('a failed step is recorded with the error its caller receives', async () => {
    const one = new Place()
    one.things.set('a', '1')
    const reason = { code: 'CONFLICT', message: 'a is there', category: 'permanent' }
    const gateway = await begun({ places: { one }, deps: { explained: () => reason } })
    expect(await gateway.step('t', ...put('a'))).toMatchObject({ transaction: { error: reason } })
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({
      steps: [{ status: 'failed', error: reason }],
    })
  })

  it.each([
    ['before the step runs, if known', 'change', { key: 'a', value: '1' }, 'COMPENSATION_UNAVAILABLE'],
    ['after the step ran, if it depends on the result', 'put', { key: 'b', value: '1' }, undefined],
  ])('an invalid compensation is reported %s', async (_when, tool, args, code) => {
    const one = new Place()
    one.things.set('a', '1')
    const rules = {
      change: readUndo({
        snapshot: 'get(key=$.args.key)',
        restore: 'change(key=$.args.key, value=[$.snapshot.value])',
      }),
      put: readUndo('remove(key=[$.result.key])'),
    }
    const inputSchema = { type: 'object', properties: { key: { type: 'string' }, value: { type: 'string' } } }
    const classification = { risk: 'reversible', idempotent: false, evidence: [] } as const
    const gateway = await begun({
      places: { one },
      deps: {
        undoRule: (_server, name) => (name === 'put' || name === 'change' ? rules[name] : undefined),
        entry: ({ target: { name = '' } }) => ({
          upstream: 'one',
          kind: 'tool',
          name,
          definition: { name, inputSchema },
          classification: { ...classification, op: name === 'get' ? 'read' : 'write' },
        }),
      },
    })
    const answer = await gateway.step('t', tool, args)
    const { steps } = await gateway.ask('status', { transaction_id: 't' })
    if (code !== undefined) {
      expect(answer).toMatchObject({
        thrown: { code, message: expect.stringContaining('value must be string') },
      })
      expect(steps).toEqual([])
      return
    }
    expect(answer['_meta']).not.toHaveProperty('compensation')
    const error = { code: 'COMPENSATION_UNAVAILABLE', message: expect.stringContaining('key must be string') }
    expect(answer).toMatchObject({ transaction: { status: 'ok', compensation_error: error } })
    expect(steps).toMatchObject([{ status: 'ok', compensation_error: error }])
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      steps_compensated: [{ status: 'compensation_failed', error: { reason: 'no_compensation' } }],
    })
  })

  it('a step without a known compensation does not run', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    const answer = await gateway.step('t', 'mail', { to: 'bob' })
    expect(codeOf(answer)).toBe('COMPENSATION_UNAVAILABLE')
    expect(one.calls).toEqual([])
    expect(await gateway.ask('status', { transaction_id: 't' })).toMatchObject({ steps: [] })
  })

  it('a step without a known compensation runs and is reported if configured', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one }, settings: { uncompensable: 'allow' } })
    await gateway.step('t', ...put('a'))
    await gateway.step('t', 'mail', { to: 'bob' })
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      status: 'partially_rolled_back',
      needs_attention: true,
      steps_compensated: [
        {
          step_id: 'step-2',
          status: 'compensation_failed',
          error: { code: 'COMPENSATION_UNAVAILABLE', reason: 'no_compensation' },
        },
        { step_id: 'step-1', status: 'compensated' },
      ],
    })
    expect(one.mails).toEqual(['bob'])
  })

  it('a step whose compensation the caller may not call does not run', async () => {
    const one = new Place()
    const isPermitted: NonNullable<ServiceStubs['isPermitted']> = async ({
      target,
      params,
      internal: purpose,
    }) => {
      expect(params.fields['arguments']).toEqual({ key: 'a' })
      return !(purpose === 'compensate' && target.name === 'remove')
    }
    const gateway = await begun({ places: { one }, deps: { isPermitted } })
    expect(await gateway.step('t', ...put('a'))).toMatchObject({
      thrown: {
        code: 'COMPENSATION_UNAVAILABLE',
        message: expect.stringContaining('you may not call remove'),
      },
    })
    expect(one.calls).toEqual([])
  })

  it('a pivot step keeps itself and all earlier steps', async () => {
    const one = new Place()
    const gateway = await begun({ places: { one } })
    await gateway.step('t', ...put('a'))
    await gateway.step('t', 'launch', { to: 'moon' })
    await gateway.step('t', ...put('b'))
    expect(await gateway.ask('rollback', { transaction_id: 't' })).toMatchObject({
      status: 'partially_rolled_back',
      steps_compensated: [
        { step_id: 'step-3', status: 'compensated' },
        { step_id: 'step-2', status: 'compensation_failed', error: { reason: 'pivot' } },
        { step_id: 'step-1', status: 'compensation_failed', error: { reason: 'pivot' } },
      ],
    })
    expect([...one.things.keys()]).toEqual(['a'])
  })
})
