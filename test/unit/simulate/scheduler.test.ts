import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Scheduler } from '../../simulate/scheduler.ts'

/** The order in which two works outside of the simulation, and a promise inside of it, are seen to end in one event. */
async function orderOf(works: readonly (() => Promise<unknown>)[]): Promise<readonly string[]> {
  const scheduler = new Scheduler()
  const order: string[] = []
  const process = scheduler.process('gateway')
  scheduler.after(process, 1, 'both', () => {
    works.forEach((work, index) => void scheduler.elsewhere(work).then(() => order.push(`work ${index}`)))
    void (async () => {
      for (let turns = 0; turns < 20; turns++) await Promise.resolve()
      order.push('inside')
    })()
  })
  expect(await scheduler.step()).toBe(true)
  return order
}

test('works outside of a simulation end in the order in which they began, however long they take', async () => {
  const [slow, quick] = [() => pause(30), () => pause(1)]
  const expected = ['inside', 'work 0', 'work 1']
  expect(await orderOf([slow, quick])).toEqual(expected)
  expect(await orderOf([quick, slow])).toEqual(expected)
  const done = async (): Promise<void> => {}
  expect(await orderOf([done, slow])).toEqual(expected)
  expect(await orderOf([slow, done])).toEqual(expected)
})

test('a work that fails does not keep the next one from being done', async () => {
  const scheduler = new Scheduler()
  const process = scheduler.process('gateway')
  const seen: unknown[] = []
  scheduler.after(process, 1, 'both', () => {
    const failing = scheduler.elsewhere(() => Promise.reject(new Error('no')))
    failing.catch((error: unknown) => seen.push(String(error)))
    void scheduler.elsewhere(async () => 'yes').then((value) => seen.push(value))
  })
  await scheduler.step()
  expect(seen).toEqual(['Error: no', 'yes'])
})
