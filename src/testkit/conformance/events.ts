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

interface Names {
  readonly method: string
  readonly tool: string
}

const subscribing: Names = { method: 'event/subscribe', tool: 'subscribe_events' }
const polling: Names = { method: 'event/poll', tool: 'poll_events' }
const unsubscribing: Names = { method: 'event/unsubscribe', tool: 'unsubscribe_events' }

async function subscribed(context: Context, endpoint: Endpoint, params: Fields): Promise<Fields> {
  return resultOf(await ask(endpoint, context, subscribing, params))
}

async function received(context: Context, endpoint: Endpoint, id: unknown): Promise<readonly Fields[]> {
  const result = resultOf(await ask(endpoint, context, polling, { subscription_id: id }))
  return objectsIn(result.events)
}

/** @throws Skip where successes are no events */
function needWrites({ settings }: Context): void {
  const { writes } = objectAt(settings('events')) ?? {}
  if (writes === 'off') throw new Skip('features.events.writes is off')
}

/** The checks of events. */
export const eventChecks = checksOf({ category: 'streaming', needs: ['events'] }, [
  {
    test_id: 'CONF-1501',
    description: 'A subscriber gets the success of a call that changes something, once.',
    run: async (context) => {
      needWrites(context)
      const { ours } = context
      const { subscription_id: id, status } = await subscribed(context, ours, { events: [TYPE] })
      expectSame(status, 'active', 'the status')
      successOf(await ours.call('create_entry', { text: 'an event' }))
      const [event, ...others] = await received(context, ours, id)
      expectSame([event?.event, others.length], [TYPE, 0], 'the event')
      expectSame(objectAt(event, 'payload', 'arguments')?.text, 'an event', 'payload.arguments.text')
      expectSame(await received(context, ours, id), [], 'the events of a second poll')
      const ended = resultOf(await ask(ours, context, unsubscribing, { subscription_id: id }))
      expectSame(ended.status, 'cancelled', 'the status at the end')
    },
  },
  {
    test_id: 'CONF-1502',
    description: 'A filter leaves out events with other values.',
    run: async (context) => {
      needWrites(context)
      const { ours } = context
      const { subscription_id: id } = await subscribed(context, ours, {
        events: [TYPE],
        filter: { text: 'wanted' },
      })
      successOf(await ours.call('create_entry', { text: 'not wanted' }))
      successOf(await ours.call('create_entry', { text: 'wanted' }))
      const texts = (await received(context, ours, id)).map(
        (event) => objectAt(event, 'payload', 'arguments')?.text,
      )
      expectSame(texts, ['wanted'], 'the texts of the events')
      await ask(ours, context, unsubscribing, { subscription_id: id })
    },
  },
  {
    test_id: 'CONF-1503',
    description: 'A subscription to an unknown event is denied, with the events that there are.',
    run: async (context) => {
      const found = await subscribed(context, context.ours, { events: ['conformance.no_such_event'] })
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
    run: async (context) => {
      needWrites(context)
      const { ours, theirs, settings } = context
      const isForAll = objectAt(settings('events'))?.writes === 'all'
      const { subscription_id: id } = await subscribed(context, theirs, { events: [TYPE] })
      successOf(await ours.call('create_entry', { text: 'of another caller' }))
      expectSame((await received(context, theirs, id)).length, isForAll ? 1 : 0, 'the number of events')
      await ask(theirs, context, unsubscribing, { subscription_id: id })
    },
  },
])
