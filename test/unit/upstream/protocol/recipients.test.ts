import { describe, expect, test } from 'vitest'
import type { UpstreamCall } from '../../../../src/upstream/suspended-calls.ts'
import type { Call, Notification } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { Registry } from '../../../../src/core/registry.ts'
import { recipientsOf, type ActiveRequest } from '../../../../src/upstream/protocol/notifications.ts'
import { toolCall } from '../../../support/tool-call.ts'

const LEVEL = 'io.modelcontextprotocol/logLevel'
const [ada, bob] = [{ id: 'ada' }, { id: 'bob' }]

/** A request of a client of 2026-07-28 that wants all log messages, apart from what is given. */
function call(given: Partial<Call> = {}): Call {
  return toolCall({ rpcId: '1', principal: ada, meta: { [LEVEL]: 'debug' }, ...given })
}

function inSession(session: string, given: Partial<Call> = {}): Call {
  return call({ client: { era: 'legacy', revision: '2025-11-25', capabilities: {}, session }, ...given })
}

const everybody = { principal: anonymous }
const quiet = call({ meta: {} })
const fussy = call({ meta: { [LEVEL]: 'error' } })
const { rpcId: _none, ...ours } = call()
const listening = (notifications: object): Call =>
  call({ method: 'subscriptions/listen', params: Payload.of({ notifications }) })
const toTools = listening({ toolsListChanged: true })
const toAll = listening({ toolsListChanged: true, resourceSubscriptions: ['a://b'] })

const log = (level = 'info', meta?: object): Notification =>
  note('notifications/message', { level, data: 'x' }, meta)
const vendor = (meta?: object): Notification => note('acme/progress', { pct: 1 }, meta)
const tools = (meta?: object): Notification => note('notifications/tools/list_changed', {}, meta)
const updated = (meta?: object): Notification =>
  note('notifications/resources/updated', { uri: 'a://b' }, meta)
const subscribed = (id: number | string) => ({ 'io.modelcontextprotocol/subscriptionId': id })

function note(method: string, params: object, meta?: object): Notification {
  return { method, params: Payload.of({ ...params, ...(meta && { _meta: meta }) }) }
}

/** The ids of the requests that hear it, 1 being that of the first call; or why none does. */
function heard(calls: readonly Call[], told: Notification, about?: number): unknown {
  const underWay = new Registry<number, ActiveRequest>()
  const all = calls.map((each) => ({ call: each }) as unknown as UpstreamCall)
  for (const [index, working] of all.entries()) underWay.set(index + 1, { id: index + 1, working })
  const { to, why } = recipientsOf(told, about, underWay)
  return why ?? to.map((working) => all.indexOf(working) + 1)
}

describe('a notification of a server of 2026-07-28', () => {
  test.each<[string, readonly Call[], Notification, number | undefined, unknown]>([
    ['the call on whose stream it came', [call(), call()], log(), 2, [2]],
    ['no one where that call has ended', [call()], log(), 7, 'ended'],
    ['the only call', [call()], log(), undefined, [1]],
    [
      'the only call of a client beside calls of the gateway itself',
      [ours, call(), ours],
      log(),
      undefined,
      [2],
    ],
    ['the only call of a client beside its subscription', [toTools, call()], vendor(), undefined, [2]],
    ['the call that wants log messages beside one that does not', [quiet, call()], log(), undefined, [2]],
    ['the call that wants messages of this level', [fussy, call()], log('info'), undefined, [2]],
    ['the only call where the server logs unasked', [quiet], log(), undefined, [1]],
    ['the call that named no level beside one that wants less', [fussy, quiet], log('info'), undefined, [2]],
    ['no call that wants less', [fussy], log('info'), undefined, 'unasked'],
    [
      'no one where a server that logs unasked may mean two callers',
      [quiet, call({ meta: {}, principal: bob })],
      log(),
      undefined,
      'ambiguous',
    ],
    ['no one where only the gateway itself calls', [ours], vendor(), undefined, 'unasked'],
    ['every call of a caller without sessions', [call(), call()], log(), undefined, [1, 2]],
    ['the last call of a session', [inSession('a'), inSession('a')], log(), undefined, [2]],
    [
      'each session of a caller once',
      [inSession('a'), inSession('b'), inSession('a')],
      log(),
      undefined,
      [2, 3],
    ],
    [
      'no one where it may be of two callers',
      [call(), call({ principal: bob })],
      log(),
      undefined,
      'ambiguous',
    ],
    [
      'no one where it may be of two sessions of anonymous callers',
      [inSession('a', everybody), inSession('b', everybody)],
      log(),
      undefined,
      'ambiguous',
    ],
    [
      'every call where callers have nothing to tell them apart',
      [call(everybody), call(everybody)],
      vendor(),
      undefined,
      [1, 2],
    ],
    ['the request it names', [call(), call()], log('info', { requestId: 1 }), undefined, [1]],
    ['the request it names as text', [call(), call()], vendor({ requestId: '2' }), undefined, [2]],
    [
      'the request it names by the prefix of the protocol',
      [call(), call()],
      vendor({ 'io.modelcontextprotocol/requestId': 2 }),
      undefined,
      [2],
    ],
    [
      'the request of the progress token it names',
      [call(), call({ principal: bob })],
      vendor({ progressToken: 2 }),
      undefined,
      [2],
    ],
    [
      'all of a caller where it names something else',
      [call(), call()],
      vendor({ requestId: 'trace-7' }),
      undefined,
      [1, 2],
    ],
    ['the subscription it names', [toTools, toAll], tools(subscribed(2)), undefined, [2]],
    ['the subscription it names as text', [toTools, toAll], updated(subscribed('2')), undefined, [2]],
    ['no subscription that did not ask for it', [toTools], updated(subscribed(1)), undefined, 'unsubscribed'],
    ['no one where the subscription has ended', [toTools], tools(subscribed(9)), undefined, 'ended'],
    [
      'all who asked for a change that names no subscription',
      [toTools, call(), toAll],
      tools(),
      undefined,
      [1, 3],
    ],
    ['all who asked for a change that came on the stream of a call', [call(), toTools], tools(), 1, [2]],
    ['the subscription on whose stream a change came', [toTools, toAll], tools(), 1, [1]],
    ['no one where the change was not asked for', [call()], tools(), undefined, 'unsubscribed'],
  ])('is for %s', (...row) => {
    const [, calls, told, about, expected] = row
    expect(heard(calls, told, about)).toEqual(expected)
  })
})
