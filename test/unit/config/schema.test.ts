import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { fileSchema, schemaText } from '../../../src/config/schema.ts'
import { isObject } from '../../../src/core/json/json.ts'
import { validator } from '../../../src/core/schema/schema.ts'
import { features as shipped } from '../../../src/features/index.ts'
import { features } from './features.ts'

const check = validator(fileSchema(features))

describe('the configuration schema', () => {
  test('the schema is a valid JSON Schema', () => {
    expect(check({ upstreams: { it: 'x' } })).toEqual([])
  })

  test.each([
    { upstreams: { it: 'x' }, features: 'none' },
    { upstreams: { it: 'x' }, features: { confirm: 'off', hints: true } },
    { upstreams: { it: 'x' }, listen: { legacy_sse: 'on' }, limits: { body: '1MB', timeout: '5s' } },
    { upstreams: { it: { command: 'x', roots: 'off', trust: 'off', limits: { concurrency: 1 } } } },
  ])('the schema accepts common configurations: %j', (value) => {
    expect(check(value)).toEqual([])
  })

  test('the schema describes every key', () => {
    expect(undescribed(fileSchema([]))).toEqual([])
  })
})

describe('shipped files', () => {
  const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8')

  test('gateway.schema.json is up to date: run `npm run docs`', () => {
    expect(read('gateway.schema.json')).toBe(schemaText(shipped))
  })

  test('gateway.config.yaml loads without problems or warnings', () => {
    const file = new URL('../../../gateway.config.yaml', import.meta.url).pathname
    const { settings, warnings } = loadSettings(read('gateway.config.yaml'), {
      file,
      features: shipped,
      env: {},
    })
    expect(warnings).toEqual([])
    expect(settings.upstreams.map(({ name }) => name)).toEqual(['everything', 'files'])
  })
})

function undescribed(schema: unknown, path = ''): string[] {
  if (!isObject(schema)) return []
  const properties = isObject(schema.properties) ? schema.properties : {}
  return Object.entries(properties)
    .flatMap(([key, value]) => {
      const own = isObject(value) && typeof value.description === 'string' ? [] : [`${path}.${key}`]
      return [...own, ...undescribed(value, `${path}.${key}`)]
    })
    .concat(undescribed(schema.additionalProperties, `${path}.*`))
}
