import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Log } from '../../../../src/core/log.ts'
import { WrittenRecords } from '../../../../src/durable/bounds.ts'
import { History } from '../../../../src/features/undo/history.ts'
import { type Action, Actions, newActionKey } from '../../../../src/records/actions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const DAY = 86_400_000

function deed(number: number, caller = 'alice'): Action {
  return {
    key: newActionKey(Date.now() + number),
    startedAt: Date.now() + number,
    principal: { id: caller },
    upstream: 'one',
    tool: 't',
    arguments: { number },
    status: 'ok',
    way: { kind: 'none', reason: 'none' },
  }
}

function historyIn(store: MemoryStore, written?: WrittenRecords) {
  const warnings: string[] = []
  const log: Log = { ...silentLog, warn: (event) => void warnings.push(event) }
  const deeds = new Actions(store)
  return { deeds, warnings, history: new History(deeds, log, written) }
}

test('actions are written together, at most 50 ms later', async () => {
  const store = new MemoryStore()
  const putAll = vi.spyOn(store, 'putAll')
  const { deeds, history } = historyIn(store)
  for (let number = 0; number < 20; number++) history.add(deed(number), DAY)
  await vi.advanceTimersByTimeAsync(49)
  expect(putAll).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(putAll).toHaveBeenCalledTimes(1)
  expect(await deeds.list()).toHaveLength(20)
})

test('close flushes pending actions without waiting for a store that does not respond', async () => {
  const store = new MemoryStore()
  const { deeds, history } = historyIn(store)
  history.add(deed(1), DAY)
  await history.close()
  expect(await deeds.list()).toHaveLength(1)
  store.putAll = () => new Promise(() => undefined)
  history.add(deed(2), DAY)
  const closed = vi.fn<() => void>()
  void history.close().then(closed)
  await vi.advanceTimersByTimeAsync(2000)
  expect(closed).toHaveBeenCalled()
})

test('beyond the quota the oldest action of a caller is evicted, and recording continues', async () => {
  const { deeds, history, warnings } = historyIn(
    new MemoryStore(),
    new WrittenRecords({ keys: 100, bytes: Infinity }, { keys: 3, bytes: 1e6 }),
  )
  for (let number = 0; number < 10; number++) {
    history.add(deed(number), DAY)
    if (number % 4 === 0) await history.flush()
  }
  history.add(deed(0, 'bob'), DAY)
  await history.flush()
  const left = await deeds.list()
  expect(
    left.map(({ principal, arguments: args }) => `${principal.id} ${String(args.number)}`).toSorted(),
  ).toEqual(['alice 7', 'alice 8', 'alice 9', 'bob 0'])
  expect(warnings).toEqual([])
})

test('actions that the store refused take no place of later ones', async () => {
  const store = new MemoryStore()
  const written = new WrittenRecords({ keys: 100, bytes: Infinity }, { keys: 3, bytes: 1e6 })
  const { deeds, history } = historyIn(store, written)
  const { putAll } = store
  store.putAll = () => Promise.reject(new Error('away'))
  for (const number of [1, 2, 3]) history.add(deed(number), DAY)
  await history.flush()
  store.putAll = putAll
  for (const number of [4, 5, 6]) {
    history.add(deed(number), DAY)
    await history.flush()
  }
  expect((await deeds.list()).map(({ arguments: { number } }) => number)).toEqual([6, 5, 4])
})

test('a failing or slow store is reported once until it recovers', async () => {
  const store = new MemoryStore()
  const { putAll } = store
  store.putAll = () => Promise.reject(new Error('away'))
  const { history, warnings } = historyIn(store)
  for (let number = 0; number < 3; number++) {
    history.add(deed(number), DAY)
    await history.flush()
  }
  expect(warnings).toEqual(['undo.history_lost'])
  store.putAll = putAll
  history.add(deed(4), DAY)
  await history.flush()
  store.putAll = () => new Promise(() => undefined)
  for (let number = 0; number < 5000; number++) history.add(deed(number), DAY)
  expect(warnings).toEqual(['undo.history_lost', 'undo.history_lost'])
})

test('pending actions are limited in size too', async () => {
  const store = new MemoryStore()
  store.putAll = () => new Promise(() => undefined)
  const { history, warnings } = historyIn(store)
  const long = 'x'.repeat(1_000_000)
  for (let number = 0; number < 60; number++) history.add({ ...deed(number), arguments: { long } }, DAY)
  // An action being written counts by its size.
  void history.flush()
  await vi.advanceTimersByTimeAsync(100)
  expect(warnings).toEqual([])
  for (let number = 0; number < 20; number++) history.add({ ...deed(number), arguments: { long } }, DAY)
  expect(warnings).toEqual(['undo.history_lost'])
})
