import { expect, it } from 'vitest'
import { listenToAll } from '../../../src/catalog/aggregate.ts'
import { Naming } from '../../../src/catalog/names.ts'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ACKNOWLEDGED } from '../../../src/protocol/subscription-filter.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { toolCall } from '../../support/tool-call.ts'

const pass = fakeClock()

const changed = { method: 'notifications/tools/list_changed', params: Payload.of({}) }
const acknowledged = {
  method: ACKNOWLEDGED,
  params: Payload.of({ notifications: { toolsListChanged: true } }),
}

/** Listens to servers that answer with `handle`: what the client hears, the outcome, and how the set of servers changes. */
function listenTo(names: readonly string[], handle: Handler) {
  const heard: string[] = []
  const ended = new AbortController()
  const listening = listenToAll(
    toolCall({
      method: 'subscriptions/listen',
      target: { method: 'subscriptions/listen' },
      params: Payload.of({ notifications: { toolsListChanged: true } }),
      emit: ({ method }) => void heard.push(method),
    }),
    {
      names,
      handle,
      naming: new Naming(),
      resource: async () => undefined,
      ended: ended.signal,
      acknowledged: (_upstream, acknowledgement) => acknowledgement,
    },
  )
  return { heard, ended, listening }
}

it('no notification precedes the acknowledgement, which waits for the slowest server', async () => {
  const servers = new Map<string, Call>()
  const ends: ((outcome: Outcome) => void)[] = []
  const { heard, ended, listening } = listenTo(['quick', 'slow'], (call) => {
    servers.set(String(call.target.upstream), call)
    return new Promise((resolve) => void ends.push(resolve))
  })
  servers.get('quick')?.emit(acknowledged)
  servers.get('quick')?.emit(changed)
  expect(heard).toEqual([])
  servers.get('slow')?.emit(acknowledged)
  await pass(0)
  expect(heard).toEqual([ACKNOWLEDGED, changed.method])
  servers.get('slow')?.emit(changed)
  expect(heard).toHaveLength(3)
  ended.abort()
  ends.forEach((end) => end({ kind: 'result', result: Payload.of({}) }))
  expect(await listening).toMatchObject({ kind: 'result' })
})

it('a server that refuses is left out, while another one is waited for', async () => {
  const { heard, ended, listening } = listenTo(['without', 'slow'], async (call) => {
    if (call.target.upstream === 'without') throw new GatewayError('UPSTREAM_ERROR', 'Method not found')
    await new Promise((resolve) => setTimeout(resolve, 1000))
    call.emit(acknowledged)
    await new Promise((resolve) => call.signal.addEventListener('abort', resolve))
    return { kind: 'result', result: Payload.of({}) }
  })
  await pass(500)
  expect(heard).toEqual([])
  await pass(1000)
  expect(heard).toEqual([ACKNOWLEDGED])
  ended.abort()
  await pass(0)
  expect(await listening).toMatchObject({ kind: 'result' })
})

it('a server that ends its subscription is listened to again, later each time, and the others go on', async () => {
  let listened = 0
  const { heard, ended, listening } = listenTo(['short', 'long'], (call) => {
    call.emit(acknowledged)
    const isShort = call.target.upstream === 'short'
    if (isShort) listened++
    const end = (resolve: (outcome: Outcome) => void): void =>
      resolve({ kind: 'result', result: Payload.of({}) })
    return new Promise((resolve) => {
      if (isShort) end(resolve)
      else call.signal.addEventListener('abort', () => end(resolve))
    })
  })
  await pass(60_000)
  expect(listened).toBeGreaterThan(6)
  expect(listened).toBeLessThan(10)
  expect(heard).toEqual([ACKNOWLEDGED, ...Array.from({ length: listened - 1 }, () => changed.method)])
  ended.abort()
  await pass(0)
  expect(await listening).toMatchObject({ kind: 'result' })
})
