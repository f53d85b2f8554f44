import { describe, expect, test } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import type { UndoSettings } from '../../../../src/core/undo/expression.ts'
import { spoolSlot } from '../../../../src/core/spool.ts'
import { type TransactionStepRef, stepSlot } from '../../../../src/records/transactions.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import { undo } from '../../../../src/features/undo/undo.ts'
import { type Action, Actions } from '../../../../src/records/actions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { featureDeps, type ServiceStubs, withTool } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

interface Given {
  readonly rule?: string | UndoSettings
  readonly history?: number | 'off'
  readonly op?: 'read' | 'write'
  /** The listed arguments of the tool. */
  readonly inputs?: object
  readonly deps?: ServiceStubs
  /** The server, which also receives internal calls. */
  readonly end?: Handler
}

const step: TransactionStepRef = {
  transaction: 'tx',
  step: 's1',
  deed: '000000000001-deed',
  mustBeUndoable: true,
}
const done: Handler = async () => resultOf({ content: [], structuredContent: { id: 7 } })

function resultOf(fields: object): Outcome {
  return { kind: 'result', result: Payload.of(fields) }
}

/** A call with arguments. */
function to(given: Record<string, unknown>, more: Partial<Call> = {}): Call {
  return toolCall({ params: Payload.of({ name: 't', arguments: given }), ...more })
}

function around({ rule, history = 86_400_000, op = 'write', inputs = {}, deps, end = done }: Given) {
  const store = deps?.store ?? new MemoryStore()
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object', properties: inputs } },
    classification: { op, risk: 'reversible', idempotent: false, evidence: [] },
  }
  const warnings: string[] = []
  const services = featureDeps({
    entry: () => entry,
    undoRule: () => (rule === undefined ? undefined : readUndo(rule)),
    // Closing waits for reads, so a read must not wait for that.
    call: (call) => (call.internal === 'read' ? bare(call) : handle(call)),
    log: {
      debug: () => undefined,
      info: () => undefined,
      error: () => undefined,
      warn: (event) => void warnings.push(event),
    },
    ...deps,
    store,
  })
  const instance = withTool(
    undo.create(() => ({ history, proved: 'auto' }), services),
    services,
  )
  const policy = instance.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't' })
  const bare: Handler = policy?.(end) ?? end
  /** Makes a call and flushes its action. */
  const handle: Handler = async (call) => {
    try {
      return await bare(call)
    } finally {
      await instance.close?.()
    }
  }
  const deeds = new Actions(store)
  return { bare, handle, deeds, warnings }
}

/** Everything that was recorded, in order. */
function written(store: Store): Action[] {
  const all: Action[] = []
  const { put } = store
  store.put = async (key, value, ttl) => {
    all.push(JSON.parse(value))
    await put.call(store, key, value, ttl)
  }
  return all
}

describe('the recorded action of a call', () => {
  test.each([
    ['close(id=$.result.id)', false],
    ['close(id=$.args.id)', true],
  ])('with the rule %s, whether long strings of the result are kept apart: %s', async (rule, isApart) => {
    const seen: unknown[] = []
    const end: Handler = async (call) => {
      seen.push(spoolSlot.of(call))
      return done(call)
    }
    const spool = { over: 1 } as never
    await around({ rule, end }).handle(to({ id: 1 }, { slots: spoolSlot.put(spool) }))
    expect(seen).toEqual([isApart ? spool : undefined])
  })

  test('an action is recorded once, when the call ended, with its compensation', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const { handle } = around({ rule: 'close(id=$.result.id, by=$.args.who)', deps: { store } })
    await handle(
      to(
        { who: 'me' },
        { client: { era: 'legacy', revision: '2025-11-25', capabilities: {}, session: 's' } },
      ),
    )
    expect(all).toHaveLength(1)
    expect(all[0]).toMatchObject({
      principal: { id: 'anonymous' },
      session: 's',
      upstream: 'one',
      tool: 't',
      arguments: { who: 'me' },
      status: 'ok',
      way: {
        kind: 'exact',
        tool: 'close',
        arguments: { id: 7, by: 'me' },
        description: 'close(id=7, by="me")',
      },
    })
    expect(all[0]?.endedAt).toBeGreaterThanOrEqual(all[0]?.startedAt ?? Infinity)
  })

  test('secrets that the undoing call gets are not shown, under whatever names', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const schemas: Readonly<Record<string, object>> = {
      t: { pin: { type: 'string', format: 'password' } },
      restore: { old: { type: 'string', writeOnly: true } },
    }
    const entry = ({ params }: Call): Descriptor => ({
      upstream: 'one',
      kind: 'tool',
      name: String(params.fields.name),
      definition: { inputSchema: { properties: schemas[String(params.fields.name)] } },
      classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [] },
    })
    const rule =
      'restore(code=$.args.pin, key=$.args.api_key, of={"o": $.args.pin}, old=$.args.name, id=$.args.id)'
    const given = { pin: '4711', api_key: 'hunter2', name: 'former', id: 1 }
    await around({ rule, deps: { store, entry } }).handle(to(given))
    expect(all[0]?.secrets?.toSorted()).toEqual(['code', 'key', 'of', 'old', 'pin'])
    expect(all[0]?.way).toMatchObject({
      arguments: { code: '4711', key: 'hunter2', of: { o: '4711' }, old: 'former', id: 1 },
      description: 'restore(code="***", key="***", of="***", old="***", id=1)',
    })
  })

  test.each([
    [undefined, { kind: 'none', reason: 'no undo is configured for it' }],
    ['none', { kind: 'none', reason: 'its undo is configured as none' }],
    ['close(id=$.result.number)', { kind: 'none', reason: 'there is no $.result.number' }],
    [
      { call: 'close(id=1)', exact: false },
      { kind: 'approximate', tool: 'close' },
    ],
  ])('an action is recorded with undo rule %j', async (rule, way) => {
    const store = new MemoryStore()
    const all = written(store)
    await around({ ...(rule !== undefined && { rule }), deps: { store } }).handle(to({}))
    expect(all[0]?.way).toMatchObject(way)
  })

  test('an action is recorded under the called name if the tools cannot be listed', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const entry = () => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'no list'))
    await around({ deps: { store, entry } }).handle(to({}))
    expect(all).toMatchObject([{ tool: 't', status: 'ok' }])
  })

  test('no action is recorded for failures, reads, internal calls or without history', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const failing: Handler = async () => resultOf({ content: [], isError: true })
    await around({ end: failing, deps: { store } }).handle(to({}))
    await around({ op: 'read', deps: { store } }).handle(to({}))
    await around({ deps: { store } }).handle(to({}, { internal: 'compensate' }))
    await around({ history: 'off', deps: { store } }).handle(to({}))
    expect(all).toEqual([])
  })

  test.each<[string, object, object, number]>([
    ['is requested', { dryRun: { type: 'boolean' } }, { dryRun: true }, 0],
    ['is requested in snake case', { dry_run: { type: 'boolean' } }, { dry_run: true }, 0],
    ['is the default', { validate_only: { type: 'boolean', default: true } }, {}, 0],
    ['is the default and is declined', { dryRun: { type: 'boolean', default: true } }, { dryRun: false }, 1],
    ['is not requested', { dryRun: { type: 'boolean' } }, {}, 1],
    ['is not supported by the tool, which then runs', {}, { dryRun: true }, 1],
  ])('a dry run is not recorded as an action: if it %s', async (_what, inputs, args, count) => {
    const store = new MemoryStore()
    const all = written(store)
    await around({ inputs, rule: 'undo_it()', deps: { store } }).handle(to({ ...args }))
    expect(all).toHaveLength(count)
  })

  test('a read-only call is passed on as the same promise', () => {
    const promise = Promise.resolve(resultOf({}))
    expect(around({ op: 'read', end: () => promise }).bare(to({}))).toBe(promise)
  })

  test('a call with a lost response may have taken effect', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const lost: Handler = () => Promise.reject(new GatewayError('OUTCOME_UNKNOWN', 'lost'))
    await expect(
      around({ rule: 'drop(a=$.args.a)', end: lost, deps: { store } }).handle(to({ a: 1 })),
    ).rejects.toThrow('lost')
    await expect(
      around({ rule: 'close(id=$.result.id)', end: lost, deps: { store } }).handle(to({})),
    ).rejects.toThrow('lost')
    expect(all).toMatchObject([
      { status: 'unknown', way: { kind: 'exact', arguments: { a: 1 } } },
      { status: 'unknown', way: { kind: 'none' } },
    ])
  })

  test('a call that was not sent, or was refused by the server, had no effect', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const unsent = new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })
    const relayed = new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.of({ code: -32602 }) })
    const busy = new GatewayError('SERVER_UNAVAILABLE', 'busy', { details: { http_status: 503 } })
    for (const error of [unsent, relayed, busy]) {
      await expect(around({ end: () => Promise.reject(error), deps: { store } }).handle(to({}))).rejects.toBe(
        error,
      )
    }
    expect(all).toEqual([])
  })

  test('a call runs while the store is unavailable, with a single warning', async () => {
    const store = new MemoryStore()
    store.put = () => Promise.reject(new Error('away'))
    const { handle, warnings } = around({ deps: { store } })
    expect((await handle(to({}))).kind).toBe('result')
    await handle(to({}))
    expect(warnings).toEqual(['undo.history_lost'])
  })

  test('a call that requires input is not recorded, and one its server has begun is resumed with its snapshot', async () => {
    let content: unknown = 'before'
    const ask = (isOpen: boolean): Outcome => ({
      kind: 'input_required',
      inputRequests: {},
      requestState: { other: 1 },
      ...(isOpen && { isOpen }),
    })
    const end: Handler = async (call) => {
      if (call.internal) return resultOf({ structuredContent: { content } })
      if (call.inputResponses) return done(call)
      content = 'after'
      return ask(call.params.fields['open'] === true)
    }
    const { handle, deeds } = around({
      rule: { snapshot: 'read()', restore: 'write(text=$.snapshot.content)' },
      end,
    })
    const shut = await handle(to({ open: false }))
    expect(shut).toMatchObject({ kind: 'input_required', requestState: { other: 1 } })
    expect(await everything(deeds, shut)).toBeUndefined()

    content = 'before'
    const params = Payload.of({ name: 't', arguments: {}, open: true })
    const open = await handle(to({}, { params }))
    if (open.kind !== 'input_required') throw new Error('nothing was asked')
    expect(await everything(deeds, open)).toMatchObject({
      status: 'pending',
      way: { arguments: { text: 'before' } },
    })
    await handle(to({}, { params, requestState: open.requestState, inputResponses: {} }))
    expect(await everything(deeds, open)).toMatchObject({
      status: 'ok',
      way: { arguments: { text: 'before' } },
    })
  })
})

test('a call whose server has begun may continue although the input responses fail to reach it', async () => {
  const end: Handler = async (call) => {
    if (!call.inputResponses)
      return { kind: 'input_required', inputRequests: {}, requestState: {}, isOpen: true }
    throw new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })
  }
  const { handle, deeds } = around({ rule: 'drop(a=$.args.a)', end })
  const open = await handle(to({ a: 1 }))
  if (open.kind !== 'input_required') throw new Error('nothing was asked')
  await expect(handle(to({ a: 1 }, { requestState: open.requestState, inputResponses: {} }))).rejects.toThrow(
    'away',
  )
  expect(await everything(deeds, open)).toMatchObject({ status: 'unknown', way: { arguments: { a: 1 } } })
})

/** The action named in the request state of an outcome. */
async function everything(deeds: Actions, outcome: Outcome): Promise<Action | undefined> {
  const key = outcome.kind === 'input_required' ? outcome.requestState['undo'] : undefined
  return typeof key === 'string' ? deeds.find(key) : undefined
}

describe('the snapshot before a call', () => {
  const rule: UndoSettings = {
    snapshot: 'read(path=$.args.path)',
    restore: 'write(path=$.args.path, content=$.snapshot.content)',
  }
  const reading = (fields: object): Handler => {
    return async (call) => (call.internal === 'read' ? resultOf(fields) : done(call))
  }

  test('a snapshot is restored', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const asked: Call[] = []
    const end: Handler = async (call) => {
      asked.push(call)
      return call.internal ? resultOf({ structuredContent: { content: 'old' } }) : done(call)
    }
    await around({ rule, end, deps: { store } }).handle(to({ path: 'a' }, { principal: { id: 'me' } }))
    expect(
      asked.map(({ internal: purpose, principal, params }) => [purpose, principal.id, params.fields['name']]),
    ).toEqual([
      ['read', 'me', 'read'],
      [undefined, 'me', 't'],
      ['read', 'me', 'read'],
    ])
    expect(all[0]?.way).toMatchObject({
      kind: 'exact',
      tool: 'write',
      arguments: { path: 'a', content: 'old' },
    })
  })

  test('a snapshot contains what the server sent, before any masking', async () => {
    const store = new MemoryStore()
    const all = written(store)
    const inner = around({
      rule,
      end: reading({ structuredContent: { content: 'secret' } }),
      deps: {
        store,
        call: async (call) => {
          await inner.handle(call)
          return resultOf({ structuredContent: { content: '***' } })
        },
      },
    })
    await inner.handle(to({ path: 'a' }))
    expect(all[0]?.way).toMatchObject({ arguments: { content: 'secret' } })
  })

  const missing = { isError: true, content: [{ type: 'text', text: 'ENOENT' }] }
  const refused = {
    ...missing,
    _meta: { 'dev.gatehouse/error': { code: 'PERMISSION_DENIED', message: 'no' } },
  }

  test.each([
    [
      'absent, without an undo for that',
      missing,
      undefined,
      { kind: 'none', reason: /nothing existed before the call/ },
    ],
    [
      'absent, so that the created item is removed',
      missing,
      'drop(path=$.args.path)',
      { kind: 'exact', tool: 'drop' },
    ],
    [
      'unknown, so that nothing is removed',
      refused,
      'drop(path=$.args.path)',
      { kind: 'none', reason: /PERMISSION_DENIED: no/ },
    ],
    [
      'unknown for an unclassified reason, so that nothing is removed',
      { ...missing, _meta: { 'dev.gatehouse/error': { code: 'UPSTREAM_ERROR', message: 'EIO' } } },
      'drop(path=$.args.path)',
      { kind: 'none', reason: /UPSTREAM_ERROR: EIO/ },
    ],
    [
      'unknown, with the error relayed unchanged',
      { ...missing, content: [{ type: 'text', text: 'EIO: i/o error, read' }] },
      'drop(path=$.args.path)',
      { kind: 'none', reason: /EIO: i\/o error/ },
    ],
  ])('the state before the call may be %s', async (_what, fields, absent, way) => {
    const store = new MemoryStore()
    const all = written(store)
    const given = { ...rule, ...(absent !== undefined && { absent }) }
    await around({ rule: given, end: reading(fields), deps: { store } }).handle(to({ path: 'a' }))
    const { reason, ...others } = { reason: undefined, ...way }
    expect(all[0]?.way).toMatchObject(others)
    if (reason) expect(all[0]?.way).toHaveProperty('reason', expect.stringMatching(reason))
  })

  test('a failed snapshot refuses a step', async () => {
    const calls: (string | undefined)[] = []
    const end: Handler = async (call) => {
      calls.push(call.internal)
      return resultOf(missing)
    }
    const { handle, deeds } = around({ rule, end })
    await expect(handle(to({ path: 'a' }, { slots: stepSlot.put(step) }))).rejects.toMatchObject({
      code: 'COMPENSATION_UNAVAILABLE',
    })
    expect(calls).toEqual(['read'])
    expect(await deeds.find(step.deed)).toBeUndefined()
  })

  test('a snapshot can be too large to record', async () => {
    const large = reading({ structuredContent: { content: 'x'.repeat(1_100_000) } })
    await expect(
      around({ rule, end: large }).handle(to({ path: 'a' }, { slots: stepSlot.put(step) })),
    ).rejects.toMatchObject({
      code: 'COMPENSATION_UNAVAILABLE',
      message: expect.stringContaining('larger than 1 MB'),
    })
  })
})

describe('the recorded action of a transaction step', () => {
  test('a step is recorded before it is sent and completed before its response', async () => {
    const store = new MemoryStore()
    const all = written(store)
    let before: Action[] = []
    const end: Handler = async (call) => {
      before = [...all]
      return done(call)
    }
    await around({ rule: 'close(id=$.result.id)', end, deps: { store } }).handle(
      to({}, { slots: stepSlot.put(step) }),
    )
    expect(before).toMatchObject([
      { key: step.deed, status: 'pending', transaction: 'tx', step: 's1', way: { kind: 'none' } },
    ])
    expect(all.slice(1)).toMatchObject([
      { key: step.deed, status: 'ok', way: { kind: 'exact', arguments: { id: 7 } } },
    ])
  })

  test('a step is recorded with its compensation from the start if the arguments suffice', async () => {
    const store = new MemoryStore()
    const all = written(store)
    await around({ rule: 'drop(a=$.args.a)', deps: { store } }).handle(
      to({ a: 1 }, { slots: stepSlot.put(step) }),
    )
    expect(all[0]).toMatchObject({ status: 'pending', way: { kind: 'exact', arguments: { a: 1 } } })
  })

  test('a step is recorded even if history is off', async () => {
    const { handle, deeds } = around({ rule: 'drop()', history: 'off' })
    await handle(to({}, { slots: stepSlot.put(step) }))
    expect(await deeds.find(step.deed)).toMatchObject({ status: 'ok' })
  })

  test('a failed step leaves nothing to undo', async () => {
    const { handle, deeds } = around({ rule: 'drop()', end: async () => resultOf({ isError: true }) })
    await handle(to({}, { slots: stepSlot.put(step) }))
    expect(await deeds.find(step.deed)).toMatchObject({ status: 'failed', way: { kind: 'nothing' } })
  })

  test('a step that requires input is not recorded', async () => {
    const { handle, deeds } = around({
      rule: 'drop()',
      end: async () => ({ kind: 'input_required', inputRequests: {}, requestState: {} }),
    })
    await handle(to({}, { slots: stepSlot.put(step) }))
    expect(await deeds.find(step.deed)).toBeUndefined()
  })

  test('a step does not run if it cannot be recorded', async () => {
    const store = new MemoryStore()
    store.put = () => Promise.reject(new Error('away'))
    let calls = 0
    const end: Handler = (call) => {
      calls++
      return done(call)
    }
    await expect(
      around({ rule: 'drop()', end, deps: { store } }).handle(to({}, { slots: stepSlot.put(step) })),
    ).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
    })
    expect(calls).toBe(0)
  })

  test('a step whose end cannot be recorded has an unknown outcome', async () => {
    const store = new MemoryStore()
    const { put } = store
    let isAway = false
    store.put = (...given) => (isAway ? Promise.reject(new Error('away')) : put.apply(store, given))
    const end: Handler = (call) => {
      isAway = true
      return done(call)
    }
    await expect(
      around({ rule: 'drop()', end, deps: { store } }).handle(to({}, { slots: stepSlot.put(step) })),
    ).rejects.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    expect(await new Actions(store).find(step.deed)).toMatchObject({
      status: 'pending',
      way: { kind: 'exact' },
    })
  })

  test.each([[undefined], ['none']])(
    'a step with undo %s runs only if it does not have to be undoable',
    async (rule) => {
      const { handle } = around(rule === undefined ? {} : { rule })
      await expect(handle(to({}, { slots: stepSlot.put(step) }))).rejects.toMatchObject({
        code: 'COMPENSATION_UNAVAILABLE',
      })
      expect((await handle(to({}, { slots: stepSlot.put({ ...step, mustBeUndoable: false }) }))).kind).toBe(
        'result',
      )
    },
  )
})
