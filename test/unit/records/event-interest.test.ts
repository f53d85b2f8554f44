import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { EventInterest } from '../../../src/records/event-interest.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { until } from '../../support/condition.ts'

let now = 0
let store = new MemoryStore()
beforeEach(() => {
  now = 1_000_000
  store = new MemoryStore(() => now)
})
afterEach(() => {
  vi.restoreAllMocks()
})

const keep = 60_000

/** The interest in one log, as another process sees it each time. */
function interest(): EventInterest {
  return new EventInterest(store, 'a log', keep, true)
}

const nothing = async (): Promise<void> => undefined

describe('the interest in events', () => {
  it('is there for every process, also one that has just seen that there is none, once it was declared', async () => {
    const [reader, writer] = [interest(), interest()]
    let isDeclared = false
    const missed: number[] = []
    const looking = (async () => {
      for (let look = 0; ; look++) {
        const wasDeclared = isDeclared
        const isThere = await writer.isThere()
        if (wasDeclared) {
          if (!isThere) missed.push(look)
          return
        }
        await new Promise((resolve) => setImmediate(resolve))
      }
    })()
    expect(await interest().isThere()).toBe(false)
    await reader.declare(nothing)
    isDeclared = true
    await looking
    expect(missed).toEqual([])
  })

  it('begins once for readers in several processes that declare it at the same time', async () => {
    let begun = 0
    const begin = async (): Promise<void> => void begun++
    const declared = [interest(), interest(), interest()].map(async (each) => {
      await each.declare(begin)
      return begun
    })
    expect(await Promise.all(declared)).toEqual([1, 1, 1])
    await interest().declare(begin)
    expect(begun).toBe(1)
  })

  it('begins before any reader goes on', async () => {
    const goOn = Promise.withResolvers<void>()
    const reached = Promise.withResolvers<void>()
    const first = interest().declare(() => {
      reached.resolve()
      return goOn.promise
    })
    await reached.promise
    let isOver = false
    const second = interest()
      .declare(nothing)
      .then(() => (isOver = true))
    expect(await interest().isThere()).toBe(true)
    expect(isOver).toBe(false)
    goOn.resolve()
    await Promise.all([first, second])
  })

  it('is taken over from a process that ended before it had begun', async () => {
    let begun = 0
    const ended = new Promise<void>(() => undefined)
    void interest().declare(() => ended)
    await until(() => interest().isThere(), 'the first process to set the marker')
    // It has not renewed its lease.
    now += 3000
    await interest().declare(async () => void begun++)
    expect(begun).toBe(1)
  })

  it('lasts for as long as a position is of use, ends after that, and begins again', async () => {
    let begun = 0
    const begin = async (): Promise<void> => void begun++
    await interest().declare(begin)
    now += keep
    expect(await interest().isThere()).toBe(true)
    now += keep + 60_000
    expect(await interest().isThere()).toBe(false)
    await interest().declare(begin)
    expect(begun).toBe(2)
  })

  it('is declared again if the store has lost it', async () => {
    const reader = interest()
    await reader.declare(nothing)
    await store.close()
    let begun = 0
    await expect
      .poll(async () => {
        await reader.declare(async () => void begun++)
        return begun
      })
      .toBe(1)
  })

  it('costs a reader that goes on no write, and no read more than a few times a second', async () => {
    const reader = interest()
    await reader.declare(nothing)
    const writes = [vi.spyOn(store, 'compareAndSwap'), vi.spyOn(store, 'setIfAbsent'), vi.spyOn(store, 'put')]
    const reads = vi.spyOn(store, 'get')
    const began = performance.now()
    for (let index = 0; index < 1000; index++) await reader.declare(nothing)
    const quarters = Math.ceil((performance.now() - began) / 250)
    for (const each of writes) expect(each).not.toHaveBeenCalled()
    expect(reads.mock.calls.length).toBeLessThanOrEqual(quarters)
  })

  it('is assumed by a process that waited so long for the store that it can have been declared meanwhile', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    vi.spyOn(store, 'get').mockImplementation(async () => {
      vi.advanceTimersByTime(400)
      return undefined
    })
    expect(await interest().isThere()).toBe(true)
    vi.useRealTimers()
  })
})
