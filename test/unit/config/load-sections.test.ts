import { Secret } from '../../../src/core/text/secret.ts'
import { describe, expect, it, test } from 'vitest'
import { loadAddress, loadStored } from '../../../src/config/load-sections.ts'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError, problemLine } from '../../../src/config/problem.ts'

const options = { file: '/x/gateway.config.yaml', env: {} }

function problemsOf(load: () => unknown): readonly string[] {
  try {
    load()
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(problemLine)
    throw error
  }
}

const servers = 'upstreams: { one: "node one.js", two: "node two.js" }\n'

describe('the settings of the store and of the audit log, read alone', () => {
  test.each([
    ['the defaults', ''],
    ['a folder', 'store: ./kept\n'],
    ['memory', 'store: memory\n'],
    ['Redis', 'store: redis://me:secret@127.0.0.1:6379/2\n'],
    ['the profile corporate', 'profile: corporate\n'],
    ['no audit log in the profile corporate', 'profile: corporate\nobserve: { audit: off }\n'],
    ['a file for the audit log', 'observe: { audit: ./log.jsonl }\n'],
    [
      'an audit log with all settings',
      'observe: { audit: { file: a.jsonl, key: "0123456789abcdef", max_size: 1MB, keep: 3 } }\n',
    ],
  ])('are those of the whole configuration: %s', (_name, text) => {
    const corporate = text.includes('corporate')
      ? 'auth: { jwt: { issuer: https://a.example, audience: x } }\n'
      : ''
    const { settings } = loadSettings(text + corporate + servers, options)
    const { store, observe, servers: names } = loadStored(text + servers, options)
    expect(store).toEqual(settings.store)
    expect(observe.audit).toEqual(settings.observe.audit)
    expect(names).toEqual(['one', 'two'])
  })

  it('do not depend on other sections', () => {
    const text = `store: memory
profile: open
listen: { port: "\${PORT}" }
observe: { traces: { endpoint: "\${TRACES}", headers: { a: "\${TOKEN}" } }, log: { level: loud } }
auth: [nothing]
features: { confirm: { level: most } }
limits: { body: huge }
methods: perhaps
unknown_section: 1
upstreams: { One: { url: "\${URL}", token: "\${TOKEN}" }, two: 5 }
`
    expect(loadStored(text, options)).toEqual({
      store: { kind: 'memory' },
      observe: { metrics: true, calls: expect.any(Object) as object },
      servers: ['One', 'two'],
      secrets: [expect.any(Secret)],
      mayScriptsApprove: false,
    })
    expect(problemsOf(() => loadSettings(text, options)).length).toBeGreaterThan(5)
  })

  it('read references, and require those that they have', () => {
    const text = 'store: "${FOLDER}"\n'
    expect(loadStored(text, { ...options, env: { FOLDER: '/kept' } }).store).toMatchObject({ path: '/kept' })
    expect(problemsOf(() => loadStored(text, options))).toEqual([
      expect.stringMatching(/gateway.config.yaml:1:8 store: the environment variable FOLDER is not set/),
    ])
  })

  test.each([
    ['store: 5\n', /:1:8 store: must be memory, the path of a folder/],
    ['store: redis://127.0.0.1:6379/first\n', /:1:8 store: must give the database by its number/],
    ['observe: { audit: { files: x } }\n', /observe\.audit\.files: .*did you mean `file`\?/],
    ['observe: [audit]\n', /observe: must be a mapping/],
    ['profile: strict\n', /:1:10 profile: must be one of open, corporate/],
    ['version: 2\n', /:1:10 version: must be 1/],
    ['stor: ./kept\n', /:1:1 stor: .*did you mean `store`\?/],
    ['store: ./a\nstore: ./b\n', /:2:1.* the key "store" is duplicated/],
    ['- store\n', /must be a mapping/],
    ['store: [\n', /:2:1|:1:/],
  ])('have the problems of the whole configuration: %j', (text, problem) => {
    const found = problemsOf(() => loadStored(text, options))
    expect(found).toEqual([expect.stringMatching(problem)])
    expect(problemsOf(() => loadSettings(text, options))).toEqual(expect.arrayContaining([found[0]]))
  })
})

describe('the address on which a gateway listens, read alone', () => {
  test.each([
    ['', '127.0.0.1', 8900],
    ['listen: { host: 0.0.0.0, port: 80 }\nstore: 5\n', '0.0.0.0', 80],
    ['listen: { port: "${PORT}" }\nauth: { jwt: { secret: "${SECRET}" } }\n', '127.0.0.1', 9000],
  ])('%j', (text, host, port) => {
    expect(loadAddress(text, { ...options, env: { PORT: '9000' } })).toEqual({ host, port })
  })

  it('has the problems of its section', () => {
    expect(problemsOf(() => loadAddress('listen: { port: many }\n', options))).toEqual([
      expect.stringMatching(/:1:17 listen\.port: must be a whole number/),
    ])
  })
})
