import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { createRecords } from '../../../src/catalog/server-records.ts'
import type { Handler } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { Payload } from '../../../src/core/payload.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

const classification = { op: 'read', risk: 'safe', idempotent: true, evidence: [] } as const

function bench() {
  const state: { tools: string[]; asked: number; problem?: string; isSilent: boolean; fails?: boolean } = {
    tools: ['a'],
    asked: 0,
    isSilent: false,
  }
  const handle: Handler = async ({ method }) => {
    if (method === 'server/discover') state.asked++
    if (state.isSilent) return new Promise(() => undefined)
    if (state.problem !== undefined || state.fails)
      throw new Error(state.problem ?? 'it is not known where it runs')
    if (method === 'server/discover')
      return { kind: 'result', result: Payload.of({ capabilities: { tools: {} } }) }
    return { kind: 'result', result: Payload.of({ tools: state.tools.map((name) => ({ name })) }) }
  }
  const server = {
    settings: serverSettings({ name: 'one' }),
    handle,
    get status() {
      return state.problem === undefined ? {} : { problem: state.problem }
    },
  }
  const changed: string[] = []
  const records = createRecords({
    servers: new Map([['one', server]]),
    listed: (upstream, definition): Descriptor => {
      return {
        upstream,
        kind: 'tool',
        name: String(definition['name']),
        definition,
        classification: classification,
      }
    },
    facts: () => ({}),
    seen: () => undefined,
    log: silentLog,
  })
  records.onChange((upstream) => changed.push(upstream))
  const names = async () => (await records.of('one')).tools.map(({ entry }) => entry.name)
  return { state, records, changed, names }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('server records', () => {
  test('concurrent callers share one listing, and a fresh record is returned synchronously', async () => {
    const { state, records, names } = bench()
    expect(records.last('one')).toBeUndefined()
    expect(await Promise.all([names(), names()])).toEqual([['a'], ['a']])
    state.tools = ['a', 'b']
    await vi.advanceTimersByTimeAsync(9000)
    expect(records.of('one')).not.toBeInstanceOf(Promise)
    expect(state.asked).toBe(1)
  })

  test('a stale record is returned while it is refreshed, and listeners are notified only of changes', async () => {
    const { state, changed, names } = bench()
    await names()
    await vi.advanceTimersByTimeAsync(10_001)
    await names()
    await vi.advanceTimersByTimeAsync(1)
    expect(changed).toEqual([])
    state.tools = ['a', 'b']
    await vi.advanceTimersByTimeAsync(10_001)
    expect(await names()).toEqual(['a'])
    await vi.advanceTimersByTimeAsync(1)
    expect(await names()).toEqual(['a', 'b'])
    expect(changed).toEqual(['one'])
  })

  test('repeated change notifications of a server cause one refresh', async () => {
    const { state, records, changed, names } = bench()
    await names()
    state.tools = ['b']
    for (let index = 0; index < 10; index++) records.renew('one')
    await vi.advanceTimersByTimeAsync(999)
    expect(state.asked).toBe(1)
    await vi.advanceTimersByTimeAsync(1)
    expect(state.asked).toBe(2)
    expect(changed).toEqual(['one'])
  })

  test('the record of an unavailable server is kept, and the server is retried after a delay', async () => {
    const { state, records, names } = bench()
    await names()
    state.problem = 'away'
    expect(await records.of('one')).toMatchObject({ isUp: false, tools: [{ alias: 'x_a' }] })
    await vi.advanceTimersByTimeAsync(29_000)
    expect(await names()).toEqual(['a'])
    expect(state.asked).toBe(1)
    await vi.advanceTimersByTimeAsync(2000)
    await names()
    expect(state.asked).toBe(2)
  })

  test('a server whose first lists failed while it could be reached is listed again soon, and listeners hear of it', async () => {
    const { state, changed, names } = bench()
    state.fails = true
    expect(await names()).toEqual([])
    state.fails = false
    await vi.advanceTimersByTimeAsync(1001)
    expect(await names()).toEqual(['a'])
    expect(changed).toEqual(['one'])
  })

  test('the record of a server that does not list within the timeout is empty', async () => {
    const { state, records } = bench()
    state.isSilent = true
    const found = records.of('one')
    await vi.advanceTimersByTimeAsync(5000)
    expect(await found).toMatchObject({ isUp: false, tools: [], contentVersion: '' })
  })
})
