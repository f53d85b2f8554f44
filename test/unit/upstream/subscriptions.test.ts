import { expect, it } from 'vitest'
import type { Notification, Outcome } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ACKNOWLEDGED } from '../../../src/protocol/subscription-filter.ts'
import type { UpstreamConnection } from '../../../src/upstream/protocol/connection.ts'
import { listenOn } from '../../../src/upstream/upstream.ts'
import type { UpstreamCall } from '../../../src/upstream/suspended-calls.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { silentLog } from '../../support/silent-log.ts'
import { toolCall } from '../../support/tool-call.ts'

const pass = fakeClock()
const lost = (): GatewayError => new GatewayError('SERVER_UNAVAILABLE', 'The connection was lost.')

/** Listens to a server whose subscriptions end as `open` does; what the subscriber hears, and how to leave. */
function listening(open: (notify: UpstreamCall['notify']) => Promise<Outcome>) {
  const heard: string[] = []
  const controller = new AbortController()
  const params = Payload.of({ notifications: { toolsListChanged: true } })
  const working: UpstreamCall = {
    call: toolCall({ method: 'subscriptions/listen', params }),
    signal: controller.signal,
    notify: ({ method }: Notification) => void heard.push(method),
    progress: () => undefined,
    requestInput: () => Promise.reject(new Error('nothing is asked')),
  }
  // The only members that are used here.
  const connection = { isClosed: false, open: (each: UpstreamCall) => open(each.notify) }
  const connect = async (): Promise<UpstreamConnection> => connection as unknown as UpstreamConnection
  const { signal: retired } = new AbortController()
  const options = { retired, log: silentLog, acknowledged: () => undefined }
  const outcome = listenOn(working, connect, options).catch(String)
  const leave = (): Promise<unknown> => {
    controller.abort()
    return outcome
  }
  return { heard, leave }
}

const acknowledged = { method: ACKNOWLEDGED, params: Payload.of({ notifications: {} }) }

it('subscriptions that are lost at once are opened again, later each time', async () => {
  let opened = 0
  const { heard, leave } = listening(async (notify) => {
    opened++
    notify(acknowledged)
    throw lost()
  })
  for (let seconds = 0; seconds < 60; seconds++) await pass(1000)
  expect(opened).toBeGreaterThan(6)
  expect(opened).toBeLessThan(10)
  expect(heard).toEqual([
    ACKNOWLEDGED,
    ...Array.from({ length: opened - 1 }, () => 'notifications/tools/list_changed'),
  ])
  expect(await leave()).toContain('cancelled')
})

it('after a subscription that lasted, the next one is opened soon', async () => {
  let opened = 0
  const { leave } = listening(async () => {
    if (++opened === 6) await new Promise((done) => setTimeout(done, 60_000))
    throw lost()
  })
  for (let seconds = 0; seconds < 60 && opened < 6; seconds++) await pass(1000)
  await pass(58_000)
  expect(opened).toBe(6)
  await pass(2500)
  expect(opened).toBeGreaterThan(6)
  await leave()
})
