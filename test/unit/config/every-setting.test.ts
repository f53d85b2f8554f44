import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { fileSchema } from '../../../src/config/schema.ts'
import { isObject } from '../../../src/core/json/json.ts'
import { featureSettings } from '../../../src/core/settings.ts'
import { features } from '../../../src/features/index.ts'

const ok = { upstreams: { one: { command: 'x' } } }

const words = [
  'off',
  'on',
  '',
  '5s',
  '100d',
  '1MB',
  'x',
  '10/minute',
  '${MISSING}',
  '$.a',
  'https://x.example',
]
const numbers = [0, 1, -1, 1.5, 1e21]
const others = [true, null, [], ['x'], {}, { x: 1 }]

/** The path of every key of the file; `one` replaces names chosen by users. */
function paths(schema: unknown, path: readonly string[] = []): string[][] {
  if (!isObject(schema) || path.length > 8) return []
  const { properties, additionalProperties, anyOf, oneOf, allOf } = schema
  const known = isObject(properties) ? Object.entries(properties) : []
  const chosen = isObject(additionalProperties) ? [['one', additionalProperties] as const] : []
  const below = [...known, ...chosen].flatMap(([key, each]) => paths(each, [...path, key]))
  const ways = [anyOf, oneOf, allOf].flat().flatMap((each) => paths(each, path))
  return [...(path.length > 0 ? [[...path]] : []), ...below, ...ways]
}

function withValue(path: readonly string[], value: unknown): string {
  const file = structuredClone(ok)
  let at: Record<string, unknown> = file
  for (const key of path.slice(0, -1)) {
    const next = isObject(at[key]) ? at[key] : {}
    at[key] = next
    at = next
  }
  at[path.at(-1) ?? ''] = value
  return JSON.stringify(file)
}

function load(text: string) {
  return loadSettings(text, { file: '/x/gateway.config.yaml', env: {}, features }).settings
}

describe('every configuration key', () => {
  const all = [...new Set(paths(fileSchema(features)).map((path) => path.join(' ')))]

  test.each(all)('%s is accepted or refused with a message for any value', (joined) => {
    const path = joined.split(' ')
    for (const value of [...words, ...numbers, ...others]) {
      try {
        load(withValue(path, value))
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error
        expect(error.problems.every(({ message }) => message.length > 0)).toBe(true)
      }
    }
  })
})

test('off in place of a duration is kept as off', () => {
  const settings = load(JSON.stringify({ ...ok, features: { undo: { history: 'off' } } }))
  expect(featureSettings(settings, 'undo')).toEqual({ history: 'off', proved: 'auto' })
})

test('a start timeout is capped at the maximum of a timer', () => {
  const [one] = load(
    JSON.stringify({ upstreams: { one: { command: 'x', start_timeout: '100d' } } }),
  ).upstreams
  expect(one?.startTimeout).toBe(2 ** 31 - 1)
})
