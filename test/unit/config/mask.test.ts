import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'

function problemsOf(rules: string): string[] {
  const file = `upstreams: { one: { command: x } }\nfeatures:\n  mask:\n    rules:\n${rules}\n`
  try {
    loadSettings(file, { file: 'f.yaml', env: {} })
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ line, path, message }) => `${line} ${path}: ${message}`)
  }
}

describe('mask rules', () => {
  it('C176 a mask rule has a path or a pattern', () => {
    const lines = [
      `- path: '$.items[*].email'`,
      `- pattern: '[\\w.+-]+@[\\w-]+\\.[\\w.]+'`,
      `- { pattern: '\\b\\d{9}\\b', tools: 'get_*', replace: '[number]' }`,
      `- { path: '$', tools: [a, b] }`,
    ]
    expect(problemsOf(lines.map((line) => `      ${line}`).join('\n'))).toEqual([])
  })

  it.each([
    ['{ replace: x }', /^5 features\.mask\.rules\[0\]: needs `path` or `pattern`, and not both/],
    [`{ path: '$.a', pattern: b }`, /^5 features\.mask\.rules\[0\]: needs `path` or `pattern`, and not both/],
    ['{ path: items.email }', /^5 features\.mask\.rules\[0\]\.path: must be a path such as/],
    [`{ path: '$.a..b' }`, /\.path: must be a path/],
    [`{ path: '$.a[x]' }`, /\.path: must be a path/],
    [`{ pattern: '(' }`, /^5 features\.mask\.rules\[0\]\.pattern: must be a regular expression/],
    [`{ pattern: '(a)\\1' }`, /\.pattern: cannot be matched in bounded time/],
    [`{ pattern: '(?<=a)b' }`, /\.pattern: cannot be matched in bounded time/],
    [`{ pattern: 'a*' }`, /\.pattern: matches the empty string/],
    [`{ pattern: '\\b' }`, /\.pattern: matches the empty string/],
    [`{ pattern: '\\*' }`, /\.pattern: matches the replacement of masked text/],
    [`{ pattern: '[a-z]+', replace: hidden }`, /\.pattern: matches the replacement/],
    [`{ pattern: 7x, more: 1 }`, /more/],
  ])('C176 the mask rule %s is reported at its line', (rule, problem) => {
    const found = problemsOf(`      - ${rule}`)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(problem)
  })

  it('C176 the mask rules of each server are checked', () => {
    const file = `upstreams:\n  one:\n    command: x\n    features:\n      mask: { rules: [{ pattern: '(' }] }\n`
    expect(() => loadSettings(file, { file: 'f.yaml', env: {} })).toThrow(/upstreams\.one\.features\.mask/)
  })
})

describe('mask without rules', () => {
  const load = (text: string) => loadSettings(text, { file: 'f.yaml', env: {} })
  const one = 'upstreams: { one: { command: x } }\n'

  it.each(['on', '{}', '{ rules: [] }'])('mask: %s without rules is refused', (mask) => {
    expect(() => load(`${one}features: { mask: ${mask} }`)).toThrow('features.mask: masks nothing')
    expect(() => load(`upstreams: { one: { command: x, features: { mask: ${mask} } } }`)).toThrow(
      'upstreams.one.features.mask: masks nothing',
    )
  })

  it('mask is refused for a server when only another server has rules', () => {
    const upstreams =
      "{ one: { command: x, features: { mask: { rules: [{ path: '$.a' }] } } }, two: { command: x, features: { mask: on } } }"
    expect(() => load(`upstreams: ${upstreams}`)).toThrow('upstreams.two.features.mask: masks nothing')
  })

  it('mask may take its rules from the common or from the server settings', () => {
    const rules = "{ rules: [{ path: '$.a' }] }"
    expect(() =>
      load(`upstreams: { one: { command: x, features: { mask: on } } }\nfeatures: { mask: ${rules} }`),
    ).not.toThrow()
    expect(() =>
      load(`upstreams: { one: { command: x, features: { mask: ${rules} } } }\nfeatures: { mask: on }`),
    ).not.toThrow()
  })
})
