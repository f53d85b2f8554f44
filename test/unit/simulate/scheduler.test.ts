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

test('a process that stands still runs all that was due in the meantime once it continues, in order', async () => {
  const scheduler = new Scheduler()
  const [still, other] = [scheduler.process('still'), scheduler.process('other')]
  const seen: string[] = []
  const note = (name: string) => () => void seen.push(`${name} at ${scheduler.time}`)
  scheduler.after(still, 10, 'one', note('one'))
  scheduler.after(still, 20, 'two', note('two'))
  scheduler.after(other, 15, 'other', note('other'))
  scheduler.after(still, 40, 'three', note('three'))
  still.stoppedUntil = 30
  while (await scheduler.step());
  expect(seen).toEqual(['other at 15', 'one at 30', 'two at 30', 'three at 40'])
})

test('what ends a turn of the event loop runs in the same event, after all else, even if its process has ended', async () => {
  const scheduler = new Scheduler()
  const process = scheduler.process('gateway')
  const seen: string[] = []
  scheduler.after(process, 1, 'event', () => {
    scheduler.atEndOfTurn(() => seen.push('end of turn'))
    process.isAlive = false
    void Promise.resolve().then(() => seen.push('promise'))
  })
  await scheduler.step()
  expect(seen).toEqual(['promise', 'end of turn'])
})
