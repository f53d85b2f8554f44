import { expect, test } from 'vitest'
import { memberFor } from '../../../src/protocol/subscription-filter.ts'
import { isExtensionMethod, isForServers, method, severity } from '../../../src/protocol/methods.ts'

test.each(['__proto__', 'constructor', 'toString', 'hasOwnProperty', ''])(
  'the method name %j is unknown',
  (name) => {
    expect(method(name)).toEqual({})
    expect(memberFor(name)).toBeUndefined()
    expect(severity(name)).toBe(-1)
  },
)

test.each([
  'initialize',
  'tools/call',
  'logging/setLevel',
  'ping',
  '',
  'notifications/cancelled',
  'notifications/initialized',
])('the notification %j is not forwarded to servers', (name) => {
  expect(isForServers(name)).toBe(false)
})

test('vendor notifications are forwarded to servers', () => {
  expect(isForServers('notifications/vendor/news')).toBe(true)
})

test('all requests of the events extension are extension methods, also where methods outside of MCP are off', () => {
  const names = ['list', 'poll', 'stream', 'subscribe', 'unsubscribe'].map((name) => `events/${name}`)
  expect(names.filter(isExtensionMethod)).toEqual(names)
  expect(['events/other', 'event/subscribe', 'tools/call'].filter(isExtensionMethod)).toEqual([])
})
