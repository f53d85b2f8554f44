import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { untilAborted, within } from '../../../../src/core/time/waiting.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const never = new Promise<string>(() => undefined)

describe('waiting until a call is given up', () => {
  it('gives what there is in time', async () => {
    const { signal } = new AbortController()
    expect(await untilAborted(Promise.resolve('there'), signal)).toBe('there')
    await expect(untilAborted(Promise.reject(new TypeError('no')), signal)).rejects.toThrow('no')
  })

  it('ends with the reason, also where that was there before', async () => {
    const controller = new AbortController()
    const waiting = untilAborted(never, controller.signal)
    controller.abort(new TypeError('over'))
    await expect(waiting).rejects.toThrow('over')
    await expect(untilAborted(never, controller.signal)).rejects.toThrow('over')
  })
})

describe('waiting for so long', () => {
  it('gives what there is in time', async () => {
    expect(await within(Promise.resolve('there'), 100, 'other')).toBe('there')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('gives the other value after that', async () => {
    const waiting = within(never, 100, 'other')
    await vi.advanceTimersByTimeAsync(100)
    expect(await waiting).toBe('other')
  })
})
