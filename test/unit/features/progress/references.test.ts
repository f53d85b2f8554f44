// Data that long calls need: what their results refer to, and what they would need if another process made them again.
import { describe, expect, it, vi } from 'vitest'
import { compose, type Handler, type Outcome } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { references } from '../../../../src/features/references/references.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { referenceSettings } from '../../../support/reference-world.ts'
import { silentLog } from '../../../support/silent-log.ts'
import type { Json } from '../../../support/server/json.ts'
import { alice, older, pendingServer, process, taking } from './bench.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const pass = fakeClock()
const MINUTE = 60_000
const FACTS = 'dev.gatehouse/data_reference'

/** A store with the data `a` and `b` of Alice, for a quarter of an hour. */
async function withData() {
  const store = new MemoryStore()
  const kept = new References(store, referenceSettings)
  for (const id of ['a', 'b']) {
    await kept.add(alice, { server: 'one', name: id, type: 'text/plain', id, ttl: 15 * MINUTE }, bytesOf(id))
  }
  /** For how many minutes from now the data is kept. */
  const left = async (id: string): Promise<number> =>
    Math.round((((await kept.find(alice, id))?.expiresAt ?? 0) - Date.now()) / MINUTE)
  return { store, left }
}

function resultOf(ids: readonly string[]): Outcome {
  const facts = ids.map((ref_id) => ({ ref_id }))
  const _meta = { [FACTS]: facts[0], ...(ids.length > 1 && { [`${FACTS}s`]: facts }) }
  return { kind: 'result', result: Payload.of({ content: [], _meta }) }
}

describe('what the result of a long call refers to', () => {
  it('is kept as long as the task that a client requests, by the time of the client', async () => {
    const { store, left } = await withData()
    const { server, end } = pendingServer()
    const { make } = process({ server, store })
    const outcome = make({ client: older }, { task: { ttl: 300 * MINUTE } })
    await pass(2000)
    await outcome
    end(resultOf(['a', 'b']))
    await pass(0)
    expect([await left('a'), await left('b')]).toEqual([300, 300])
  })

  it('is kept as long as the outcome of a call that became a task, or an operation', async () => {
    for (const client of [taking, older]) {
      const { store, left } = await withData()
      const { server, end } = pendingServer()
      const { make } = process({ server, store, settings: { keep: 40 * MINUTE } })
      const outcome = make({ client })
      await pass(21_000)
      end(resultOf(['a']))
      await pass(0)
      await outcome
      expect(await left('a')).toBeGreaterThanOrEqual(40)
      expect(await left('b')).toBe(15)
    }
  })
})

it('what a result refers to, and is gone when the call ends, is in the log', async () => {
  const { store } = await withData()
  const { server, end } = pendingServer()
  const warn = vi.fn<typeof silentLog.warn>()
  const { make } = process({ server, store, deps: { log: { ...silentLog, warn } } })
  const outcome = make({ client: taking, requestId: 'r-1' })
  await pass(21_000)
  await outcome
  end(resultOf(['a', 'gone']))
  await pass(0)
  const fields = { request_id: 'r-1', error: 'some of the data has expired' }
  expect(warn.mock.calls).toEqual([['operation.references_not_kept', fields]])
})

describe('what the arguments of a call refer to', () => {
  /** A process whose server gets calls with their references resolved. */
  async function resolving() {
    const { store, left } = await withData()
    const pending = pendingServer()
    const feature = references.create(() => referenceSettings, featureDeps({ store, servers: () => ['one'] }))
    const resolve = feature.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't' })
    const server: Handler = compose([resolve], pending.server)
    return { ...process({ server, store }), ...pending, left }
  }
  const args: Json = { arguments: { x: 'ref://a' } }

  it('is kept as long as an operation may take, so that another process can make the call again', async () => {
    const { make, left, calls } = await resolving()
    void make({ client: taking }, args)
    await pass(500)
    expect(calls).toHaveLength(1)
    expect(await left('a')).toBe(15)
    await pass(1000)
    // Ten minutes for the call, and ten for its outcome.
    expect([await left('a'), await left('b')]).toEqual([20, 15])
  })

  it('is kept for a requested task too, whose record is written before its arguments are read', async () => {
    const { make, left } = await resolving()
    void make({ client: older }, { ...args, task: {} })
    await pass(100)
    expect(await left('a')).toBe(20)
  })
})
