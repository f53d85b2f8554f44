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

/** A request of a 2026-07-28 client that requests all log messages, unless overridden. */
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

/** The indexes of the calls that receive the notification, from 1; or the reason why none does. */
function heard(calls: readonly Call[], told: Notification, about?: number): unknown {
  const underWay = new Registry<number, ActiveRequest>()
  const all = calls.map((each) => ({ call: each }) as unknown as UpstreamCall)
  for (const [index, working] of all.entries()) underWay.set(index + 1, { id: index + 1, working })
  const { to, why } = recipientsOf(told, about, underWay)
  return why ?? to.map((working) => all.indexOf(working) + 1)
}

describe('the recipients of a notification of a 2026-07-28 server', () => {
  test.each<[string, readonly Call[], Notification, number | undefined, unknown]>([
    ['the call on whose stream it arrived', [call(), call()], log(), 2, [2]],
    ['no call if that call has ended', [call()], log(), 7, 'ended'],
    ['the only call', [call()], log(), undefined, [1]],
    ['the only client call besides internal calls', [ours, call(), ours], log(), undefined, [2]],
    ['the only call besides a subscription', [toTools, call()], vendor(), undefined, [2]],
    ['the call that requested log messages, not one that did not', [quiet, call()], log(), undefined, [2]],
    ['the call that requested messages of this level', [fussy, call()], log('info'), undefined, [2]],
    ['the only call if the server logs without a request', [quiet], log(), undefined, [1]],
    ['the call without a level, not one with a higher level', [fussy, quiet], log('info'), undefined, [2]],
    ['no call with a higher level', [fussy], log('info'), undefined, 'unasked'],
    [
      'no call if an unrequested log message is ambiguous between two callers',
      [quiet, call({ meta: {}, principal: bob })],
      log(),
      undefined,
      'ambiguous',
    ],
    ['no call if there are only internal calls', [ours], vendor(), undefined, 'unasked'],
    ['every call of a caller without sessions', [call(), call()], log(), undefined, [1, 2]],
    ['the latest call of a session', [inSession('a'), inSession('a')], log(), undefined, [2]],
    [
      'each session of a caller once',
      [inSession('a'), inSession('b'), inSession('a')],
      log(),
      undefined,
      [2, 3],
    ],
    [
      'no call if it is ambiguous between two callers',
      [call(), call({ principal: bob })],
      log(),
      undefined,
      'ambiguous',
    ],
    [
      'no call if it is ambiguous between two anonymous sessions',
      [inSession('a', everybody), inSession('b', everybody)],
      log(),
      undefined,
      'ambiguous',
    ],
    [
      'every call if callers are indistinguishable',
      [call(everybody), call(everybody)],
      vendor(),
      undefined,
      [1, 2],
    ],
    ['the request it names', [call(), call()], log('info', { requestId: 1 }), undefined, [1]],
    ['the request it names by a string', [call(), call()], vendor({ requestId: '2' }), undefined, [2]],
    [
      'the request it names with the protocol prefix',
      [call(), call()],
      vendor({ 'io.modelcontextprotocol/requestId': 2 }),
      undefined,
      [2],
    ],
    [
      'the request with its progress token',
      [call(), call({ principal: bob })],
      vendor({ progressToken: 2 }),
      undefined,
      [2],
    ],
    [
      'all calls of a caller if it names something else',
      [call(), call()],
      vendor({ requestId: 'trace-7' }),
      undefined,
      [1, 2],
    ],
    ['the subscription it names', [toTools, toAll], tools(subscribed(2)), undefined, [2]],
    ['the subscription it names by a string', [toTools, toAll], updated(subscribed('2')), undefined, [2]],
    ['no subscription that did not request it', [toTools], updated(subscribed(1)), undefined, 'unsubscribed'],
    ['no call if the subscription has ended', [toTools], tools(subscribed(9)), undefined, 'ended'],
    ['every subscription to a change that names none', [toTools, call(), toAll], tools(), undefined, [1, 3]],
    [
      'every subscription to a change that arrived on the stream of a call',
      [call(), toTools],
      tools(),
      1,
      [2],
    ],
    ['the subscription on whose stream a change arrived', [toTools, toAll], tools(), 1, [1]],
    ['no call if the change was not requested', [call()], tools(), undefined, 'unsubscribed'],
  ])('the notification is sent to %s', (...row) => {
    const [, calls, told, about, expected] = row
    expect(heard(calls, told, about)).toEqual(expected)
  })
})
