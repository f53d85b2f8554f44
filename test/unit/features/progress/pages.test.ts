import type { ServiceStubs } from '../../../support/feature-deps.ts'
import { describe, expect, it } from 'vitest'
import type { Call, Notification, Outcome } from '../../../../src/core/call.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { PROGRESS_KEY } from '../../../../src/features/progress/notes.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import {
  alice,
  bob,
  failureOf,
  fieldsOf,
  listener,
  older,
  operationIn,
  pendingServer,
  process,
  result,
  taking,
  watched,
} from './bench.ts'

const pass = fakeClock()
const STREAM = 'dev.gatehouse/stream'
const pages = (items: number[]): string =>
  JSON.stringify({ content: [], structuredContent: { items }, _meta: { [STREAM]: { pages: items.length } } })

/** A call whose pages were collected, and what later calls of its tool get. */
async function collected(first = pages([1, 2]), deps: ServiceStubs = {}) {
  const pending = pendingServer()
  const later: Call[] = []
  const gateway = process({
    server: pending.server,
    deps: {
      relay: async (call): Promise<Outcome> => {
        later.push(call)
        return result(pages([3]))
      },
      ...deps,
    },
  })
  const meta = { progressToken: 'p', 'dev.gatehouse/idempotency_key': 'k', [STREAM]: true }
  const outcome = gateway.make({ client: older }, { arguments: { query: 'q' }, _meta: meta })
  await pass(2000)
  pending.end(result(first))
  return { ...gateway, id: operationIn(await outcome), later }
}

/** The id of the operation that a notification names. */
function operationIdIn(note: Notification | undefined, key: string): unknown {
  const object = note?.params?.meta(key)
  return isObject(object) ? object['operation_id'] : undefined
}

describe('an operation whose pages were collected', () => {
  it('gives the remaining pages for a checkpoint token, by the call that it was', async () => {
    const { ask, id, later } = await collected()
    const params = { operation_id: id, checkpoint_token: 'token' }
    const meta = { progressToken: 'other' }
    const rest = await ask('operation/resume', params, { meta })
    expect(fieldsOf(rest)).toMatchObject({ structuredContent: { items: [3] } })
    const [call] = later
    expect(call?.target).toEqual({ method: 'tools/call', upstream: 'one', name: 't' })
    expect(call?.params.fields).toEqual({
      name: 't',
      arguments: { query: 'q' },
      _meta: { progressToken: 'other', [STREAM]: { checkpoint_token: 'token' } },
    })
    expect(call?.meta).toEqual({ progressToken: 'other', [STREAM]: { checkpoint_token: 'token' } })
    expect(call?.principal).toEqual(alice)
  })

  it('keeps only the tool and the arguments for that', async () => {
    const { records } = await collected()
    const [record] = await records()
    expect(record).toMatchObject({ state: 'completed', request: { meta: {} } })
    expect(record?.request?.params.fields).toEqual({ name: 't', arguments: { query: 'q' } })
  })

  it('keeps nothing if its result has no pages', async () => {
    const { records, ask, id, later } = await collected('{"content":[]}')
    expect((await records())[0]?.request).toBeUndefined()
    const params = { operation_id: id, checkpoint_token: 'token' }
    expect(await failureOf(ask('operation/resume', params))).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(later).toEqual([])
  })

  it('is not found for others, nor for those who may not call the tool any more', async () => {
    const { ask, id, later } = await collected(pages([1]), { isPermitted: async () => false })
    const params = { operation_id: id, checkpoint_token: 'token' }
    const missing = await failureOf(ask('operation/resume', { ...params, operation_id: 'none' }))
    expect(missing).toMatchObject({ code: 'RESOURCE_NOT_FOUND', message: 'Operation not found.' })
    expect(await failureOf(ask('operation/resume', params, { principal: bob }))).toEqual(missing)
    const restricted = { ...alice, scopes: new Set<string>() }
    expect(await failureOf(ask('operation/resume', params, { principal: restricted }))).toEqual(missing)
    expect(later).toEqual([])
  })

  it('needs a token that is a string', async () => {
    const { ask, id, later } = await collected()
    const params = { operation_id: id, checkpoint_token: 7 }
    expect(await failureOf(ask('operation/resume', params))).toMatchObject({ code: 'INVALID_INPUT' })
    expect(later).toEqual([])
  })

  it('gives them while it runs', async () => {
    const pending = pendingServer()
    const later: Call[] = []
    const relay = async (call: Call): Promise<Outcome> => {
      later.push(call)
      return result(pages([3]))
    }
    const { make, ask } = process({ server: pending.server, deps: { relay } })
    const { notes, emit } = listener()
    const running = make(
      { client: older, emit },
      { arguments: { query: 'q' }, _meta: { progressToken: 'p', [STREAM]: true } },
    )
    await pass(0)
    const data = { type: 'stream_chunk', sequence: 0, is_final: false }
    const params = Payload.of({ progressToken: 'p', progress: 1, _meta: { 'dev.gatehouse/chunk': data } })
    pending.calls[0]?.emit({ method: 'notifications/progress', params, mustArrive: true })
    await pass(100)
    const id = operationIdIn(notes[0], 'dev.gatehouse/chunk')
    await ask('operation/resume', { operation_id: id, checkpoint_token: 'token' })
    expect(later[0]?.params.fields['arguments']).toEqual({ query: 'q' })
    pending.end(result(pages([1])))
    await running
  })
})

describe('what a call waits for', () => {
  it('is every caller that gets its notifications: the first one, and those that joined', async () => {
    const pending = pendingServer()
    const { make, ask } = process({ server: pending.server })
    const [first, joined] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { notes, emit } = listener()
    const given = { client: older, emit, drained: () => first.promise }
    const running = make(given, { _meta: { progressToken: 'p' } })
    await pass(6000)
    const id = operationIdIn(notes[0], PROGRESS_KEY)
    const resumed = ask('operation/resume', { operation_id: id }, { drained: () => joined.promise })
    await pass(300)
    const read = watched(pending.calls[0]?.drained?.() ?? Promise.resolve())
    first.resolve()
    await pass(10)
    expect(read.isSettled).toBe(false)
    joined.resolve()
    await pass(10)
    expect(read.isSettled).toBe(true)
    pending.end(result(pages([1])))
    await Promise.all([running, resumed])
  })

  it('is no client once its caller has a task', async () => {
    const pending = pendingServer()
    const { make } = process({ server: pending.server })
    const accepted = make({ client: taking, drained: () => new Promise<void>(() => undefined) })
    await pass(21_000)
    expect((await accepted).kind).toBe('task')
    const read = watched(pending.calls[0]?.drained?.() ?? Promise.reject(new Error('there is nothing')))
    await pass(10)
    expect(read).toMatchObject({ isSettled: true })
    expect(read.error).toBeUndefined()
    pending.end(result(pages([1])))
  })
})
