import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ProgressThrottle } from '../../../../src/downstream/session/response-sink.ts'
import type { Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function step(progress: number): Notification {
  return { method: 'notifications/progress', params: Payload.of({ progress }) }
}

function paced(): { readonly pace: ProgressThrottle; steps(): unknown[] } {
  const heard: Notification[] = []
  const pace = new ProgressThrottle((note) => void heard.push(note))
  return { pace, steps: () => heard.map(({ method, params }) => params?.fields.progress ?? method) }
}

describe('progress notifications of a call', () => {
  it('C116 a burst passes, and then the latest progress of each interval', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 50; value++) pace.emit(step(value))
    expect(steps()).toEqual(Array.from({ length: 10 }, (_each, index) => index + 1))
    vi.advanceTimersByTime(150)
    expect(steps().slice(10)).toEqual([50])
    for (let second = 0; second < 10; second++) {
      for (let value = 0; value < 100; value++) pace.emit(step(100 + second * 100 + value))
      vi.advanceTimersByTime(1000)
    }
    expect(steps().length).toBeLessThan(11 + 10 * 20)
  })

  it('C116 slow progress is not throttled', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 100; value++) {
      pace.emit(step(value))
      vi.advanceTimersByTime(110)
    }
    expect(steps()).toHaveLength(100)
  })

  it('the last progress is sent before the response and none after it', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 50; value++) pace.emit(step(value))
    pace.end()
    expect(steps().at(-1)).toBe(50)
    pace.emit(step(51))
    vi.advanceTimersByTime(10_000)
    expect(steps().at(-1)).toBe(50)
  })

  it('C115 no pending progress is sent for a failed call', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 50; value++) pace.emit(step(value))
    pace.stop()
    vi.advanceTimersByTime(10_000)
    expect(steps()).toHaveLength(10)
  })

  it('progress that must arrive is never dropped or delayed, and pending progress does not follow it', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 50; value++) pace.emit(step(value))
    for (let value = 51; value <= 90; value++) pace.emit({ ...step(value), mustArrive: true })
    expect(steps().slice(10)).toEqual(Array.from({ length: 40 }, (_each, index) => 51 + index))
    vi.advanceTimersByTime(10_000)
    expect(steps()).toHaveLength(50)
  })

  it('other notifications are not delayed', () => {
    const { pace, steps } = paced()
    for (let value = 1; value <= 30; value++) pace.emit(step(value))
    pace.emit({ method: 'notifications/message' })
    expect(steps().at(-1)).toBe('notifications/message')
  })
})
