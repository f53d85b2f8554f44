import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'

function load(text: string, env: Readonly<Record<string, string>> = {}) {
  return loadSettings(text, { file: '/x/gateway.config.yaml', env })
}

function problem(text: string, env: Readonly<Record<string, string>> = {}): string {
  try {
    load(text, env)
    return ''
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, message }) => `${path}: ${message}`).join('\n')
  }
}

const ok = 'upstreams: { it: x }'

describe('limits', () => {
  test('C188 C189 C190 limits have their defaults', () => {
    const { settings } = load(ok)
    expect(settings.listen.body).toBe(1024 ** 2)
    expect(settings.features['limits']?.common).toEqual({ timeout: 30_000, max_timeout: 600_000 })
    expect(settings.features['result_limit']?.common).toEqual({ result: 10 * 1024 ** 2 })
    expect(settings.features['rate_limit']?.common).toEqual({})
    expect(settings.features['concurrency']?.common).toEqual({})
    expect(settings.features['retry']?.common).toEqual({ attempts: 2 })
    expect(settings.features['breaker']?.common).toEqual({ failures: 10, window: 60_000, pause: 30_000 })
  })

  test.each([
    [
      '{ tool: t, sum: $.a, count: $.b, most: 1 }',
      'limits.arguments[0]: needs `sum` or `count`, and not both',
    ],
    ['{ tool: t, sum: $.a }', 'limits.arguments[0]: needs `most` or `in_all`'],
    ['{ tool: t, sum: $.a, in_all: 5 }', 'limits.arguments[0].in_all: needs a period, such as 5000/day'],
    ['{ tool: t, sum: a, most: 1 }', 'limits.arguments[0].sum: must be a path'],
    ['{ tool: t, sum: "$.a..b", most: 1 }', 'limits.arguments[0].sum: must be a path'],
    ['{ tool: t, sum: $.a, most: 5/fortnight }', 'limits.arguments[0].most: must be an amount'],
    ['{ tool: t, sum: $.a, most: -1 }', 'limits.arguments[0].most: must be an amount'],
    ['null', 'limits.arguments[0]: must be a mapping'],
  ])('a limit of arguments that cannot hold is refused: %s', (rule, message) => {
    expect(problem(`limits: { arguments: [${rule}] }\n${ok}`)).toContain(message)
    const own = `upstreams: { it: { command: x, limits: { arguments: [${rule}] } } }`
    expect(problem(own)).toContain(`upstreams.it.${message}`)
  })

  test('limits can be set for all servers and for each server', () => {
    const { features } = load(`
limits: { rate: [10/second, 1000/day], concurrency: 4, result: 1MB }
upstreams:
  one: { command: x, limits: { rate: 5/minute, timeout: 5s } }
  two: { command: x, limits: { rate: off, concurrency: off } }
`).settings
    expect(features['rate_limit']).toEqual({
      common: { rate: ['10/second', '1000/day'] },
      upstreams: { one: { rate: '5/minute' }, two: { rate: 'off' } },
    })
    expect(features['concurrency']).toEqual({
      common: { concurrency: 4 },
      upstreams: { two: { concurrency: 'off' } },
    })
    expect(features['limits']?.upstreams).toEqual({ one: { timeout: 5000, max_timeout: 600_000 } })
    expect(features['result_limit']).toEqual({ common: { result: 1024 ** 2 }, upstreams: {} })
  })

  test('limits can be numbers from environment variables', () => {
    const text = 'limits: { concurrency: "${N}", body: "${SIZE}", result: "${UNIT}" }\nupstreams: { it: x }'
    const { settings } = load(text, { N: '8', SIZE: '1048576', UNIT: '2MB' })
    expect(settings.features['concurrency']?.common).toEqual({ concurrency: 8 })
    expect(settings.listen.body).toBe(1024 ** 2)
    expect(settings.features['result_limit']?.common).toEqual({ result: 2 * 1024 ** 2 })
  })

  test('limits without a meaning are refused', () => {
    expect(problem(`limits: { rate: 10 per minute }\n${ok}`)).toMatch(
      /limits.rate: must be off, a rate such as/,
    )
    expect(problem(`limits: { rate: 0/minute }\n${ok}`)).toMatch(/must be off, a rate/)
    expect(problem(`limits: { rate: [] }\n${ok}`)).toMatch(/must be off, a rate/)
    expect(problem(`limits: { rate: 5/0s }\n${ok}`)).toMatch(/must be off, a rate/)
    expect(problem(`limits: { concurrency: 0 }\n${ok}`)).toMatch(/must be off, or a whole number from 1/)
    expect(problem(`limits: { rat: 1/s }\n${ok}`)).toMatch(/did you mean `rate`/)
    expect(problem('upstreams: { it: { command: x, limits: { body: 1MB } } }')).toMatch(/unknown key/)
    expect(problem('upstreams: { it: { command: x, tools: { a: { rate: x } } } }')).toMatch(/must be a rate/)
  })
})

describe('the store setting', () => {
  test('the store is memory or Redis, and its URL is never printed', () => {
    expect(load(`store: memory\n${ok}`).settings.store).toEqual({ kind: 'memory' })
    const { settings, warnings } = load(`store: "\${REDIS}"\n${ok}`, { REDIS: 'redis://u:hunter2@h:6379/1' })
    if (settings.store.kind !== 'redis') throw new Error('it is not Redis')
    expect(settings.store.url.reveal()).toBe('redis://u:hunter2@h:6379/1')
    expect(JSON.stringify(settings)).not.toContain('hunter2')
    expect(warnings).toEqual([])
  })

  test('a store password in the file causes a warning', () => {
    const [warning] = load(`store: redis://u:hunter2@h\n${ok}`).warnings
    expect(warning).toMatchObject({ path: 'store', message: expect.stringContaining('looks like a secret') })
    expect(JSON.stringify(warning)).not.toContain('hunter2')
  })

  test('the path of a store folder is relative to the file', () => {
    expect(load(`store: ./state\n${ok}`).settings.store).toMatchObject({
      kind: 'folder',
      path: expect.stringMatching(/^\/.*\/state$/),
    })
    expect(load(`store: /var/lib/x\n${ok}`).settings.store).toMatchObject({
      kind: 'folder',
      path: '/var/lib/x',
    })
    expect(problem(`store: state.db\n${ok}`)).toMatch(/store: must be memory, the path of a folder such as/)
    expect(problem(`store: ${import.meta.filename}\n${ok}`)).toMatch(/^store: this is a file/)
  })

  test('an unreadable store URL is refused', () => {
    const found = problem(`store: "\${REDIS}"\n${ok}`, { REDIS: 'redis://hunter2@@:x' })
    expect(found).toMatch(/store: must be a URL such as redis:/)
    expect(found).not.toContain('hunter2')
  })

  test.each([
    ['redis+sentinel://a:1', /must name the master as the sentinels do/],
    ['redis+sentinel://a:1,:2/it', /must be a URL such as redis\+sentinel:/],
    ['redis+cluster://a/1', /must have no database/],
    ['redis://a,b', /must be a URL such as redis:/],
    ['redis://a?sentinel-pass=x', /has an unknown parameter/],
    ['redis://a?replicas=two', /must have auto or a whole number from 0 to 9 as replicas/],
    ['redis://a?tls-ca-cert-file=/x', /are for URLs that begin with rediss/],
    ['rediss://a?tls-cert-file=/x', /must have both tls-cert-file and tls-key-file/],
  ])('%s is refused', (url, message) => {
    expect(problem(`store: ${url}\n${ok}`)).toMatch(message)
  })

  test('the password of sentinels in the file causes a warning, and is never printed', () => {
    const { settings, warnings } = load(`store: redis+sentinel://h/it?sentinel-pass=hunter2\n${ok}`)
    expect(warnings).toMatchObject([{ message: expect.stringContaining('looks like a secret') }])
    expect(JSON.stringify([settings, warnings])).not.toContain('hunter2')
  })

  test('a Redis URL can name a database number and escape its password', () => {
    for (const url of ['redis://h', 'rediss://h/', 'redis://u:a%25b@h:1/15'])
      expect(load(`store: ${url}\n${ok}`).settings.store.kind).toBe('redis')
    for (const url of ['rediss+sentinel://u:p@a,b:1,[::1]:2/it/3?sentinel-pass=x', 'redis+cluster://a:1,b'])
      expect(load(`store: ${url}\n${ok}`).settings.store.kind).toBe('redis')
    expect(problem(`store: redis://h/cache\n${ok}`)).toMatch(/store: must give the database by its number/)
    const found = problem(`store: "\${REDIS}"\n${ok}`, { REDIS: 'redis://:hunter%2@h' })
    expect(found).toMatch(/store: has a % in its name or password/)
    expect(found).not.toContain('hunter')
  })
})
