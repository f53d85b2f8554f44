import { describe, expect, test } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import { callUndos } from '../../../../src/features/offers.ts'
import { undo } from '../../../../src/features/undo/undo.ts'
import { Actions } from '../../../../src/records/actions.ts'
import { choose } from '../../../../src/records/rewind-plan.ts'
import { stepSlot } from '../../../../src/records/transactions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { CrashingStore } from '../../../support/crashing-store.ts'
import { featureDeps, offeredBy, type ServiceStubs } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'

const tool: Descriptor = {
  upstream: 'files',
  kind: 'tool',
  name: 'write',
  definition: { name: 'write' },
  classification: { op: 'write', risk: 'destructive', idempotent: true, evidence: [] },
}
const rule = readUndo({
  snapshot: 'read(path=$.args.path)',
  restore: 'write(path=$.args.path, content=$.snapshot.content)',
})

interface Given {
  readonly store?: Store
  readonly history?: number | 'off'
  readonly deps?: ServiceStubs
  /** What the server does, by the tool; `before` is what it reads. */
  readonly write?: Handler
  readonly read?: Handler
}

function textOf(content: string): Outcome {
  return { kind: 'result', result: Payload.of({ content: [], structuredContent: { content } }) }
}

/** A server with one file, of which undo keeps what is written over. */
function fileServer(given: Given = {}) {
  const { store = new MemoryStore(), history = 86_400_000, write = async () => textOf('') } = given
  const { read = async () => textOf('before') } = given
  const made: string[] = []
  const deps = featureDeps({
    store,
    undoRule: async () => rule,
    isUndoProved: async () => true,
    call: (call) => handle(call),
    ...given.deps,
  })
  const instance = undo.create(() => ({ history, proved: 'auto' }), deps)
  const handle = (call: Call): Promise<Outcome> => {
    const name = String(call.params.fields.name)
    const policy = instance.calls?.middleware({ method: 'tools/call', upstream: 'files', name })
    const next: Handler = (each) => {
      made.push(name)
      return name === 'read' ? read(each) : write(each)
    }
    return policy ? policy(next)(call) : next(call)
  }
  const offered = offeredBy(instance, callUndos)
  const call = (more: Partial<Call> = {}): Call =>
    toolCall({
      target: { method: 'tools/call', upstream: 'files', name: 'write' },
      params: Payload.of({ name: 'write', arguments: { path: '/a', content: 'after' } }),
      tool,
      ...more,
    })
  return {
    made,
    call,
    handle,
    secure: (more?: Partial<Call>) => offered?.secure(call(more), tool),
    actions: new Actions(store),
    close: () => instance.close?.(),
  }
}

describe('a call that is secured', () => {
  test('has what restores it in the store before it is sent, whatever happens then', async () => {
    const { secure, actions, made } = fileServer()
    expect(await secure()).toBeDefined()
    expect(made).toEqual(['read'])
    const found = await actions.list()
    expect(found).toMatchObject([
      {
        status: 'unknown',
        tool: 'write',
        way: { kind: 'exact', arguments: { path: '/a', content: 'before' } },
      },
    ])
    // What `gatehouse undo` says of it, if its process ended before or after the call reached its server.
    expect(choose(found, [])).toMatchObject([{ how: 'exactly', why: 'it is unknown whether it took effect' }])
  })

  test('is made with that record alone, and ends in it', async () => {
    const { secure, handle, actions, made, call, close } = fileServer()
    await handle((await secure()) ?? call())
    await close()
    expect(made).toEqual(['read', 'write', 'read'])
    expect(await actions.list()).toMatchObject([{ status: 'ok', way: { kind: 'exact' } }])
  })

  test.each([
    [
      'was not sent',
      () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'away', { isUnsent: true })),
    ],
    ['failed', async (): Promise<Outcome> => ({ kind: 'result', result: Payload.of({ isError: true }) })],
  ])('leaves no record if it %s', async (_what, write) => {
    const { secure, handle, actions, call, close } = fileServer({ write })
    await handle((await secure()) ?? call()).catch(() => undefined)
    await close()
    expect(await actions.list()).toEqual([])
  })

  test('keeps its record while its server requests input, and is secured by it again', async () => {
    const asking: Outcome = {
      kind: 'input_required',
      inputRequests: {},
      requestState: {},
      suspended: 'x',
    } as never
    const { secure, handle, actions, made, call } = fileServer({ write: async () => asking })
    const outcome = await handle((await secure()) ?? call())
    const [before] = await actions.list()
    if (outcome.kind !== 'input_required') throw new Error(outcome.kind)
    const again = await secure({ requestState: outcome.requestState })
    const [after, ...others] = await actions.list()
    if (outcome.requestState['undo'] === undefined) return expect(before).toBeUndefined()
    expect([again !== undefined, others]).toEqual([true, []])
    expect(after).toMatchObject({ key: before?.key, status: 'unknown', way: before?.way })
    expect(made).toEqual(['read', 'write'])
  })

  test('is recorded as the step that it is', async () => {
    const { secure, actions } = fileServer()
    const step = { transaction: 't', step: 's', deed: '000000000001-deed', mustBeUndoable: true }
    expect(await secure({ slots: stepSlot.put(step) })).toBeDefined()
    expect(await actions.find(step.deed)).toMatchObject({ status: 'pending', way: { kind: 'exact' } })
  })
})

describe('a call is not secured', () => {
  const wrong = { content: [{ type: 'text', text: 'EACCES: permission denied' }], isError: true }
  const absent = { content: [{ type: 'text', text: 'ENOENT: no such file or directory' }], isError: true }
  test.each([
    ['the state cannot be read', { read: async () => ({ kind: 'result', result: Payload.of(wrong) }) }],
    ['nothing is there to restore', { read: async () => ({ kind: 'result', result: Payload.of(absent) }) }],
    ['the read is refused', { read: () => Promise.reject(new Error('no')) }],
    ['the state is not text', { read: async () => textOf('\ufffd') }],
    ['the state is too large for its record', { read: async () => textOf('x'.repeat(1_100_000)) }],
    ['the store is in memory', { deps: { isStoreShared: false } }],
    ['no history is kept', { history: 'off' }],
    ['the undo is not proved', { deps: { isUndoProved: async () => false } }],
    ['the tools cannot be listed', { deps: { isUndoProved: () => Promise.reject(new Error('no')) } }],
    ['no rule is found', { deps: { undoRule: () => undefined } }],
  ] satisfies [string, Given][])('if %s, and leaves no record', async (_what, given) => {
    const { secure, actions } = fileServer(given)
    expect(await secure()).toBeUndefined()
    expect(await actions.list()).toEqual([])
  })

  test.each(['put', 'get'] as const)('if the store fails to %s', async (method) => {
    const store = new MemoryStore()
    const failing = { [method]: () => Promise.reject(new Error('full')) }
    Object.assign(store, failing)
    expect(await fileServer({ store }).secure()).toBeUndefined()
  })

  test.each([true, false])('if the process ends at the write, which is done: %s', async (isDone) => {
    const inner = new MemoryStore()
    const { secure, made } = fileServer({ store: new CrashingStore(inner, 1, isDone) })
    let isSecured = false
    void secure()?.then((call) => (isSecured = call !== undefined))
    await expect.poll(() => made).toEqual(['read'])
    await new Promise((resolve) => setImmediate(resolve))
    expect(isSecured).toBe(false)
    const found = choose(await new Actions(inner).list(), [])
    expect(found.map(({ how }) => how)).toEqual(isDone ? ['exactly'] : [])
  })
})
