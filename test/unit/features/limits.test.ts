import { deadlineSlot } from '../../../src/core/slot.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Handler } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { UpstreamSettings } from '../../../src/core/settings.ts'
import { limits } from '../../../src/features/limits.ts'
import { featureDeps } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const target = { method: 'tools/call', upstream: 'one', name: 't' }

function callWith(controller: AbortController): Call {
  return toolCall({ signal: controller.signal, abort: (reason) => controller.abort(reason) })
}

/** A server that never responds and ends when the call is aborted. */
const hanging: Handler = ({ signal }) =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

function limited(next: Handler): Handler {
  const policy = limits.create(() => ({ timeout: 1000, max_timeout: 3000 }), featureDeps()).calls?.middleware
  return policy?.(target)?.(next) ?? next
}

describe('the deadline of a call', () => {
  it('a silent call is ended and the server is notified', async () => {
    const controller = new AbortController()
    const ended = limited(hanging)(callWith(controller)).catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(1200)
    expect(await ended).toMatchObject({ code: 'OPERATION_TIMEOUT' })
    expect(controller.signal.reason).toBeInstanceOf(GatewayError)
  })

  it.each([
    ['progress notification', (call: Call) => call.emit({ method: 'notifications/progress' })],
    ['request of a layer that makes several', (call: Call) => deadlineSlot.of(call)?.renew()],
  ])('each %s extends the deadline, up to the maximum duration', async (_what, extend) => {
    let isOver = false
    const active: Handler = (call) => {
      const timer = setInterval(() => extend(call), 500)
      call.signal.addEventListener('abort', () => clearInterval(timer))
      return hanging(call)
    }
    const ended = limited(active)(callWith(new AbortController())).catch((error: unknown) => {
      isOver = true
      return error
    })
    await vi.advanceTimersByTimeAsync(2800)
    expect(isOver).toBe(false)
    await vi.advanceTimersByTimeAsync(400)
    expect(await ended).toMatchObject({ code: 'OPERATION_TIMEOUT' })
  })

  it('the deadline is paused while input is pending and restarts afterwards', async () => {
    const controller = new AbortController()
    let wakes: readonly ((() => void) | undefined)[] = []
    const asking: Handler = (call) => {
      wakes = [deadlineSlot.of(call)?.pause(), deadlineSlot.of(call)?.pause()]
      return hanging(call)
    }
    const ended = limited(asking)(callWith(controller)).catch((error: unknown) => error)
    const [one, other] = wakes
    for (const end of [undefined, one, one]) {
      end?.()
      await vi.advanceTimersByTimeAsync(60_000)
      expect(controller.signal.aborted).toBe(false)
    }
    other?.()
    await vi.advanceTimersByTimeAsync(800)
    expect(controller.signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(400)
    expect(await ended).toMatchObject({ code: 'OPERATION_TIMEOUT' })
  })

  it('the deadline ends with the call', async () => {
    const controller = new AbortController()
    const done: Handler = async () => ({ kind: 'result', result: Payload.of({}) })
    await limited(done)(callWith(controller))
    await vi.advanceTimersByTimeAsync(5000)
    expect(controller.signal.aborted).toBe(false)
  })

  it('C190 the deadline is that of the tool if it has one', async () => {
    const controller = new AbortController()
    const server = () => ({ tools: { 't*': { timeout: 5000 } } }) as unknown as UpstreamSettings
    const policy = limits.create(() => ({ timeout: 1000, max_timeout: 3000 }), featureDeps({ server })).calls
      ?.middleware
    const handle = policy?.(target)?.(hanging) ?? hanging
    const ended = handle(callWith(controller)).catch((error: unknown) => error)
    await vi.advanceTimersByTimeAsync(4800)
    expect(controller.signal.aborted).toBe(false)
    await vi.advanceTimersByTimeAsync(400)
    expect(await ended).toMatchObject({ code: 'OPERATION_TIMEOUT', rpc: -32004, httpStatus: 504 })
  })

  it('long-lived methods have no deadline', () => {
    const policy = limits.create(() => ({ timeout: 1000, max_timeout: 3000 }), featureDeps()).calls
      ?.middleware
    expect(policy?.({ method: 'subscriptions/listen', upstream: 'one' })).toBeUndefined()
  })
})
