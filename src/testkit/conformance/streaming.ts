/**
 * Checks of what a client gets beside or after a response: progress, resumed calls, collected pages, tasks, and events, which reach
 * those who want to know, and may.
 */
import { NS } from '../../core/identity.ts'
import { tasksExtension } from '../../core/revisions.ts'
import { setTimeout as wait } from 'node:timers/promises'
import { readJson } from '../../core/json/json.ts'
import { STREAM_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import {
  ask,
  checksOf,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  isFailed,
  objectAt,
  objectsIn,
  resultOf,
  shown,
  Skip,
  successOf,
  textOf,
  type Context,
} from './check.ts'
import { LISTED_ITEMS } from './echo-server.ts'

const OPERATION = `${NS}/operation_id`

/** Longer than the time after which a call has an id, in milliseconds. */
const LASTING_MS = 1200

/** How often a task is polled, and at most how many times. */
const POLL_INTERVAL_MS = 100
const MAX_POLLS = 100

/** The parameters of the progress notifications of a request. */
function progressIn({ notifications }: Answer, token: string): readonly Fields[] {
  return notifications
    .filter(({ method }) => method === 'notifications/progress')
    .flatMap(({ params }) => objectsIn([params]))
    .filter(({ progressToken }) => progressToken === token)
}

/** The checks of progress, operations, pages and tasks. */
export const streamingChecks = checksOf({ category: 'streaming' }, [
  {
    test_id: 'CONF-0801',
    description:
      'A client with a progress token gets the progress of the server, with the completed part and rising values.',
    needs: ['progress'],
    run: async ({ ours }) => {
      const answer = await ours.call(
        'get_status',
        { steps: 3, milliseconds: 150 },
        { meta: { progressToken: 'conformance' } },
      )
      successOf(answer)
      const found = progressIn(answer, 'conformance')
      expect(found.length > 0, 'there is no progress notification')
      const values = found.map(({ progress }) => Number(progress))
      expect(
        values.every((value, index) => index === 0 || value > (values[index - 1] ?? 0)),
        `the values do not rise: ${values.join(', ')}`,
      )
      expectSame(values.at(-1), 3, 'the last value')
      const own = found.map((params) => objectAt(params, '_meta', `${NS}/progress`))
      expect(
        own.every((each) => typeof each?.operation_id === 'string'),
        'operation_id is absent',
      )
      expectSame(own.at(-1)?.progress, 1, 'the completed part at the end')
    },
  },
  {
    test_id: 'CONF-0802',
    description: 'A client without a progress token gets no progress.',
    needs: ['progress'],
    run: async ({ ours }) => {
      const { notifications } = await ours.call('get_status', { steps: 2, milliseconds: 100 })
      expectSame(notifications.length, 0, 'the number of notifications')
    },
  },
  {
    test_id: 'CONF-0803',
    description:
      'The outcome of a call that took long can be requested again by its caller alone, without another call.',
    needs: ['progress'],
    run: async ({ ours, theirs, echo }) => {
      const first = successOf(await ours.call('get_status', { steps: 1, milliseconds: LASTING_MS }))
      const id = objectAt(first, '_meta')?.[OPERATION]
      expect(typeof id === 'string', `the result of a call of ${LASTING_MS} ms has no ${OPERATION}`)
      const reached = echo.follow('get_status')
      const resume = (endpoint: Endpoint): Promise<Answer> =>
        ask(endpoint, 'operation/resume', 'resume_operation', { operation_id: id })
      const again = await resume(ours)
      if (ours.own === 'methods') expectSame(resultOf(again).content, first.content, 'the content')
      else expect(!isFailed(again), 'the outcome is an error')
      expectCalls(reached(), 0)
      failureOf(await resume(theirs), 'RESOURCE_NOT_FOUND')
    },
  },
  {
    test_id: 'CONF-0804',
    description: 'All pages of a tool that reads are collected with one call, in their order.',
    needs: ['stream'],
    run: async ({ ours, settings }) => {
      const { max_pages: most } = objectAt(settings('stream')) ?? {}
      if (Number(most) < LISTED_ITEMS) throw new Skip(`features.stream.max_pages is ${String(most)}`)
      const result = successOf(await ours.call('list_entries', {}, { meta: { [STREAM_KEY]: true } }))
      const page = readJson(textOf(result))
      const numbers = objectsIn(objectAt(page)?.items).map(({ number }) => number)
      const wanted = Array.from({ length: LISTED_ITEMS }, (_item, index) => index + 1)
      expectSame(numbers, wanted, 'the items')
      expectSame(objectAt(result, '_meta', STREAM_KEY)?.complete, true, 'complete')
    },
  },
  {
    test_id: 'CONF-0805',
    description:
      'A collection that stops early has a checkpoint token, and the same call with it returns exactly the rest.',
    needs: ['stream'],
    run: async ({ ours, settings }) => {
      const { max_pages: most } = objectAt(settings('stream')) ?? {}
      if (Number(most) < LISTED_ITEMS) throw new Skip(`features.stream.max_pages is ${String(most)}`)
      const collect = async (stream: Fields): Promise<Fields> =>
        successOf(await ours.call('list_entries', {}, { meta: { [STREAM_KEY]: stream } }))
      const first = await collect({ max_pages: 1 })
      const token = objectAt(first, '_meta', STREAM_KEY)?.checkpoint_token
      expect(typeof token === 'string', 'the result has no checkpoint_token')
      const rest = readJson(textOf(await collect({ checkpoint_token: token })))
      const numbers = objectsIn(objectAt(rest)?.items).map(({ number }) => number)
      expectSame(numbers, [3, 4, 5, 6], 'the items of the rest')
    },
  },
  {
    test_id: 'CONF-0806',
    description: 'A client that declares tasks gets the same outcome from a call that becomes a task.',
    needs: ['progress'],
    run: async ({ ours }) => {
      const capabilities = { extensions: { [tasksExtension]: {} } }
      const args = { steps: 1, milliseconds: 300 }
      const begun = resultOf(await ours.call('get_status', args, { capabilities }))
      expectSame(begun.resultType, 'task', 'resultType')
      for (let poll = 0; poll < MAX_POLLS; poll++) {
        const found = resultOf(await ours.send('tasks/get', { taskId: begun.taskId }, { capabilities }))
        if (found.status === 'completed') {
          const outcome = objectAt(found, 'result')
          expect(
            textOf(outcome ?? {}).includes('after 1 steps'),
            `the outcome is ${shown(JSON.stringify(outcome))}`,
          )
          return
        }
        expectSame(found.status, 'working', 'the status of the task')
        await wait(POLL_INTERVAL_MS)
      }
      expect(false, 'the task did not end')
    },
  },
])

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
