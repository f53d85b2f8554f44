import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Call, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { FeatureInstance } from '../../../../src/features/feature.ts'
import { ACKNOWLEDGED } from '../../../../src/protocol/subscription-filter.ts'
import { added, bob, closeAll, eventGateway, eventWorld } from '../../../support/event-clients.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

const KEY = 'dev.gatehouse/events'

let world = eventWorld()
const opened: FeatureInstance[] = []
beforeEach(() => {
  world = eventWorld()
})
afterEach(() => closeAll(opened))

function gateway() {
  const made = eventGateway(world)
  opened.push(made.instance)
  return made
}

/** A client of 2026-07-28 that listens with a filter: what it received, and what its server was asked. */
function listen({ instance }: ReturnType<typeof gateway>, filter: Json, given: Partial<Call> = {}) {
  const method = 'subscriptions/listen'
  const received: { readonly method: string; readonly params: Json }[] = []
  const asked: Json[] = []
  const controller = new AbortController()
  const emit = ({ method: name, params }: Notification): void =>
    void received.push({ method: name, params: params?.fields ?? {} })
  const served = instance.responseMiddleware?.(method)?.(async (call) => {
    asked.push(call.params.fields['notifications'] as Json)
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: { toolsListChanged: true } }) })
    return new Promise((resolve) => {
      call.signal.addEventListener('abort', () => resolve({ kind: 'result', result: Payload.of({}) }))
    })
  })
  const ended = served?.(
    toolCall({
      method,
      target: { method, upstream: 'one' },
      params: Payload.of({ notifications: filter }),
      principal: { id: 'ada' },
      signal: controller.signal,
      emit,
      ...given,
    }),
  )
  return { received, asked, ended, close: () => controller.abort() }
}

describe('subscriptions/listen with subscriptions to events', () => {
  it('acknowledges those of the caller before the first event, and sends its server no filter that it does not know', async () => {
    const made = gateway()
    const { subscription_id: id } = await made.subscribe({ events: [added] })
    const { subscription_id: foreign } = await made.subscribe({ events: [added] }, { principal: bob })
    // It is pending before the stream opens.
    await made.add({ text: 'early' })
    const filter = { toolsListChanged: true, other: [1] }
    const { received, asked, ended, close } = listen(made, { ...filter, [KEY]: [id, foreign, 'x'] })
    await expect.poll(() => received).toHaveLength(2)
    expect(asked).toEqual([filter])
    expect(received).toMatchObject([
      { method: ACKNOWLEDGED, params: { notifications: { toolsListChanged: true, [KEY]: [id] } } },
      { method: 'notifications/event', params: { subscription_id: id, event: added } },
    ])
    close()
    await ended
    await made.add({ text: 'late' })
    expect(received).toHaveLength(2)
  })

  it('goes on after the events that an earlier stream had', async () => {
    const made = gateway()
    const { subscription_id: id } = await made.subscribe({ events: [added] })
    await made.add({ text: '1' })
    const first = listen(made, { [KEY]: [id] })
    await expect.poll(() => first.received).toHaveLength(2)
    const stored = async () => [...(await world.store.scan('subscription')).values()].join('')
    const before = await stored()
    await made.add({ text: '2' })
    await expect.poll(() => first.received).toHaveLength(3)
    await expect.poll(stored).not.toBe(before)
    first.close()
    await made.add({ text: '3' })
    const second = listen(made, { [KEY]: [id] })
    await expect.poll(() => second.received).toHaveLength(2)
    const [, event] = second.received
    expect(event?.params['payload']).toMatchObject({ arguments: { text: '3' } })
    second.close()
    await Promise.all([first.ended, second.ended])
  })

  it.each([['x'], [[1]], [Array.from({ length: 101 }, String)]])(
    'refuses %j as a list of ids',
    async (ids) => {
      await expect(listen(gateway(), { [KEY]: ids }).ended).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    },
  )

  it('is left alone without them, and for clients of older revisions', async () => {
    const made = gateway()
    const legacy = { era: 'legacy', revision: '2025-11-25', capabilities: {} } as const
    const plain = listen(made, { toolsListChanged: true })
    const older = listen(made, { [KEY]: ['x'] }, { client: legacy })
    for (const { received } of [plain, older])
      expect(received).toEqual([
        { method: ACKNOWLEDGED, params: { notifications: { toolsListChanged: true } } },
      ])
    plain.close()
    older.close()
    await Promise.all([plain.ended, older.ended])
  })
})
