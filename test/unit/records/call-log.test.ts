import { beforeEach, describe, expect, it } from 'vitest'
import { openLog } from '../../../src/observability/log.ts'
import type { LoggedCall } from '../../../src/core/logged-call.ts'
import { world } from '../../../src/core/world.ts'
import { CallLog, CallLogWriter } from '../../../src/records/call-log.ts'
import { everyCall, readQuery } from '../../../src/records/call-query.ts'
import { CallRates, MINUTE_MS, quantile, seriesOf, sumOf } from '../../../src/records/call-rates.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

const START = Date.parse('2026-11-21T10:00:00Z')
const bounds = { maxCalls: 10_000, ttl: 86_400_000, maxContentBytes: 1_000_000, contentTtl: 3_600_000 }
let now = START
let store = new MemoryStore()

beforeEach(() => {
  now = START
  store = new MemoryStore(() => now)
})

function call(number: number, fields: Partial<LoggedCall> = {}): LoggedCall {
  return {
    at: START + number * 1000,
    ms: number,
    end: 'ok',
    id: `r${number}`,
    who: number % 2 === 0 ? 'anna' : 'ben',
    method: 'tools/call',
    name: `tool_${number % 3}`,
    in: 10,
    ...fields,
  }
}

async function logOf(count: number, batch: number): Promise<CallLog> {
  const log = new CallLog(store, bounds)
  for (let at = 0; at < count; at += batch)
    await log.append(Array.from({ length: Math.min(batch, count - at) }, (_each, index) => call(at + index)))
  return log
}

function query(text: string) {
  const read = readQuery(text, now)
  if ('problem' in read) throw new Error(read.problem)
  return read
}

describe('the log of calls', () => {
  it.for([1, 7, 100])(
    'gives calls newest first, in pages without repetitions, appended by %i',
    async (batch) => {
      const log = await logOf(100, batch)
      const ids: string[] = []
      let before: string | undefined
      do {
        const page = await log.search(everyCall, 30, before)
        ids.push(...page.calls.map((each) => each.call.id))
        before = page.next
      } while (before !== undefined)
      expect(ids).toEqual(Array.from({ length: 100 }, (_each, index) => `r${99 - index}`))
    },
  )

  it('finds calls by a query, over pages', async () => {
    const log = await logOf(200, 9)
    const first = await log.search(query('user:anna tool:tool_1'), 20)
    const second = await log.search(query('user:anna tool:tool_1'), 20, first.next)
    const numbers = [...first.calls, ...second.calls].map(({ call: { ms } }) => ms)
    const expected = Array.from({ length: 200 }, (_each, index) => 199 - index).filter(
      (each) => each % 6 === 4,
    )
    expect(numbers).toEqual(expected)
    expect(second.next).toBeUndefined()
  })

  it('has no next page where nothing else matches', async () => {
    const log = await logOf(3, 1)
    expect(await log.search(everyCall, 3)).not.toHaveProperty('next')
  })

  it('stops at calls that are older than the query asks for', async () => {
    const log = await logOf(1000, 1)
    let reads = 0
    const get = store.get.bind(store)
    store.get = (key) => {
      reads++
      return get(key)
    }
    now = START + 1000 * 1000
    expect((await log.search(query('since:10s'), 100)).calls).toHaveLength(10)
    expect((await log.search(query('since:10s tool:unknown'), 100)).calls).toHaveLength(0)
    expect(reads).toBeLessThan(400)
  })

  it('finds one call, and what is kept of its arguments and its result', async () => {
    const log = await logOf(50, 8)
    await log.keep([
      { id: 'r7', who: 'anna', arguments: '{"id":"r8"}', result: '{"a":1}' },
      { id: 'r8', who: 'anna' },
    ])
    expect(await log.find('r7')).toEqual(call(7))
    expect(await log.contentOf('r7')).toEqual({ arguments: '{"id":"r8"}', result: '{"a":1}' })
    expect(await log.contentOf('r8')).toEqual({})
    expect(await log.find('r99')).toBeUndefined()
  })

  it('leaves out what is no call', async () => {
    const log = await logOf(2, 1)
    await log.append([null, 7, { at: 1 }, { at: 'x', ms: 1, end: 'ok' }] as unknown as LoggedCall[])
    await log.append([call(3)])
    expect((await log.search(everyCall, 10)).calls.map((each) => each.call.id)).toEqual(['r3', 'r1', 'r0'])
  })

  it('drops the oldest calls beyond its bounds', async () => {
    const log = new CallLog(store, { ...bounds, maxCalls: 20 })
    for (let number = 0; number < 50; number++) await log.append([call(number)])
    const { calls } = await log.search(everyCall, 100)
    expect(calls).toHaveLength(20)
    expect(calls.at(-1)?.call.id).toBe('r30')
  })

  it('can be followed', async () => {
    const log = await logOf(5, 2)
    const end = await log.end()
    expect((await log.after(end, 10)).calls).toEqual([])
    await log.append([call(6), call(7)])
    const page = await log.after(end, 10)
    expect(page.calls.map(({ id }) => id)).toEqual(['r6', 'r7'])
    expect((await log.after(page.cursor, 10)).calls).toEqual([])
  })
})

describe('what writes to the log of calls', () => {
  const reports = openLog('error', { log: () => undefined, stderr: {} }, false)

  it('writes calls that come together in one batch, with their contents', async () => {
    const log = new CallLog(store, bounds)
    const writer = new CallLogWriter(() => log, reports)
    writer.add(call(1), { arguments: '{}' })
    writer.add(call(2))
    expect((await log.search(everyCall, 10)).calls).toEqual([])
    await writer.close()
    expect((await log.search(everyCall, 10)).calls.map((each) => each.call.id)).toEqual(['r2', 'r1'])
    expect(await log.contentOf('r1')).toEqual({ arguments: '{}' })
  })

  it('writes what is kept of a call before the call can be found', async () => {
    const log = new CallLog(store, bounds)
    const writer = new CallLogWriter(() => log, reports)
    const keep = log.keep.bind(log)
    const before: unknown[] = []
    log.keep = async (contents) => {
      before.push((await log.search(everyCall, 10)).calls)
      await keep(contents)
    }
    writer.add(call(1), { arguments: '{}' })
    await writer.close()
    expect(before).toEqual([[]])
    expect((await log.search(everyCall, 10)).calls.map((each) => each.call.id)).toEqual(['r1'])
  })

  it('writes calls once whose contents together are larger than all that is kept', async () => {
    const log = new CallLog(store, { ...bounds, maxContentBytes: 100 })
    const writer = new CallLogWriter(() => log, reports)
    writer.add(call(1), { arguments: JSON.stringify('x'.repeat(100)) })
    await writer.close()
    await writer.close()
    expect((await log.search(everyCall, 10)).calls.map((each) => each.call.id)).toEqual(['r1'])
  })

  it('keeps calls while the store is away, and writes them once it is back', async () => {
    const log = new CallLog(store, bounds)
    const writer = new CallLogWriter(() => log, reports)
    const setIfAbsent = store.setIfAbsent.bind(store)
    store.setIfAbsent = () => Promise.reject(new Error('away'))
    writer.add(call(1))
    await writer.close()
    store.setIfAbsent = setIfAbsent
    writer.add(call(2))
    await writer.close()
    expect((await log.search(everyCall, 10)).calls.map((each) => each.call.id)).toEqual(['r2', 'r1'])
  })

  it('keeps a bounded number of calls while the store is away, the latest', async () => {
    const log = new CallLog(store, { ...bounds, maxCalls: 100_000 })
    const writer = new CallLogWriter(() => log, reports)
    for (let number = 0; number < 10_500; number++) writer.add(call(number))
    await writer.close()
    const { calls } = await log.search(everyCall, 20_000)
    expect(calls).toHaveLength(10_000)
    expect(calls[0]?.call.id).toBe('r10499')
  })
})

describe('the rates of calls', () => {
  it('sums the calls of each minute and server, and adds those of other gateways', async () => {
    const [one, other] = [new CallRates(store), new CallRates(store)]
    for (const [rates, count] of [
      [one, 3],
      [other, 2],
    ] as const) {
      for (let number = 0; number < count; number++)
        expect(
          rates.count({ at: START + number, ms: 5, end: number === 0 ? 'failed' : 'ok', server: 'files' }),
        ).toBeUndefined()
      const minute = rates.count({ at: START + MINUTE_MS, ms: 700, end: 'denied' })
      if (!minute) throw new Error('no minute ended')
      await rates.append(minute)
    }
    const periods = await one.since(START)
    const series = seriesOf(periods, { from: START, until: START + 2 * MINUTE_MS, parts: 2 })
    expect(series).toMatchObject([
      { calls: 5, failed: 2, denied: 0 },
      { calls: 1, failed: 0, denied: 1 },
    ])
    const files = seriesOf(periods, { from: START, until: START + 2 * MINUTE_MS, parts: 1, server: 'files' })
    expect(files).toMatchObject([{ calls: 5 }])
    expect(await one.since(START + MINUTE_MS)).toHaveLength(1)
  })

  it('estimates durations within their bucket', () => {
    const rates = new CallRates(store)
    for (let number = 0; number < 100; number++)
      rates.count({ at: world.now(), ms: number < 90 ? 8 : 400, end: 'ok' })
    const sums = sumOf(Object.values(rates.present.servers))
    expect(quantile(sums, 0.5)).toBeGreaterThan(5)
    expect(quantile(sums, 0.5)).toBeLessThanOrEqual(10)
    expect(quantile(sums, 0.95)).toBeGreaterThan(250)
    expect(quantile(sums, 0.95)).toBeLessThanOrEqual(500)
    expect(quantile(sumOf([]), 0.5)).toBeUndefined()
  })
})
