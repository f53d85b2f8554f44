import { expect, test, vi } from 'vitest'
import { createCallStatistics } from '../../../src/catalog/server-records.ts'
import type { Outcome } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { Payload } from '../../../src/core/payload.ts'
import { toolCall } from '../../support/tool-call.ts'

const target = { method: 'tools/call', upstream: 'one', name: 't' }
const classification = { op: 'read', risk: 'safe', idempotent: true, evidence: [] } as const
const entry: Descriptor = {
  upstream: 'one',
  kind: 'tool',
  name: 't',
  definition: { name: 't' },
  classification: classification,
}

/** Makes calls with the given durations in milliseconds and the given result. */
async function sightingsOf(durations: readonly number[], fields: Readonly<Record<string, unknown>>) {
  vi.useFakeTimers({ toFake: ['performance'] })
  try {
    const callStatistics = createCallStatistics()
    let next = 0
    const outcome: Outcome = { kind: 'result', result: Payload.of(fields) }
    const handle = callStatistics.middleware(target)?.(async () => {
      vi.advanceTimersByTime(durations[next] ?? 0)
      return outcome
    })
    for (; next < durations.length; next++) expect(await handle?.(toolCall())).toBe(outcome)
    return callStatistics.of(entry)
  } finally {
    vi.useRealTimers()
  }
}

test('the median latency of a tool is reported from its fifth call on', async () => {
  expect(await sightingsOf([10, 10, 10, 10], {})).not.toHaveProperty('p50')
  expect(await sightingsOf([9000, 20, 10, 30, 40], {})).toMatchObject({ p50: 30 })
  const many = Array.from({ length: 300 }, (_, index) => (index < 100 ? 5000 : 7))
  expect(await sightingsOf(many, {})).toMatchObject({ p50: 7 })
})

test('call statistics contain the media types of results and whether results are paginated', async () => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'image', mimeType: 'image/png', data: '' },
  ]
  const structuredContent = { items: [], next_cursor: 'x' }
  expect(await sightingsOf([1], { content, structuredContent })).toMatchObject({
    types: ['application/json', 'image/png', 'text/plain'],
    hasCursor: true,
  })
})

test('failed calls do not count towards the media types of results', async () => {
  const failed = { isError: true, content: [{ type: 'text', text: 'no' }] }
  expect(await sightingsOf([1], failed)).toMatchObject({ types: [] })
})

test('no statistics are kept for calls without a server response or for built-ins', async () => {
  const callStatistics = createCallStatistics()
  const handle = callStatistics.middleware(target)?.(() => Promise.reject(new Error('unknown')))
  await expect(handle?.(toolCall())).rejects.toThrow('unknown')
  expect(callStatistics.of(entry)).toBeUndefined()
  expect(callStatistics.middleware({ ...target, isBuiltin: true })).toBeUndefined()
})

test('after its first calls a tool is measured by a sample of calls of every kind', async () => {
  const before = Array.from({ length: 500 }, () => 90)
  const later = Array.from({ length: 2000 }, (_, index) => (index % 4 === 3 ? 50 : 10))
  expect(await sightingsOf([...before, ...later], {})).toMatchObject({ p50: 10 })
})
