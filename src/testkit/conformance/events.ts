/** Checks of events: what happens at a server reaches those who want to know, and may. */
import type { Fields } from '../../core/payload.ts'
import {
  ask,
  checksOf,
  type Context,
  expect,
  expectSame,
  objectAt,
  objectsIn,
  resultOf,
  Skip,
  shown,
  successOf,
} from './check.ts'
import type { Endpoint } from './client.ts'

const TYPE = 'create_entry.succeeded'

async function subscribed(endpoint: Endpoint, params: Fields): Promise<Fields> {
  return resultOf(await ask(endpoint, 'event/subscribe', 'subscribe_events', params))
}

async function received(endpoint: Endpoint, id: unknown): Promise<readonly Fields[]> {
  const result = resultOf(await ask(endpoint, 'event/poll', 'poll_events', { subscription_id: id }))
  return objectsIn(result.events)
}

async function unsubscribed(endpoint: Endpoint, id: unknown): Promise<Fields> {
  return resultOf(await ask(endpoint, 'event/unsubscribe', 'unsubscribe_events', { subscription_id: id }))
}

/** @throws Skip where successes are no events */
function needWrites(settings: Context['settings']): void {
  const { writes } = objectAt(settings('events')) ?? {}
  if (writes === 'off') throw new Skip('features.events.writes is off')
}

/** The checks of events. */
export const eventChecks = checksOf({ category: 'streaming', needs: ['events'] }, [
  {
    test_id: 'CONF-1501',
    description: 'A subscriber gets the success of a call that changes something, once.',
    run: async ({ ours, settings }) => {
      needWrites(settings)
      const { subscription_id: id, status } = await subscribed(ours, { events: [TYPE] })
      expectSame(status, 'active', 'the status')
      successOf(await ours.call('create_entry', { text: 'an event' }))
      const [event, ...others] = await received(ours, id)
      expectSame([event?.event, others.length], [TYPE, 0], 'the event')
      expectSame(objectAt(event, 'payload', 'arguments')?.text, 'an event', 'payload.arguments.text')
      expectSame(await received(ours, id), [], 'the events of a second poll')
      const ended = await unsubscribed(ours, id)
      expectSame(ended.status, 'cancelled', 'the status at the end')
    },
  },
  {
    test_id: 'CONF-1502',
    description: 'A filter leaves out events with other values.',
    run: async ({ ours, settings }) => {
      needWrites(settings)
      const { subscription_id: id } = await subscribed(ours, {
        events: [TYPE],
        filter: { text: 'wanted' },
      })
      successOf(await ours.call('create_entry', { text: 'not wanted' }))
      successOf(await ours.call('create_entry', { text: 'wanted' }))
      const texts = (await received(ours, id)).map((event) => objectAt(event, 'payload', 'arguments')?.text)
      expectSame(texts, ['wanted'], 'the texts of the events')
      await unsubscribed(ours, id)
    },
  },
  {
    test_id: 'CONF-1503',
    description: 'A subscription to an unknown event is denied, with the events that there are.',
    run: async ({ ours }) => {
      const found = await subscribed(ours, { events: ['conformance.no_such_event'] })
      expectSame(found.status, 'denied', 'the status')
      expect(
        Array.isArray(found.supported_events),
        `supported_events is ${shown(JSON.stringify(found.supported_events))}`,
      )
    },
  },
  {
    test_id: 'CONF-1504',
    description: 'What one caller does is no event for another, unless it is configured.',
    run: async ({ ours, theirs, settings }) => {
      needWrites(settings)
      const isForAll = objectAt(settings('events'))?.writes === 'all'
      const { subscription_id: id } = await subscribed(theirs, { events: [TYPE] })
      successOf(await ours.call('create_entry', { text: 'of another caller' }))
      expectSame((await received(theirs, id)).length, isForAll ? 1 : 0, 'the number of events')
      await unsubscribed(theirs, id)
    },
  },
])
