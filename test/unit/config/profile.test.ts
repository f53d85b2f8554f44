import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import type { Settings } from '../../../src/core/settings.ts'
import type { FeatureSchema } from '../../../src/config/sections/features.ts'

/** A feature with a default that the corporate profile changes, and one with another beside it. */
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
  it('is strict, and the open one is not', () => {
    expect(load(corporate + upstreams).listen.isStrict).toBe(true)
    expect(load(upstreams).listen.isStrict).toBe(false)
  })

  it('changes defaults of features, and nothing the file says', () => {
    expect(errorsOf(upstreams)).toEqual({ common: { http_status: 'compatible', more: 1 }, upstreams: {} })
    const mapped = { common: { http_status: 'mapped', more: 1 }, upstreams: {} }
    expect(errorsOf(corporate + upstreams)).toEqual(mapped)
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: on }`)).toEqual(mapped)
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: { more: 2 } }`)).toEqual({
      common: { http_status: 'mapped', more: 2 },
      upstreams: {},
    })
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: { errors: { http_status: compatible } }`)).toEqual({
      common: { http_status: 'compatible', more: 1 },
      upstreams: {},
    })
    expect(errorsOf(`${corporate}${upstreams}\nfeatures: none`)).toBeUndefined()
  })

  it('changes them below what an upstream says too', () => {
    const own = 'upstreams: { it: { command: x, features: { errors: { more: 3 } } } }'
    expect(errorsOf(corporate + own)).toEqual({
      common: { http_status: 'mapped', more: 1 },
      upstreams: { it: { http_status: 'mapped', more: 3 } },
    })
  })
})

describe('the address', () => {
  it('C060 is loopback unless the file says otherwise', () => {
    expect(load(upstreams).listen.host).toBe('127.0.0.1')
    expect(load(corporate + upstreams).listen.host).toBe('127.0.0.1')
  })

  it.each(['[https://a.example, "*"]', '"*"', '["*"]'])(
    'C056 takes no origins %s where others reach it',
    (origins) => {
      const listen = `listen: { host: 0.0.0.0, origins: ${origins}, public_url: https://a.example }\n`
      const found = problemsOf(`${corporate}${listen}${upstreams}`)
      expect(found).toEqual([
        expect.stringMatching(/^listen\.origins: `\*` allows any web page to call the tools/),
      ])
    },
  )

  it('C056 takes `*` in no production, not even on loopback', () => {
    const listen = 'listen: { origins: "*" }\n'
    expect(problemsOf(`${corporate}${listen}${upstreams}`)).toEqual([
      expect.stringMatching(/^listen\.origins: /),
    ])
    expect(problemsOf(`${listen}${upstreams}`)).toEqual([])
  })

  it('C055 takes origins that are written out', () => {
    const listen = 'listen: { host: 0.0.0.0, origins: [https://a.example], public_url: https://b.example }\n'
    expect(load(`${corporate}${listen}${upstreams}`).listen.origins).toEqual(['https://a.example'])
    expect(problemsOf(`listen: { origins: ["https://*.example"] }\n${upstreams}`)).toHaveLength(1)
  })
})
