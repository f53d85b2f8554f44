import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { untilAborted, within } from '../../../../src/core/time/waiting.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const never = new Promise<string>(() => undefined)

describe('untilAborted', () => {
  it('untilAborted settles like the promise if it settles first', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(Promise.resolve('there'), signal)).toBe('there')
    await expect(untilAborted(Promise.reject(new TypeError('no')), signal)).rejects.toThrow('no')
  })

  it('untilAborted rejects with the reason, even if already aborted', async () => {
    const controller = new AbortController()
    const waiting = untilAborted(never, controller.signal)
    controller.abort(new TypeError('over'))
    await expect(waiting).rejects.toThrow('over')
    await expect(untilAborted(never, controller.signal)).rejects.toThrow('over')
  })
})

describe('within', () => {
  it('within resolves to the value of a promise that settles in time', async () => {
    expect(await within(Promise.resolve('there'), 100, 'other')).toBe('there')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('within resolves to the fallback after the timeout', async () => {
    const waiting = within(never, 100, 'other')
    await vi.advanceTimersByTimeAsync(100)
    expect(await waiting).toBe('other')
  })
})
