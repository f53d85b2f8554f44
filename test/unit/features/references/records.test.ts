// References in calls that are recorded: fingerprints of keyed calls, and data that a record needs for as long as it lasts.
import { describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { type TransactionStepRef, stepSlot } from '../../../../src/records/transactions.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { readUndo } from '../../../../src/core/undo/rules.ts'
import { idempotency } from '../../../../src/features/idempotency/idempotency.ts'
import { largeResults } from '../../../../src/features/references/keep.ts'
import { references } from '../../../../src/features/references/references.ts'
import { undo } from '../../../../src/features/undo/undo.ts'
import { Actions } from '../../../../src/records/actions.ts'
import { withData } from '../../../../src/records/kept-arguments.ts'
import { keepReferences, References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { ada, recordSettings as settings } from '../../../support/reference-world.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import { idempotencyDefaults } from '../../../support/idempotency-bench.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const MINUTE = 60_000
const DAY = 86_400_000
const step: TransactionStepRef = {
  transaction: 'tx',
  step: 's',
  deed: '000000000001-deed',
  mustBeUndoable: true,
}

/** References around keyed and undoable calls of a tool that returns `result`. */
function world({
  result = {},
  rule = 'none',
  inputs = {},
  serve,
  between,
  urls = false,
  log = silentLog,
}: {
  result?: Json
  rule?: string
  inputs?: Json
  /** What the server does, and what happens once the references are resolved. */
  serve?: () => Promise<Outcome | void>
  between?: () => Promise<void>
  urls?: boolean
  log?: typeof silentLog
} = {}) {
  const store = new MemoryStore()
  const kept = new References(store, settings)
  const got: unknown[] = []
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object', properties: inputs } },
    classification: { op: 'write', idempotent: false, evidence: [], risk: 'reversible' },
  }
  const run = chain(
    [
      on(references, settings),
      () => ({
        calls: {
          middleware: () => (next) => async (given) => {
            await between?.()
            return next(given)
          },
          dryRun: 'absent',
        },
      }),
      on(idempotency, idempotencyDefaults),
      on(largeResults, { ...settings, urls }),
      on(undo, { history: DAY, proved: 'auto' }),
    ],
    async ({ params }): Promise<Outcome> => {
      got.push(params.fields['arguments'])
      return (await serve?.()) ?? { kind: 'result', result: Payload.of(result) }
    },
    {
      store,
      log,
      servers: () => ['one'],
      server: () => serverSettings({ name: 'one' }),
      entry: () => entry,
      undoRule: () => readUndo(rule),
    },
  )
  const keep = async (content: string, id: string, type = 'text/plain'): Promise<void> => {
    await kept.add(ada, { server: 'one', name: 'data', type, id, ttl: 15 * MINUTE }, bytesOf(content))
  }
  const expire = async (): Promise<void> => {
    for (const key of (await store.scan('reference')).keys()) await store.delete(key)
  }
  const outcome = async (args: Json, key?: string, more: Partial<Call> = {}): Promise<Outcome> => {
    const given = key === undefined ? {} : { idempotency_key: key }
    return run({ principal: ada, ...more }, { arguments: args, ...given })
  }
  const call = async (...given: Parameters<typeof outcome>): Promise<Json> =>
    fieldsOf(await outcome(...given))
  return { store, kept, got, keep, expire, call, outcome }
}

function wasReplayed(result: Json): unknown {
  return objectAt(result, 'idempotency')['was_replay']
}

describe('the fingerprint of a keyed call', () => {
  it.each([
    ['text', { type: 'string' }, 'some text', 'text/plain', 'some text'],
    ['JSON', { type: 'object' }, '{"b": 1, "a": [2]}', 'application/json', { a: [2], b: 1 }],
    ['long numbers', { type: 'array' }, '[12345678901234567890]', 'application/json', undefined],
    ['base64', { type: 'string', contentEncoding: 'base64' }, 'bytes', 'image/png', 'Ynl0ZXM='],
  ])('is the same for %s by reference and inline', async (...given) => {
    const [, value, content, type, inline] = given
    const { keep, call, got } = world({ inputs: { value } })
    await keep(content, 'one', type)
    await keep(content, 'two', type)
    await call({ value: 'ref://one' }, 'k')
    expect(wasReplayed(await call({ value: 'ref://two' }, 'k'))).toBe(true)
    expect(wasReplayed(await call({ value: { $ref_id: 'one' } }, 'k'))).toBe(true)
    if (inline !== undefined) expect(wasReplayed(await call({ value: inline }, 'k'))).toBe(true)
    expect(got).toHaveLength(1)
  })

  it.each(['path', 'url'])(
    'is the same for the same data as a %s, and another one for another part',
    async (form) => {
      const { keep, call, got } = world({ inputs: { value: { type: 'string' } } })
      await keep('some text', 'one')
      await keep('some text', 'two')
      await keep('other text', 'three')
      await call({ value: `ref://one?as=${form}` }, 'k')
      expect(wasReplayed(await call({ value: `ref://one?as=${form}` }, 'k'))).toBe(true)
      expect(wasReplayed(await call({ value: `ref://two?as=${form}` }, 'k'))).toBe(true)
      const conflict = { code: 'IDEMPOTENCY_CONFLICT' }
      await expect(call({ value: `ref://three?as=${form}` }, 'k')).rejects.toMatchObject(conflict)
      if (form === 'path')
        await expect(call({ value: 'ref://one?as=path&bytes=0-3' }, 'k')).rejects.toMatchObject(conflict)
      expect(got).toHaveLength(1)
    },
  )

  it('is another one for other data under the same id', async () => {
    const { keep, expire, call, got } = world({ inputs: { value: { type: 'string' } } })
    await keep('some text', 'one')
    await call({ value: 'ref://one' }, 'k')
    await expire()
    await keep('other text', 'one')
    await expect(call({ value: 'ref://one' }, 'k')).rejects.toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
    expect(got).toHaveLength(1)
  })
})

describe('what a keyed call refers to', () => {
  it('lives as long as its key: its arguments, and what is kept of its result', async () => {
    vi.useFakeTimers()
    try {
      const { keep, kept, call, got } = world({
        result: { content: [{ type: 'text', text: 'x'.repeat(5000) }] },
      })
      await keep('some text', 'one')
      const first = await call({ value: 'ref://one' }, 'k')
      const facts = objectAt(objectAt(first, '_meta'), 'dev.gatehouse/data_reference')
      expect(Date.parse(String(facts['expires_at']))).toBe(Date.now() + DAY)
      vi.advanceTimersByTime(DAY - MINUTE)
      const replay = await call({ value: 'ref://one' }, 'k')
      expect(wasReplayed(replay)).toBe(true)
      expect(got).toHaveLength(1)
      const id = String(objectAt(objectAt(replay, '_meta'), 'dev.gatehouse/data_reference')['ref_id'])
      expect(await kept.find(ada, id)).toMatchObject({ size: 5000 })
      vi.advanceTimersByTime(2 * MINUTE)
      expect(await kept.find(ada, id)).toBeUndefined()
      expect(await kept.find(ada, 'one')).toBeUndefined()
    } finally {
      vi.useRealTimers()
    }
  })

  it('lives until a call that asks is made again', async () => {
    const inputRequests = { q: { method: 'elicitation/create', params: Payload.of({}) } }
    const serve = async (): Promise<Outcome> => ({ kind: 'input_required', inputRequests, requestState: {} })
    const { keep, kept, outcome } = world({ serve })
    await keep('some text', 'one')
    expect((await outcome({ value: 'ref://one' })).kind).toBe('input_required')
    expect((await kept.find(ada, 'one'))?.expiresAt).toBeGreaterThan(Date.now() + 59 * MINUTE)
  })

  it('is logged if it expired before it could be kept for a key', async () => {
    const warned: unknown[] = []
    const log = { ...silentLog, warn: (...words: unknown[]) => void warned.push(words) }
    const here = world({ log, between: () => here.expire() })
    await here.keep('some text', 'one')
    await here.call({ value: 'ref://one' }, 'k')
    expect(here.got).toEqual([{ value: 'some text' }])
    expect(warned).toEqual([
      ['idempotency.references_not_kept', expect.objectContaining({ error: 'some of the data has expired' })],
    ])
  })

  it('has its URL in the first answer, and none in the record', async () => {
    const content = [1, 2].map((each) => ({ type: 'text', text: `${each}`.repeat(5000) }))
    const { call } = world({ result: { content }, urls: true })
    const first = await call({ value: 1 }, 'k')
    expect(JSON.stringify(first).match(/access_url/g)).toHaveLength(5)
    const replay = await call({ value: 1 }, 'k')
    expect(wasReplayed(replay)).toBe(true)
    expect(JSON.stringify(replay)).not.toContain('access_url')
    const facts = 'dev.gatehouse/data_references'
    expect(objectAt(replay, '_meta')[facts]).toMatchObject([{ size_bytes: 5000 }, { size_bytes: 5000 }])
  })

  it('lives as long as ever without a key', async () => {
    const { keep, kept, call } = world()
    await keep('some text', 'one')
    const before = await kept.find(ada, 'one')
    await call({ value: 'ref://one' })
    expect(await kept.find(ada, 'one')).toEqual(before)
  })

  it('is never kept for a shorter time than before, and only for its own caller', async () => {
    const { store, keep, kept } = world()
    await keep('some text', 'one')
    const before = await kept.find(ada, 'one')
    expect(await keepReferences(store, ada, { ids: ['one'], until: Date.now() + MINUTE })).toBe(true)
    expect(await kept.find(ada, 'one')).toEqual(before)
    expect(await keepReferences(store, { id: 'bob' }, { ids: ['one'], until: Date.now() + DAY })).toBe(false)
    expect(await keepReferences(store, ada, { ids: ['one', 'gone'], until: Date.now() + DAY })).toBe(false)
    expect((await kept.find(ada, 'one'))?.expiresAt).toBeGreaterThan(Date.now() + DAY - MINUTE)
  })
})

describe('undoing a call', () => {
  const large = { content: [{ type: 'text', text: 'x'.repeat(5000) }], structuredContent: { id: 7 } }
  const huge = 'line\n'.repeat(400_000)

  it('takes values from the result as the server sent it, though it was kept as a reference', async () => {
    const { store, call } = world({ result: large, rule: 'remove(id=$.result.id)' })
    const result = await call({}, undefined, { slots: stepSlot.put(step) })
    expect(JSON.stringify(result)).toContain('ref://')
    expect(await new Actions(store).find(step.deed)).toMatchObject({
      way: { kind: 'exact', tool: 'remove', arguments: { id: 7 } },
    })
  })

  it('takes values from the data that arguments referred to; the record names the reference', async () => {
    const { store, keep, call } = world({ rule: 'remove(text=$.args.text)' })
    await keep('small', 'one')
    await call({ text: 'ref://one' }, undefined, { slots: stepSlot.put(step) })
    expect(await new Actions(store).find(step.deed)).toMatchObject({
      arguments: { text: 'ref://one' },
      way: { kind: 'exact', arguments: { text: 'small' } },
    })
  })

  it.each([
    ['text', huge, 'text/plain', { type: 'string' }, huge],
    ['JSON', JSON.stringify([huge]), 'application/json', { type: 'array' }, [huge]],
    ['base64', huge, 'image/png', { type: 'string', contentEncoding: 'base64' }, btoa(huge)],
  ])('keeps %s that is too large for a record as long as the record', async (...given) => {
    const [, content, type, value, sent] = given
    const { store, kept, keep, call } = world({
      rule: 'put(where={at: "x", list: [$.args.value]})',
      inputs: { value },
    })
    await keep(content, 'one', type)
    await call({ value: 'ref://one' }, undefined, { slots: stepSlot.put(step) })
    const way = (await new Actions(store).find(step.deed))?.way
    if (way?.kind !== 'exact') throw new Error(JSON.stringify(way))
    expect(way.arguments).toEqual({ where: { at: 'x', list: ['ref://one'] } })
    expect((await kept.find(ada, 'one'))?.expiresAt).toBeGreaterThan(Date.now() + 29 * DAY)
    const restored = await withData(way.arguments, way.kept ?? [], { principal: ada, store })
    expect(restored).toEqual({ where: { at: 'x', list: [sent] } })
  })

  it('keeps the data as long as the record of a call that takes long', async () => {
    vi.useFakeTimers()
    try {
      const serve = async (): Promise<void> => void vi.advanceTimersByTime(DAY / 2)
      const { kept, keep, call } = world({ rule: 'put(text=$.args.text)', serve })
      await keep(huge, 'one')
      await call({ text: 'ref://one' })
      expect((await kept.find(ada, 'one'))?.expiresAt).toBe(Date.now() + DAY)
    } finally {
      vi.useRealTimers()
    }
  })

  it('is not possible with a file or a URL that is gone after the call', async () => {
    const { store, got, keep, call } = world({ rule: 'remove(text=$.args.value)' })
    await keep('small', 'one')
    await call({ value: 'ref://one?as=path' }, undefined, {
      slots: stepSlot.put({ ...step, mustBeUndoable: false }),
    })
    expect(got).toEqual([{ value: expect.stringContaining('gatehouse-') }])
    expect(await new Actions(store).find(step.deed)).toMatchObject({
      arguments: { value: 'ref://one?as=path' },
      way: { kind: 'none', reason: expect.stringContaining('not there any more') },
    })
  })

  it('fails rather than to use other data', async () => {
    const { store, keep, expire, call } = world({ rule: 'put(text=$.args.text)' })
    await keep(huge, 'one')
    await call({ text: 'ref://one' }, undefined, { slots: stepSlot.put(step) })
    const way = (await new Actions(store).find(step.deed))?.way
    if (way?.kind !== 'exact') throw new Error('no way')
    const options = { principal: ada, store }
    await expire()
    await expect(withData(way.arguments, way.kept ?? [], options)).rejects.toMatchObject({
      code: 'RESOURCE_NOT_FOUND',
    })
    await keep(`${huge}.`, 'one')
    await expect(withData(way.arguments, way.kept ?? [], options)).rejects.toMatchObject({ code: 'CONFLICT' })
  })

  it('without a reference, data that is too large is not kept', async () => {
    const { store, call } = world({ rule: 'put(text=$.args.text)' })
    const failed = call({ text: huge }, undefined, {
      slots: stepSlot.put({ ...step, mustBeUndoable: false }),
    })
    expect(await failed).toEqual({})
    expect((await new Actions(store).find(step.deed))?.way).toMatchObject({ kind: 'none' })
    await expect(call({ text: huge }, undefined, { slots: stepSlot.put(step) })).rejects.toBeInstanceOf(
      GatewayError,
    )
  })

  it('restores a text that looks like a reference as it was', async () => {
    const { got, call } = world()
    await call({ text: 'ref://nothing' }, undefined, { internal: 'compensate' })
    expect(got).toEqual([{ text: 'ref://nothing' }])
  })
})
