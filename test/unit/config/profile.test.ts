import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { type FeatureSchema, featureSettings, type Settings } from '../../../src/core/settings.ts'
import { featureSchemas } from '../../../src/features/settings.ts'

/** A feature with one default that the corporate profile changes and one that it keeps. */
const features: readonly FeatureSchema[] = [
  {
    name: 'errors',
    place: 'features',
    schema: {
      type: 'object',
      default: 'on',
      properties: {
        http_status: { enum: ['compatible', 'mapped'], default: 'compatible' },
        more: { type: 'integer', default: 1 },
      },
    },
  },
]

function load(text: string): Settings {
  return loadSettings(text, { file: 'f.yaml', features, env: {} }).settings
}

function problemsOf(text: string): string[] {
  try {
    load(text)
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ path, message }) => `${path}: ${message}`)
    throw error
  }
}

const corporate = `
profile: corporate
auth: { opaque: { tokens: [{ id: it, hash: 'sha256:saltsalt:${'0'.repeat(64)}' }] } }
`
const upstreams = 'upstreams: { it: { command: x } }'

function errorsOf(text: string): unknown {
  return load(text).features['errors']
}

describe('the corporate profile', () => {
  it('the corporate profile is strict and the open profile is not', () => {
    expect(load(corporate + upstreams).listen.isStrict).toBe(true)
    expect(load(upstreams).listen.isStrict).toBe(false)
  })

  it('the corporate profile changes feature defaults but no explicit settings', () => {
    expect(errorsOf(upstreams)).toEqual({ common: { http_status: 'compatible', more: 1 }, upstreams: {} })
    const mapped = { common: { http_status: 'mapped', hide_details: true, more: 1 }, upstreams: {} }
    expect(errorsOf(corporate + upstreams)).toEqual(mapped)
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: on }`)).toEqual(mapped)
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: { more: 2 } }`)).toEqual({
      common: { http_status: 'mapped', hide_details: true, more: 2 },
      upstreams: {},
    })
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: { http_status: compatible } }`)).toEqual({
      common: { http_status: 'compatible', hide_details: true, more: 1 },
      upstreams: {},
    })
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: none`)).toBeUndefined()
  })

  it('the corporate profile changes defaults beneath the settings of an upstream', () => {
    const own = 'upstreams: { it: { command: x, features: { errors: { more: 3 } } } }'
    expect(errorsOf(corporate + own)).toEqual({
      common: { http_status: 'mapped', hide_details: true, more: 1 },
      upstreams: { it: { http_status: 'mapped', hide_details: true, more: 3 } },
    })
  })
})

describe('the listen address in the corporate profile', () => {
  it('C060 the default host is loopback', () => {
    expect(load(upstreams).listen.host).toBe('127.0.0.1')
    expect(load(corporate + upstreams).listen.host).toBe('127.0.0.1')
  })

  it.each(['[https://a.example, "*"]', '"*"', '["*"]'])(
    'C056 origins %s are refused on a reachable address',
    (origins) => {
      const listen = `listen: { host: 0.0.0.0, origins: ${origins}, public_url: https://a.example }\n`
      const found = problemsOf(`${corporate}${listen}${upstreams}`)
      expect(found).toEqual([
        expect.stringMatching(/^listen\.origins: `\*` allows any web page to call the tools/),
      ])
    },
  )

  it('C056 origin `*` is refused in production, even on loopback', () => {
    const listen = 'listen: { origins: "*" }\n'
    expect(problemsOf(`${corporate}${listen}${upstreams}`)).toEqual([
      expect.stringMatching(/^listen\.origins: /),
    ])
    expect(problemsOf(`${listen}${upstreams}`)).toEqual([])
  })

  it('C055 explicit origins are accepted', () => {
    const listen = 'listen: { host: 0.0.0.0, origins: [https://a.example], public_url: https://b.example }\n'
    expect(load(`${corporate}${listen}${upstreams}`).listen.origins).toEqual(['https://a.example'])
    expect(problemsOf(`listen: { origins: ["https://*.example"] }\n${upstreams}`)).toHaveLength(1)
  })
})

describe('the validation of arguments', () => {
  const inputOf = (text: string): unknown =>
    featureSettings(
      loadSettings(text, { file: 'f.yaml', features: featureSchemas, env: {} }).settings,
      'validate',
      'it',
    )

  it.each([
    ['', { input: 'warn', output: 'warn' }],
    ['features: { validate: on }', { input: 'warn', output: 'warn' }],
    ['features: { validate: { output: strict } }', { input: 'warn', output: 'strict' }],
    ['features: { validate: { input: off } }', { input: 'off', output: 'warn' }],
    ['features: { validate: { input: strict } }', { input: 'strict', output: 'warn' }],
    ['features: { validate: off }', false],
  ])('is left to the servers unless it is strict: %s', (text, settings) => {
    expect(inputOf(`${upstreams}\n${text}`)).toEqual(settings)
  })

  it.each([
    ['', { input: 'strict', output: 'warn' }],
    ['features: { validate: { output: off } }', { input: 'strict', output: 'off' }],
    ['features: { validate: { input: warn } }', { input: 'warn', output: 'warn' }],
  ])('is strict in the corporate profile: %s', (text, settings) => {
    expect(inputOf(`${corporate}${upstreams}\n${text}`)).toEqual(settings)
  })

  it.each(['true', 'on', 'loud', '{}'])('is not %s', (value) => {
    expect(() => inputOf(`${upstreams}\nfeatures: { validate: { input: ${value} } }`)).toThrow(
      /off, warn(?:,| or) (?:or )?"?strict/,
    )
  })
})

describe('compat: proposals', () => {
  const all = (text: string): Settings =>
    loadSettings(text, { file: 'f.yaml', features: featureSchemas, env: {} }).settings
  const compatOf = (settings: Settings, feature: string, upstream?: string): unknown =>
    Object(featureSettings(settings, feature, upstream)).compat

  it('sets the defaults of compat of the features, and turns references on', () => {
    const [plain, proposals] = [all(upstreams), all(`compat: proposals\n${upstreams}`)]
    for (const feature of ['errors', 'provenance', 'state']) {
      expect(compatOf(plain, feature)).toBe(true)
      expect(compatOf(proposals, feature)).toBe('always')
    }
    expect(featureSettings(plain, 'references')).toBe(false)
    expect(featureSettings(proposals, 'references')).toMatchObject({ over: Number.MAX_SAFE_INTEGER })
  })

  it('leaves what the file says, and works together with the corporate profile', () => {
    const text = `compat: proposals\nfeatures: { errors: { compat: off }, references: off, state: on }\n${upstreams}`
    const settings = all(text)
    expect(compatOf(settings, 'errors')).toBe(false)
    expect(featureSettings(settings, 'references')).toBe(false)
    expect(compatOf(settings, 'state')).toBe('always')
    const strict = all(`compat: proposals\n${corporate}${upstreams}`)
    expect(featureSettings(strict, 'errors')).toMatchObject({ compat: 'always', hide_details: true })
    expect(Object.keys(all(`compat: proposals\nfeatures: none\n${upstreams}`).features)).toEqual(
      Object.keys(all(`features: none\n${upstreams}`).features),
    )
  })

  it('applies to one server alone, in both directions', () => {
    const two = 'upstreams: { one: { command: x, compat: proposals }, two: { command: x } }'
    const settings = all(two)
    expect(compatOf(settings, 'errors', 'one')).toBe('always')
    expect(compatOf(settings, 'errors', 'two')).toBe(true)
    expect(featureSettings(settings, 'references', 'two')).toBe(false)
    const reversed = all(
      'compat: proposals\nupstreams: { one: { command: x, compat: off }, two: { command: x } }',
    )
    expect(compatOf(reversed, 'errors', 'one')).toBe(true)
    expect(compatOf(reversed, 'errors', 'two')).toBe('always')
    const own = all(
      'upstreams: { one: { command: x, compat: proposals, features: { errors: { compat: on } } } }',
    )
    expect(compatOf(own, 'errors', 'one')).toBe(true)
  })
})
