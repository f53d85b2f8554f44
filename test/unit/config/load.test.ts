import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError, problemLine } from '../../../src/config/problem.ts'
import type { Environment } from '../../../src/config/secrets.ts'
import type { Overrides } from '../../../src/config/settings.ts'
import { features } from './features.ts'

const folder = mkdtempSync(join(tmpdir(), 'gatehouse-load-'))
const file = join(folder, 'gateway.config.yaml')
writeFileSync(join(folder, 'token.txt'), 's3cret\n')
afterAll(() => rmSync(folder, { recursive: true }))

function load(text: string, env: Environment = {}, listen?: Overrides['listen']) {
  return loadSettings(text, { file, features, env, ...(listen && { listen }) })
}

function upstream(text: string, env: Environment = {}) {
  return load(`upstreams:\n  it: ${text}`, env).settings.upstreams[0]
}

/** A path too long for any system, which cannot be inspected. */
const far = `/${'x'.repeat(5000)}`

function problems(text: string, env: Environment = {}, listen?: Overrides['listen']): string[] {
  try {
    load(text, env, listen)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map((problem) => problemLine({ ...problem, file: 'f' }))
  }
}

function warnings(text: string, env: Environment = {}): string[] {
  return load(text, env).warnings.map((problem) => problemLine({ ...problem, file: 'f' }))
}

describe('numbers with many digits', () => {
  const long = '725653563933458433'

  test('keep them in rules and examples', () => {
    const example = `{description: x, input: {id: ${long}}, output: ${long}}`
    const { allow, deny, tools } =
      upstream(
        `{command: node, allow: {t: {id: ${long}}}, deny: {u: {id: 1.10}}, tools: {t: {examples: [${example}]}}}`,
      ) ?? {}
    expect(allow).toEqual({ t: { id: long } })
    expect(deny).toEqual({ u: { id: '1.10' } })
    expect(JSON.stringify(tools)).toContain(`"input":{"id":${long}},"output":${long}`)
  })

  test.each([
    ['listen: {port: 725653563933458433}', {}],
    ['limits: {body: 725653563933458433}', {}],
    ['listen: {port: "${PORT}"}', { PORT: long }],
    ['observe: {traces: {endpoint: http://x, sample: 0.12345678901234567890}}', {}],
  ])('are a problem in the setting %s', (text, env) => {
    expect(problems(`upstreams: {it: node}\n${text}`, env)).toEqual([
      expect.stringMatching(/^f:2:\d+ .*has more digits than a number here can have/),
    ])
  })
})

describe('likely typos are named', () => {
  const deeper =
    'this is indented further than the line above, which already has a value: align the two, or remove that value'
  test.each([
    ['upstreams:\n  it:\n    command: npx\n      args: [x]\n', `f:4:7 ${deeper}`],
    ['upstreams:\n  it:\n    url: http://x/mcp\n      # a comment\n', undefined],
    ['store: memory\n  upstreams:\n    it: x\n', `f:2:3 ${deeper}`],
    ['upstreams:\n  it:\n    url: http://x/mcp\n\n     token: y\n', `f:5:6 ${deeper}`],
    ['a: b: c\n', 'f:1:4 there is a second `: ` on this line: put the value in quotes'],
  ])('the indentation problem is named: %j', (text, found) => {
    expect(problems(text)).toEqual(found === undefined ? [] : [found])
  })

  test.each([
    ['htp://x/mcp', 'MCP servers do not use the scheme htp://: write http://'],
    ['htttps://x/mcp', 'MCP servers do not use the scheme htttps://: write https://'],
    ['ws://x/mcp', 'MCP servers do not use the scheme ws://: write http:// or https://'],
    ['https//x/mcp', 'the URL is incomplete: write https:// before the host'],
    ['http:/x/mcp', 'the URL is incomplete: write http:// before the host'],
    ['localhost:3000/mcp', 'this has a port but no scheme: write http:// or https:// before it'],
    ['10.0.0.7:80', 'this has a port but no scheme: write http:// or https:// before it'],
    ['some-server', undefined],
    ['npx -y some-server http:/x', undefined],
    ['C:/tools/server.exe', undefined],
    ['./run.sh', undefined],
  ])('the problem with a URL is named: %s', (text, found) => {
    expect(problems(`upstreams:\n  it: ${text}`)).toEqual(
      found === undefined ? [] : [`f:2:7 upstreams.it: ${found}`],
    )
  })
})

describe('the smallest configuration', () => {
  const { settings, warnings: none } = load('upstreams:\n  files: npx -y some-server "/srv/my docs"\n')

  test('the smallest configuration gets every default', () => {
    expect(none).toEqual([])
    expect(settings).toEqual({
      file,
      profile: 'open',
      fleet: {},
      profiles: [],
      auth: {
        principal: { id: 'anonymous', isEverybody: true },
        realm: 'gatehouse',
        tokens: [],
        users: [],
        anonymous: [],
        authorizationServers: [],
        scopesSupported: [],
        scopeMap: {},
        session: { maxTtl: 28_800_000, idle: 1_800_000 },
      },
      observe: { metrics: true, calls: expect.any(Object) as object },
      listen: {
        host: '127.0.0.1',
        port: 8900,
        origins: [],
        legacySse: false,
        operatorMcp: false,
        aggregate: true,
        aggregateTimeout: 2000,
        body: 1_048_576,
        isStrict: false,
      },
      workers: 1,
      store: {
        kind: 'folder',
        path: join(dirname(file), '.gatehouse'),
        sentinels: expect.stringMatching(/gatehouse.stores$/),
      },
      metaTools: 'hidden',
      events: new Map([
        [undefined, new Map()],
        ['files', new Map()],
      ]),
      hasMethods: true,
      secrets: [],
      names: [],
      upstreams: [
        {
          name: 'files',
          reach: {
            kind: 'command',
            command: 'npx',
            args: ['-y', 'some-server', '/srv/my docs'],
            env: {},
            cwd: folder,
          },
          prefix: 'auto',
          transport: 'auto',
          revision: 'follow',
          isolation: 'auto',
          trust: true,
          roots: 'off',
          startTimeout: 30_000,
          reconnect: 3000,
          idle: 600_000,
          renames: {},
          tools: {},
          scopes: {},
          allow: {},
          deny: {},
          errors: [],
          about: {},
          intent: [],
          recommend: [],
        },
      ],
      features: {
        limits: { common: { timeout: 30_000, result: 10_485_760, concurrency: 8 }, upstreams: {} },
        confirm: {
          common: { level: 'destructive', ttl: 300_000, remember: false, after: 'never' },
          upstreams: {},
        },
      },
    })
  })
})

describe('upstream settings', () => {
  test.each([
    ['a URL as a string', 'https://h.example/mcp'],
    ['a URL from a reference', '${URL}'],
    ['a URL in settings', '{ url: https://h.example/mcp }'],
    ['a URL from a reference in settings', '{ url: "${URL}" }'],
  ])('an upstream can be %s and is untrusted', (_what, text) => {
    expect(upstream(text, { URL: 'https://h.example/mcp' })).toMatchObject({
      reach: { kind: 'url', url: 'https://h.example/mcp', headers: {} },
      trust: false,
    })
  })

  test.each([
    ['a command line', "node 'a b' c"],
    ['a list', "{ command: [node, 'a b', c] }"],
    ['a command and arguments', "{ command: node, args: ['a b', c] }"],
    ['a command line with a reference whose value contains a space', 'node ${WORD} c'],
  ])('an upstream can be %s', (_what, text) => {
    expect(upstream(text, { WORD: 'a b' })?.reach).toMatchObject({ command: 'node', args: ['a b', 'c'] })
  })

  test('words, quotes and operators in the value of a variable are not interpreted', () => {
    const reach = upstream('node ${WORD}', { WORD: '"; rm -rf / | x' })?.reach
    expect(reach).toMatchObject({ args: ['"; rm -rf / | x'] })
  })

  test('environment variables are kept as written and treated as secrets', () => {
    const reach = upstream('{ command: x, env: { A: 1.10, B: on, C: "${C}", D: 0x10 } }', { C: 'c' })?.reach
    const env = reach?.kind === 'command' ? reach.env : {}
    const values = Object.entries(env).map(([name, value]) => [name, value.reveal()])
    expect(values).toEqual([
      ['A', '1.10'],
      ['B', 'on'],
      ['C', 'c'],
      ['D', '0x10'],
    ])
  })

  test('a token becomes an authorization header next to the other headers', () => {
    const reach = upstream('{ url: https://h/mcp, token: "${T}", headers: { X-Version: 1.0 } }', {
      T: 't',
    })?.reach
    const headers = reach?.kind === 'url' ? reach.headers : {}
    expect(headers.authorization?.reveal()).toBe('Bearer t')
    expect(headers['x-version']?.reveal()).toBe('1.0')
    expect(JSON.stringify(reach)).not.toContain('Bearer')
  })

  test.each([
    ['off', 'off'],
    ['client', 'client'],
    ['[file:///srv]', ['file:///srv']],
  ])('an upstream has the roots %s', (text, roots) => {
    expect(upstream(`{ command: x, roots: ${text} }`)?.roots).toEqual(roots)
  })

  test('an upstream runs in a directory relative to the file', () => {
    expect(load(`upstreams: { it: { command: x, cwd: . } }`).settings.upstreams[0]?.reach).toMatchObject({
      cwd: folder,
    })
  })
})

describe('references', () => {
  test('a file reference is relative to the configuration and drops the final line break', () => {
    const reach = upstream('{ url: https://h/mcp, token: "${file:token.txt}" }')?.reach
    expect(reach?.kind === 'url' && reach.headers.authorization?.reveal()).toBe('Bearer s3cret')
  })

  test.each([
    ['${A}', 'x'],
    ['${NONE:-fallback}', 'fallback'],
    ['${EMPTY:-fallback}', 'fallback'],
    ['a${A}b${A}', 'axbx'],
    ['$${A}', '${A}'],
    ['$5', '$5'],
  ])('the reference %s expands to %s', (text, expected) => {
    const reach = upstream(`{ command: node, args: ['${text}'] }`, { A: 'x', EMPTY: '' })?.reach
    expect(reach).toMatchObject({ args: [expected] })
  })

  test('a reference becomes a number where a number is expected', () => {
    const { settings } = load('listen: { port: "${PORT}" }\nupstreams: { it: x }', { PORT: '8080' })
    expect(settings.listen.port).toBe(8080)
  })

  test('all unresolved references are reported', () => {
    const text =
      'upstreams:\n  it:\n    command: x\n    args: ["${A} ${B}", "${file:/nowhere}", "${env:C}", "${D"]\n'
    expect(problems(text)).toEqual([
      'f:4:12 upstreams.it.args[0]: the environment variable A is not set: set it, or write ${A:-default}',
      'f:4:12 upstreams.it.args[0]: the environment variable B is not set: set it, or write ${B:-default}',
      'f:4:25 upstreams.it.args[1]: the file /nowhere cannot be read: it does not exist',
      'f:4:45 upstreams.it.args[2]: this is not a reference: write ${C}, or $${ for a literal ${',
      'f:4:57 upstreams.it.args[3]: a `${` is not closed: write ${NAME}, or $${ for a literal ${',
    ])
  })
})

describe('feature settings', () => {
  const settings = (text: string) => load(`upstreams: { one: x, two: y }\n${text}`).settings.features
  const defaults = { level: 'destructive', ttl: 300_000, remember: false, after: 'never' }

  test.each(['off', 'false', '"off"'])('a feature set to %s is absent', (off) => {
    expect(settings(`features: { confirm: ${off} }`)).not.toHaveProperty('confirm')
  })

  test.each(['on', 'true', '{}', ''])('a feature set to %j has its defaults', (on) => {
    expect(settings(`features: { confirm: ${on} }`).confirm?.common).toEqual(defaults)
  })

  test('a feature that is off by default can be switched on', () => {
    expect(settings('features: { hints: on }').hints?.common).toEqual({ words: 5 })
  })

  test('none switches all features off except top-level ones', () => {
    expect(Object.keys(settings('features: none'))).toEqual(['limits'])
  })

  test('durations, switches, secrets and choices are parsed', () => {
    const common = settings('features: { confirm: { ttl: 1m, remember: on, key: k, after: {} } }').confirm
      ?.common
    expect(common).toMatchObject({ ttl: 60_000, remember: true, after: { calls: 3 } })
    expect(JSON.stringify(common)).toContain('"key":"***"')
  })

  test('settings of an upstream are merged over the common settings', () => {
    const { confirm, limits } = load(`
limits: { timeout: 5s }
features: { confirm: { ttl: 1m } }
upstreams:
  one: { command: x, limits: { concurrency: 1 }, features: { confirm: { level: all } } }
  two: { command: x, features: none }
  three: x
`).settings.features
    expect(confirm).toEqual({
      common: { ...defaults, ttl: 60_000 },
      upstreams: { one: { ...defaults, ttl: 60_000, level: 'all' }, two: false },
    })
    expect(limits).toEqual({
      common: { timeout: 5000, result: 10_485_760, concurrency: 8 },
      upstreams: { one: { timeout: 5000, result: 10_485_760, concurrency: 1 } },
    })
  })

  test('a feature switched on for one upstream only is off for the others', () => {
    const { confirm } = load(`
features: { confirm: off }
upstreams: { one: { command: x, features: { confirm: on } }, two: x }
`).settings.features
    expect(confirm).toEqual({ common: false, upstreams: { one: defaults } })
  })
})

describe('listen settings', () => {
  test('listen accepts all its keys', () => {
    const { listen } = load(`
listen: { host: 0.0.0.0, port: 0, public_url: https://m.example, origins: https://a.example, legacy_sse: on, aggregate: off, aggregate_timeout: 5s }
auth: none
limits: { body: 64KB }
upstreams: { it: x }
`).settings
    expect(listen).toEqual({
      host: '0.0.0.0',
      port: 0,
      publicUrl: 'https://m.example',
      origins: ['https://a.example'],
      legacySse: true,
      operatorMcp: false,
      aggregate: false,
      aggregateTimeout: 5000,
      body: 65_536,
      isStrict: false,
    })
  })

  test('the command line overrides listen', () => {
    const { listen } = load('listen: { port: 1, host: ::1 }\nupstreams: { it: x }', {}, { port: 2 }).settings
    expect(listen).toMatchObject({ host: '::1', port: 2 })
  })

  test('an address from the command line is checked like one from the file', () => {
    expect(problems('upstreams: { it: x }', {}, { host: '0.0.0.0' })[0]).toMatch(
      /every tool: configure `auth`, write `auth: none`/,
    )
  })

  test.each(['127.0.0.1', '127.1.2.3', 'localhost', '::1'])('host %s needs no auth', (host) => {
    expect(problems(`listen: { host: "${host}" }\nupstreams: { it: x }`)).toEqual([])
  })
})

describe('configuration problems', () => {
  const it = 'upstreams: { it: x }\n'
  const one = (settings: string) => `upstreams:\n  it: { ${settings} }\n`

  test.each([
    ['an empty file', '', 'f:1:1 needs `upstreams`, which must name at least one server'],
    ['a list', '- 1', 'f:1:1 must be a mapping with `upstreams:`'],
    ['no upstreams', 'upstreams: {}', 'f:1:1 upstreams: must name at least one server'],
    [
      'an upstream without a value',
      'upstreams:\n  it:\n',
      'f:2:3 upstreams.it: must be a command line, a URL',
    ],
    ['an empty upstream', 'upstreams:\n  it: ""\n', 'f:2:7 upstreams.it: must be a command line'],
    ['a number', 'upstreams:\n  it: 3\n', 'f:2:7 upstreams.it: must be a command line'],
    ['an unknown key', `${it}listn: {}`, 'f:2:1 listn: unknown key; did you mean `listen`?'],
    [
      'an unknown key unlike any known one',
      `${it}zzz: {}`,
      'f:2:1 zzz: unknown key; allowed here: version, profile, compat, listen',
    ],
    ['an unknown nested key', one('command: x, star_timeout: 1s'), 'did you mean `start_timeout`?'],
    [
      'an unknown feature',
      `${it}features: { confrim: on }`,
      'f:2:13 features.confrim: unknown key; did you mean `confirm`?',
    ],
    [
      'an unknown word',
      one('command: x, isolation: per-client'),
      'shared, per_client; did you mean `per_client`?',
    ],
    [
      'an unknown revision',
      one('command: x, revision: 2025-06-19'),
      'must be one of follow, auto, 2024-11-05',
    ],
    [
      'an invalid duration',
      one('command: x, idle: 10'),
      'f:2:27 upstreams.it.idle: must be a duration such as',
    ],
    ['an invalid size', `${it}limits: { body: big }`, 'f:2:17 limits.body: must be a size such as'],
    [
      'a number below the minimum',
      `${it}limits: { concurrency: 0 }`,
      'limits.concurrency: must be at least 1',
    ],
    ['an invalid switch', `${it}listen: { aggregate: maybe }`, 'listen.aggregate: must be on or off'],
    ['an invalid choice', `${it}features: { confirm: { after: 1 } }`, 'must be "never", or a mapping'],
    [
      'a typo inside a choice',
      `${it}features: { confirm: { after: { cals: 1 } } }`,
      'after.cals: unknown key; did you mean `calls`?',
    ],
    ['a misspelled off', `${it}features: { confirm: of }`, 'must be on, off, or a mapping of settings'],
    ['an unsupported version', `${it}version: 2`, 'f:2:10 version: must be 1'],
    [
      'a port above the maximum',
      `${it}listen: { port: 65536 }`,
      'f:2:17 listen.port: must be a whole number from 0',
    ],
    ['a host with a scheme', `${it}listen: { host: "http://x" }`, 'without a scheme'],
    [
      'a public_url with an unsupported scheme',
      `${it}listen: { public_url: "ftp://x" }`,
      'must be a URL such as',
    ],
    [
      'an origin with a path',
      `${it}listen: { origins: [https://x/y] }`,
      'listen.origins[0]: must be an origin',
    ],
    [
      'an address open to the network without auth',
      `${it}listen: { host: 0.0.0.0 }`,
      'f:2:17 listen.host: everyone who can reach',
    ],
    [
      'any origin on an address open to the network',
      `${it}auth: none\nlisten: { host: "::", origins: ["*"] }`,
      '`*` allows any web page',
    ],
    ['an incomplete auth', `${it}auth: { jwt: {} }`, 'f:2:9 auth.jwt: needs `issuer`'],
    ['an invalid name', 'upstreams:\n  My_Files: x', 'f:2:3 upstreams.My_Files: the name must be lower-case'],
    ['a reserved name', 'upstreams:\n  server-card: x', 'for example `server-card-2`'],
    ['the name of the gateway', 'upstreams:\n  gatehouse: x', 'for example `gatehouse-2`'],
    ['neither command nor url', one('idle: 1m'), 'f:2:3 upstreams.it: needs `command` or `url`'],
    ['command and url', one('url: https://h, command: x'), 'upstreams.it.command: `url` is also set'],
    ['sse with a command', one('command: x, transport: sse'), 'requires `url`'],
    ['stdio with a url', one('url: https://h, transport: stdio'), 'requires `command`'],
    ['a token with a command', one('command: x, token: "${T}"'), 'requires `url`: set secrets of a command'],
    ['env with a url', one('url: https://h, env: { A: b }'), 'upstreams.it.env: requires `command`'],
    [
      'two authorizations',
      one('url: https://h, token: "${T}", headers: { Authorization: "${T}" }'),
      '`token` already sets this',
    ],
    [
      'a header of the gateway',
      one('url: https://h, headers: { Host: x }'),
      'the gateway sets this header itself',
    ],
    ['a multi-line header', one('url: https://h, headers: { A: "b\\nc" }'), 'must be text on one line'],
    [
      'a header name with a space',
      one('url: https://h, headers: { "A b": c }'),
      'the name must be a header name',
    ],
    [
      'a url with an unsupported scheme',
      one('url: ftp://h'),
      'upstreams.it.url: must start with http:// or https://',
    ],
    ['an invalid url', one('url: "http://"'), 'must be a complete URL'],
    ['a url with a password', one('url: https://u:p@h'), 'must not contain a user and password'],
    [
      'a proxy of another kind',
      one('url: https://h, proxy: "socks5://p"'),
      'proxy: must be env, off, or the URL',
    ],
    [
      'a proxy without a scheme',
      one('url: https://h, proxy: "p:3128"'),
      'proxy: must be env, off, or the URL',
    ],
    [
      'a proxy without a host',
      one('url: https://h, proxy: "http://"'),
      'proxy: must be env, off, or the URL',
    ],
    ['a proxy of a command', one('command: x, proxy: off'), 'upstreams.it.proxy: requires `url`'],
    ['a missing folder', one('command: x, cwd: nowhere'), 'upstreams.it.cwd: this directory does not exist'],
    [
      'a folder that cannot be inspected',
      one(`command: x, cwd: ${far}`),
      'this directory cannot be read: ENAMETOOLONG',
    ],
    [
      'a store that cannot be inspected',
      `${it}store: ${far}`,
      'f:2:8 store: this folder cannot be read: ENAMETOOLONG',
    ],
    ['a file as a folder', one('command: x, cwd: token.txt'), 'this is not a directory'],
    ['an empty command', one('command: []'), 'must be a command line such as'],
    ['roots that are not URIs', one('command: x, roots: [srv]'), 'roots[0]: must be a URI'],
    ['a pipe', 'upstreams:\n  it: a | b', 'f:2:7 upstreams.it: `|` needs a shell'],
    ['a missing anchor', 'upstreams:\n  it: *x', 'f:2:7 upstreams.it: the anchor &x is not defined above'],
    [
      'an unquoted reference in braces',
      'upstreams:\n  it: { url: https://h, token: ${T} }',
      'must be quoted: "${NAME}"',
    ],
    ['a tab', 'upstreams:\n\tit: x', 'f:2:1 a tab cannot be used'],
    ['two documents', 'upstreams: { it: x }\n---\na: 1', 'f:2:1 the file must contain one document'],
  ])('the problem message names %s', (_what, text, expected) => {
    const found = problems(text, { T: 't' })
    expect(found).toHaveLength(1)
    expect(found[0]).toContain(expected)
  })

  test('all problems are reported at once, in file order', () => {
    const text = `version: 2
listen: { prot: 1 }
upstreams:
  a: x
  a: y
  b: { command: x, idle: soon }
  b: z
  c: { url: "\${NOWHERE}" }
`
    expect(problems(text).map((line) => line.split(' ')[0])).toEqual([
      'f:1:10',
      'f:2:11',
      'f:5:3',
      'f:7:3',
      'f:8:13',
    ])
  })

  test('syntax errors are reported together, without their consequences', () => {
    const text = 'upstreams:\n  a: "x\\q"\n  b: @y\n\tc: z\n'
    expect(problems(text).map((line) => line.split(' ')[0])).toEqual(['f:2:8', 'f:3:6', 'f:4:1'])
  })

  test('nested anchors that expand without bound are refused', () => {
    const levels = Array.from({ length: 30 }, (_, level) => {
      const below = level === 0 ? 'x' : `*a${level - 1}, *a${level - 1}`
      return `  - &a${level} [${below}]`
    })
    expect(problems(`upstreams:\n${levels.join('\n')}\n`)[0]).toContain('expands to more than')
    expect(problems('upstreams: &a { it: *a }').length).toBeGreaterThan(0)
  })

  test.each([
    ['an invalid value', 'upstreams:\n  it: { url: "${S}", transport: "${S}", idle: "${S}", cwd: "${S}" }'],
    ['an invalid type', 'upstreams:\n  it: { command: ["${S}"], args: "${S}", roots: ["${S}"] }'],
    ['invalid syntax', 'upstreams:\n  it: "x" hunter2-hunter2\n  y: @hunter2-hunter2\n: hunter2-hunter2'],
    ['an invalid port', 'upstreams: { it: x }\nlisten: { port: "${S}", host: "${S} ", public_url: "${S}" }'],
  ])('problem messages never print configured values with %s', (_what, text) => {
    const found = problems(text, { S: 'hunter2-hunter2' })
    expect(found.length).toBeGreaterThan(0)
    expect(found.join('\n')).not.toContain('hunter2')
  })
})

describe('configuration warnings', () => {
  test.each([
    ['a token', '{ url: https://h, token: plain }'],
    ['a well-known token format in an argument', 'npx x --key ghp_abcdefghij0123456789'],
    ['a bearer header', '{ url: https://h, headers: { X-Auth: "Bearer abcdefgh123" } }'],
    ['a secret header', '{ url: https://h, headers: { x-api-key: abc } }'],
    ['a secret variable', '{ command: x, env: { DB_PASSWORD: abc } }'],
    ['a variable with a secret member', `{ command: x, env: { A: '{"apiKey":"abc"}' } }`],
    ['a variable with a connection string', '{ command: x, env: { A: "Server=h;Pwd=abc" } }'],
    ['a JWT', '{ command: x, env: { A: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc } }'],
  ])('a warning names %s written into the file without printing it', (_what, text) => {
    const found = warnings(`upstreams:\n  it: ${text}`)
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(/^f:2:\d+ upstreams\.it.*: this looks like a secret: .* \$\{NAME\}/)
    expect(found[0]).not.toMatch(/plain|abc|eyJ/)
  })

  test('a warning names a secret sent over plain HTTP to another host', () => {
    expect(warnings('upstreams:\n  it: { url: http://h.example, token: "${T}" }', { T: 't' })).toEqual([
      'f:2:14 upstreams.it.url: secrets are sent to this server unencrypted: use https:// if available',
    ])
  })

  test.each([
    '{ url: http://127.0.0.1:1, token: "${T}" }',
    '{ command: x, env: { LOG_LEVEL: debug, T: "${T}" } }',
  ])('no warning is given for %s', (text) => {
    expect(warnings(`upstreams:\n  it: ${text}`, { T: 't' })).toEqual([])
  })
})

describe('the proxy of a server', () => {
  const proxyIn = (text: string, env: Environment = {}): unknown => {
    const reach = upstream(`{ url: https://h${text} }`, env)?.reach
    return reach?.kind === 'url' ? reach.proxy : undefined
  }

  test.each(['', ', proxy: env'])('is that of the environment: %s', (text) => {
    expect(proxyIn(text)).toBeUndefined()
  })

  test('is off, or a URL whose credentials are a secret', () => {
    expect(proxyIn(', proxy: off')).toBe('off')
    expect(proxyIn(', proxy: "http://p:3128"')).toEqual({ url: 'http://p:3128' })
    const proxy = proxyIn(', proxy: "http://me:${P}@p:3128"', { P: 'password' })
    expect(proxy).toMatchObject({ url: 'http://p:3128' })
    expect(JSON.stringify(proxy)).not.toMatch(/password|cGFzc3dvcmQ/)
    expect(proxyIn(', proxy: "${P}"', { P: 'http://p' })).toEqual({ url: 'http://p' })
  })

  test('is better not written with its password', () => {
    const text = (proxy: string): string => `upstreams:\n  it: { url: https://h, proxy: "${proxy}" }`
    expect(warnings(text('http://me:password@p'))).toEqual([expect.stringContaining('looks like a secret')])
    expect(warnings(text('http://p'))).toEqual([])
    expect(warnings(text('http://me:${P}@p'), { P: 'x' })).toEqual([])
  })
})
