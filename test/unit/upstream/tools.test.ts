import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ToolIndex } from '../../../src/upstream/tools.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a list of tools that is refused', () => {
  it.each([
    ['by an error', async () => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'no'))],
    ['by something that is no list', async () => Payload.of({ content: [] })],
  ])('%s is not asked for again at every call', async (_how, answer) => {
    const list = vi.fn<() => Promise<Payload>>(answer)
    const tools = new ToolIndex(list)
    for (let call = 0; call < 3; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(11_000)
    await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('for a lost connection is asked for again', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const list = vi.fn<() => Promise<Payload>>(() => Promise.reject(lost))
    const tools = new ToolIndex(list)
    for (let call = 0; call < 2; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })
})
