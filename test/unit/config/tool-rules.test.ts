import { expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'

function load(rules: unknown) {
  const text = JSON.stringify({ upstreams: { one: { url: 'https://one.example', ...Object(rules) } } })
  return loadSettings(text, { file: 'f', env: {} }).settings.upstreams[0]
}

test.each([true, 'on', 'true'])('a tool rule with %s matches any arguments', (value) => {
  expect(load({ deny: { fork: value }, allow: { get: value } })).toMatchObject({
    deny: { fork: true },
    allow: { get: true },
  })
})

test('a tool rule with arguments matches these arguments only', () => {
  expect(load({ deny: { get: { path: '**/.env' } } })?.deny).toEqual({ get: { path: '**/.env' } })
})

test.each([false, 'off', 'false', 'never', 7])('the tool rule %s is refused', (value) => {
  expect(() => load({ deny: { fork: value } })).toThrow(ConfigError)
  expect(() => load({ deny: { fork: value } })).toThrow(
    'upstreams.one.deny.fork: must be on, or a mapping of arguments to globs of their values',
  )
})
