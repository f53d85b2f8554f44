import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { pause } from '../../../../src/core/time/waiting.ts'
import { RETAIN_INTERVAL_MS, repeatedly } from '../../../../src/features/events/follower.ts'
import { EventStream } from '../../../../src/features/events/sinks/stream.ts'
import { ACKNOWLEDGED } from '../../../../src/protocol/subscription-filter.ts'
import { closeAll, eventGateway, eventWorld } from '../../../support/event-clients.ts'
import { eventsGateway } from '../../../support/events-gateway.ts'

const HOUR = 3_600_000

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A server whose notifications the gateway listens to: the subscriptions that are open, and those that there were. */
function listenedServer() {
  const all: Call[] = []
  const relay: Handler = (call) => {
    all.push(call)
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: {} }) })
    return new Promise((_resolve, reject) => {
      call.signal.addEventListener('abort', () => reject(call.signal.reason))
    })
  }
  const open = (): readonly Call[] => all.filter(({ signal }) => !signal.aborted)
  const notify = (note: Notification): void => open().forEach((each) => each.emit(note))
  return { relay, all, open, notify }
}

const changed = { method: 'notifications/tools/list_changed' }

describe('the source of events', () => {
  it('stays open while a stream is, also if its client does not read', async () => {
    const server = listenedServer()
    const { stream } = eventsGateway({ relay: server.relay })
    const drained = (): Promise<void> => new Promise(() => undefined)
    const { sent, close } = stream({ name: 'tools_changed' }, { drained })
    await vi.advanceTimersByTimeAsync(1000)
    server.notify(changed)
    await vi.advanceTimersByTimeAsync(HOUR)
    expect(sent.map(({ what }) => what)).toEqual(['active', 'event'])
    expect(server.open()).toHaveLength(1)
    expect(server.all).toHaveLength(1)
    close()
  })

  it('ends with its stream, also if the client does not read, when another configuration is loaded', async () => {
    const server = listenedServer()
    const { stream, instance } = eventsGateway({ relay: server.relay })
    const drained = (): Promise<void> => new Promise(() => undefined)
    const { ended } = stream({ name: 'tools_changed' }, { drained })
    await vi.advanceTimersByTimeAsync(1000)
    server.notify(changed)
    await vi.advanceTimersByTimeAsync(1000)
    await instance.close?.()
    expect(await ended).toEqual({})
    expect(server.open()).toHaveLength(0)
  })

  it('is closed some time after the last stream', async () => {
    const server = listenedServer()
    const { stream } = eventsGateway({ relay: server.relay })
    const { close } = stream({ name: 'tools_changed' })
    await vi.advanceTimersByTimeAsync(1000)
    close()
    await vi.advanceTimersByTimeAsync(HOUR)
    expect(server.open()).toHaveLength(0)
  })

  it('stays open while a subscription lasts that nobody polls, and is opened again after a restart', async () => {
    const world = eventWorld()
    const server = listenedServer()
    const first = eventGateway(world, { relay: server.relay })
    await first.instance.start?.()
    await first.subscribe({ events: ['tools_changed'], ttl_seconds: 7200 })
    await vi.advanceTimersByTimeAsync(HOUR)
    expect(server.all).toHaveLength(1)
    expect(server.open()).toHaveLength(1)
    await closeAll([first.instance])
    expect(server.open()).toHaveLength(0)
    const second = eventGateway(world, { relay: server.relay })
    await second.instance.start?.()
    await vi.advanceTimersByTimeAsync(RETAIN_INTERVAL_MS)
    expect(server.open()).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(2 * HOUR)
    expect(server.open()).toHaveLength(0)
    await closeAll([second.instance])
  })

  it('is kept open by one call at a time', async () => {
    const controller = new AbortController()
    const { promise, resolve } = Promise.withResolvers<void>()
    let calls = 0
    const keep = (): Promise<void> => (++calls === 1 ? promise : Promise.resolve())
    repeatedly(keep, RETAIN_INTERVAL_MS, controller.signal)
    const counts: number[] = []
    for (const before of [() => undefined, resolve, () => controller.abort()]) {
      before()
      await vi.advanceTimersByTimeAsync(3 * RETAIN_INTERVAL_MS)
      counts.push(calls)
    }
    expect(counts).toEqual([1, 4, 4])
  })

  it('is kept open at the next interval if that failed', async () => {
    const controller = new AbortController()
    let calls = 0
    const keep = async (): Promise<void> => {
      if (++calls === 1) throw new Error('full')
    }
    repeatedly(keep, RETAIN_INTERVAL_MS, controller.signal)
    await vi.advanceTimersByTimeAsync(3 * RETAIN_INTERVAL_MS)
    controller.abort()
    expect(calls).toBe(3)
  })

  it('that cannot be kept open any more is reported once, and when it fails again', async () => {
    let isFailing = false
    const sent: string[] = []
    const controller = new AbortController()
    const { signal } = controller
    const stream = new EventStream({
      follower: {
        positions: {},
        read: async () => ({ start: {}, isGap: false, hasMore: false }),
        take: () => undefined,
        changed: () => pause(1000, signal).catch(() => undefined),
        retain: () => (isFailing ? Promise.reject(new Error('full')) : Promise.resolve()),
      },
      client: {},
      signal,
      isTruncated: false,
      send: ({ kind }) => void sent.push(kind),
      ended: async () => undefined,
    })
    const running = stream.run()
    const errors = () => sent.filter((kind) => kind === 'error').length
    const outages: number[] = []
    for (const state of [true, false, true]) {
      isFailing = state
      await vi.advanceTimersByTimeAsync(60_000)
      outages.push(errors())
    }
    controller.abort()
    await running
    expect(outages).toEqual([1, 1, 2])
  })
})
