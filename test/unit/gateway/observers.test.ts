import { expect, it } from 'vitest'
import { createObserving, timed } from '../../../src/gateway/observers.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { silentLog } from '../../support/silent-log.ts'

const view = {
  upstreams: () => new Map(),
  isOwnMethod: () => false,
  operations: () => ({}),
  pendingApprovals: async () => 0,
  deadLetters: async () => 0,
  references: async () => undefined,
  sessions: () => 0,
}

it('store operations are timed, synchronous or not, and otherwise unchanged', async () => {
  const observing = createObserving(silentLog, view)
  const store = timed(new MemoryStore(), observing)
  await store.put('key', 'value', 1000)
  expect(await store.get('key')).toBe('value')
  expect(store.takeTokens([{ key: 'rate', limit: 2, window: 1000 }])).toMatchObject({ isGranted: true })
  expect(store.unavailableReason).toBeUndefined()
  const text = await observing.metrics.page().then(({ text }) => text)
  for (const operation of ['put', 'get', 'take'])
    expect(text).toContain(`gatehouse_store_seconds_count{operation="${operation}"} 1`)
})

it('metrics know the methods of the protocol and of features, and count all others together', async () => {
  const isOwnMethod = (name: string): boolean => name === 'own/method'
  const { metrics } = createObserving(silentLog, { ...view, isOwnMethod })
  for (const method of ['tools/list', 'own/method', 'vendor/method'])
    metrics.meter({ method, upstream: 'a' }).count('ok', 0, () => false)
  const text = await metrics.page().then(({ text }) => text)
  for (const method of ['tools/list', 'own/method', 'other'])
    expect(text).toContain(`gatehouse_calls_total{method="${method}",upstream="a",tool="",outcome="ok"} 1`)
})

it('the operations of the feature that runs them are reported by state', async () => {
  const operations = () => ({ working: 2, input_required: 1 })
  const text = await createObserving(silentLog, { ...view, operations })
    .metrics.page()
    .then(({ text }) => text)
  for (const line of ['{state="working"} 2', '{state="input_required"} 1'])
    expect(text).toContain(`gatehouse_operations${line}\n`)
})
