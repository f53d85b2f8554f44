import { expect, test } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { frontOf } from '../../../../src/descriptions/model/describe.ts'

const servers = `upstreams:
  files: { command: x }
  mail: { command: y, limits: { rate: 5/minute } }
  free: { command: z, limits: { rate: off } }`

function ratesOf(limits: string, upstream?: string): readonly string[] {
  const { settings } = loadSettings(`${limits}\n${servers}`, { file: 'f.yaml', env: {} })
  const page = (): undefined => undefined
  return frontOf(upstream, { settings, isOn: () => true, isGuarded: false, page }).rates
}

test.each([
  ['limits: { rate: 60/minute }', undefined, ['60/minute']],
  ['limits: { rate: 60/minute }', 'files', ['60/minute']],
  ['limits: { rate: [60/minute, 1000/day] }', 'files', ['60/minute', '1000/day']],
  ['limits: { rate: [60/minute, 1000/day] }', 'mail', ['60/minute', '1000/day', '5/minute']],
  ['limits: { rate: 60/minute }', 'free', []],
])('with %s the rates of %s are listed once each: %j', (limits, upstream, rates) => {
  expect(ratesOf(limits, upstream)).toEqual(rates)
})

test.each([
  ['', true, true],
  ['meta_tools: off\nmethods: off', true, false],
  ['', false, false],
])('with %j and events %s, subscriptions are an extension: %s', (config, isOn, isThere) => {
  const { settings } = loadSettings(`${config}\n${servers}`, { file: 'f.yaml', env: {} })
  const page = (): undefined => undefined
  const front = frontOf('files', {
    settings,
    isOn: (name) => isOn && name === 'events',
    isGuarded: false,
    page,
  })
  expect(front.hasEvents).toBe(isOn)
  expect(front.extensions).toEqual(isThere ? ['subscribe_notify'] : [])
})
