import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError, problemLine } from '../../../src/config/problem.ts'
import { isProtected } from '../../../src/core/auth-settings.ts'

function load(text: string) {
  return loadSettings(`upstreams: { it: x }\n${text}`, { file: 'f', env: { SECRET: 'hush hush' } })
}

function auth(text: string) {
  return load(`auth: { ${text} }`).settings.auth
}

function problems(text: string): string[] {
  try {
    load(text)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map((problem) => problemLine({ ...problem, file: 'f' }).replace(/^f:\d+:\d+ /, ''))
  }
}

const jwt = 'jwt: { issuer: "https://idp.example.com" }'
const hash = `sha256:saltsalt:${'0'.repeat(64)}`
const open = 'listen: { host: 0.0.0.0, public_url: "https://mcp.example.com" }'

describe('auth settings', () => {
  it('auth is off unless it is configured', () => {
    for (const text of ['', 'auth: none']) {
      const { settings } = load(text)
      expect(isProtected(settings.auth)).toBe(false)
      expect(settings.auth).toMatchObject({
        realm: 'gatehouse',
        principal: { id: 'anonymous' },
        session: { maxTtl: 28_800_000, idle: 1_800_000 },
        authorizationServers: [],
      })
    }
  })

  it('C066 signed tokens are configured by the URL of their issuer', () => {
    const settings = auth(jwt)
    expect(isProtected(settings)).toBe(true)
    expect(settings.jwt).toEqual({
      issuer: 'https://idp.example.com',
      audiences: [],
      algorithms: ['RS256', 'ES256'],
      requiredClaims: [],
      scopeClaim: 'scope',
    })
    expect(settings.authorizationServers).toEqual(['https://idp.example.com'])
  })

  it('auth accepts all of its settings', () => {
    const settings = auth(`
      jwt: { issuer: me, audience: [a, b], jwks: "https://idp.example.com/keys", algorithms: [EdDSA], required_claims: tenant, scope_claim: scp },
      opaque: { introspect: { url: "https://idp.example.com/ask", client_id: gate, client_secret: "\${SECRET}" }, tokens: [{ hash: "${hash}", id: robot, scopes: one }] },
      basic: { users: [{ name: prometheus, password_hash: "${hash.replace('sha256', 'scrypt')}" }] },
      oauth: { authorization_servers: "https://idp.example.com", scopes_supported: [one, two] },
      realm: tools, anonymous: [tools/list], principal: { id: me, scopes: [one] },
      session: { max_ttl: 1h }, elevate_url: "https://idp.example.com/more", scope_map: { all: [one, two], "*": three }`)
    expect(settings).toMatchObject({
      jwt: { audiences: ['a', 'b'], algorithms: ['EdDSA'], requiredClaims: ['tenant'], scopeClaim: 'scp' },
      introspect: { clientId: 'gate', requiresAudience: true },
      tokens: [{ id: 'robot', scopes: ['one'] }],
      users: [{ name: 'prometheus' }],
      authorizationServers: ['https://idp.example.com'],
      scopesSupported: ['one', 'two'],
      realm: 'tools',
      anonymous: ['tools/list'],
      principal: { id: 'me', scopes: new Set(['one']) },
      session: { maxTtl: 3_600_000, idle: 1_800_000 },
      elevateUrl: 'https://idp.example.com/more',
      scopeMap: { all: ['one', 'two'], '*': ['three'] },
    })
    expect(settings.introspect?.clientSecret.reveal()).toBe('hush hush')
    const said = JSON.stringify(settings) + inspect(settings, { depth: 9 })
    for (const secret of ['hush', '0000000000']) expect(said).not.toContain(secret)
  })

  it('C061 auth is required when other hosts can reach the address', () => {
    const refused = /^listen\.host: everyone who can reach this address could call every tool/
    expect(problems('listen: { host: 0.0.0.0 }')).toEqual([expect.stringMatching(refused)])
    expect(problems('listen: { host: 0.0.0.0 }\nauth: { realm: x }')).toEqual([
      expect.stringMatching(refused),
    ])
    expect(problems('listen: { host: 0.0.0.0 }\nauth: none')).toEqual([])
    expect(problems(`${open}\nauth: { ${jwt} }`)).toEqual([])
  })

  it('C009 auth is required in the corporate profile, whatever the address', () => {
    const refused = 'profile: corporate needs `auth` with `jwt` or `opaque` at the top level of the file'
    expect(problems('profile: corporate')).toContain(refused)
    expect(problems('profile: corporate\nauth: none')).toContain(refused)
    expect(problems(`profile: corporate\nauth: { ${jwt} }`)).not.toContain(refused)
  })

  it('C220 shared keys are accepted only under development', () => {
    const secret = 'a shared key of more than 32 characters'
    const shared = `jwt: { issuer: me, secret: ${secret} }`
    expect(auth(`${shared}, development: on`).jwt).toMatchObject({ algorithms: ['HS256'] })
    expect(problems(`auth: { ${shared} }`)).toEqual([
      'auth.jwt.secret: needs `development: on` under `auth`: use `jwks` elsewhere',
    ])
    expect(problems(`profile: corporate\nauth: { ${shared}, development: on }`)).toContain(
      'auth.development: is not allowed with `profile: corporate`',
    )
    expect(problems('auth: { jwt: { issuer: me, secret: short }, development: on }')).toEqual([
      'auth.jwt.secret: must be 32 characters or more',
    ])
    expect(load(`features: none\nauth: { ${shared}, development: on }`).warnings).toHaveLength(1)
  })

  it.each([
    ['auth: tokens', 'auth: must be none, or a mapping with `jwt:` or `opaque:`'],
    ['auth: { jwt: {} }', 'auth.jwt: needs `issuer`, which must be text'],
    [
      'auth: { jwt: { issuer: me } }',
      'auth.jwt.issuer: must be a URL such as https://idp.example.com, or give `jwks` too',
    ],
    [
      'auth: { jwt: { issuer: "http://idp.example.com" } }',
      'auth.jwt.issuer: must be https://, except on loopback, or give `jwks` too',
    ],
    [
      'auth: { jwt: { issuer: me, jwks: "http://a.b/keys" } }',
      'auth.jwt.jwks: must be https://, except on loopback',
    ],
    [
      'auth: { jwt: { issuer: me, jwks: "https://a.b/keys", algorithms: [HS256] } }',
      'auth.jwt.algorithms: HS256 requires `secret`',
    ],
    [
      'auth: { jwt: { issuer: me, jwks: "https://a.b/keys", algorithms: [none] } }',
      /^auth\.jwt\.algorithms\[0\]: must be one of RS256/,
    ],
    [
      `listen: { host: 0.0.0.0 }\nauth: { ${jwt} }`,
      'auth.jwt: needs `audience` here or `listen.public_url`, to verify that tokens are for this server',
    ],
    ['auth: { opaque: { tokens: [] } }', 'auth.opaque: needs `introspect` or at least one of `tokens`'],
    [
      'auth: { opaque: { tokens: [{ id: a, hash: plain }] } }',
      /^auth\.opaque\.tokens\[0\]\.hash: must be sha256:<salt/,
    ],
    [
      `auth: { opaque: { tokens: [{ id: a, hash: "${hash}" }, { id: a, hash: "${hash}" }] } }`,
      'auth.opaque.tokens[1].id: another token has this id',
    ],
    [
      'auth: { opaque: { introspect: { url: "http://a.b", client_id: a, client_secret: b } } }',
      'auth.opaque.introspect.url: must be https://, except on loopback',
    ],
    [
      `listen: { host: 0.0.0.0 }\nauth: { jwt: { issuer: "https://a.b", audience: c }, basic: { users: [{ name: a, password_hash: "${hash.replace('sha256', 'scrypt')}" }] } }`,
      'auth.basic: passwords only travel over https: give an https:// `listen.public_url`, or listen on 127.0.0.1',
    ],
    [
      `auth: { oauth: { authorization_servers: "https://a.b" }, opaque: { tokens: [{ id: a, hash: "${hash}" }] } }`,
      'auth.oauth: needs `jwt` or `opaque.introspect`',
    ],
    [
      'auth: { anonymous: [tools/list] }',
      'auth.anonymous: needs `jwt` or `opaque`: otherwise everything is public',
    ],
    [`auth: { ${jwt}, anonymous: [tools/call] }`, /^auth\.anonymous\[0\]: must be one of tools\/list/],
    [`auth: { ${jwt}, scope_map: { a: "two words" } }`, /^auth\.scope_map\.a: must be a list of scopes/],
    [`auth: { ${jwt}, realm: 'with "quotes"' }`, /^auth\.realm: must be a name/],
    [`auth: { ${jwt}, elevate_ur: x }`, 'auth.elevate_ur: unknown key; did you mean `elevate_url`?'],
    [`auth: { ${jwt}, session: { idle: soon } }`, /^auth\.session\.idle: must be a duration/],
  ])('auth reports the problem with %s', (text, message) => {
    expect(problems(text)).toEqual([typeof message === 'string' ? message : expect.stringMatching(message)])
  })

  it('auth accepts the client for sign-in at the issuer', () => {
    const client = 'client_id: pages, client_secret: "${SECRET}"'
    const settings = auth(`jwt: { issuer: "https://idp.example.com", ${client} }`)
    expect(settings.jwt?.client?.id).toBe('pages')
    expect(settings.jwt?.client?.secret?.reveal()).toBe('hush hush')
    expect(inspect(settings, { depth: 9 })).not.toContain('hush')
    expect(auth('jwt: { issuer: "https://idp.example.com", client_id: pages }').jwt?.client).toEqual({
      id: 'pages',
    })
  })

  it.each([
    ['jwt: { issuer: "https://idp.example.com", client_secret: "${SECRET}" }', '', /client_secret: needs/],
    ['jwt: { issuer: me, jwks: "https://idp.example.com/k", client_id: a }', '', /issuer: must be a URL/],
    [
      'jwt: { issuer: me, secret: "a shared key of more than 32 characters", client_id: a }, development: on',
      '',
      /issuer: must be a URL such as .*, where people sign in/,
    ],
    [
      'jwt: { issuer: "https://idp.example.com", audience: a, client_id: a }',
      'listen: { host: 0.0.0.0 }',
      /client_id: needs `listen.public_url`/,
    ],
  ])('auth refuses a client that cannot sign in: %s', (text, rest, message) => {
    expect(problems(`auth: { ${text} }\n${rest}`)).toEqual([expect.stringMatching(message)])
  })

  const known = `opaque: { tokens: [{ hash: "${hash}", id: robot }] }`
  const person = `name: anna, password_hash: "${hash.replace('sha256', 'scrypt')}"`
  it.each([
    ['signed tokens only', jwt, '', ['auth.jwt: set `client_id` here']],
    ['listed tokens only', known, '', ['auth.opaque: add users with `approves_as`']],
    [
      'users without an approver role',
      `${jwt}, basic: { users: [{ ${person} }] }`,
      '',
      ['auth.jwt: set `client_id`'],
    ],
    ['a store that no command can read', jwt, 'store: memory', ['needs a client that supports elicitation']],
    ['users who approve', `${jwt}, basic: { users: [{ ${person}, approves_as: a }] }`, '', []],
    ['users who are approvers', `${jwt}, basic: { users: [{ ${person}, roles: approver }] }`, '', []],
    ['viewers only', `${jwt}, basic: { users: [{ ${person}, roles: [viewer] }] }`, '', ['set `client_id`']],
    ['a sign-in', 'jwt: { issuer: "https://idp.example.com", client_id: pages }', '', []],
    ['calls that need no confirmation', jwt, 'features: { confirm: off }', []],
    ['no features', jwt, 'features: none', []],
    ['another fallback', jwt, 'features: { confirm: { fallback: two_step } }', []],
    ['the fallback of the profile', jwt, 'profile: corporate', []],
    ['no tokens at all', 'realm: tools', '', []],
  ])('warnings about pages that no browser can open, with %s', (_case, text, rest, expected) => {
    const found = load(`auth: { ${text} }\n${rest}`).warnings.map(
      ({ path, message }) =>
        `${path}: ${message.replace(/^no browser can open the approval page, .* not send tokens: /, '')}`,
    )
    expect(found).toEqual(expected.map((each) => expect.stringContaining(each)))
  })

  it.each([
    ['', [], undefined],
    ['approves_as: "user:anna"', ['approver'], 'user:anna'],
    ['roles: viewer', ['viewer'], undefined],
    ['roles: [operator]', ['operator'], 'service:anna'],
    ['roles: viewer, approves_as: "user:anna"', ['viewer', 'approver'], 'user:anna'],
  ])('a person with %s has these roles, and approves under this name', (given, roles, approvesAs) => {
    const text = `auth: { ${jwt}, basic: { users: [{ ${person}${given === '' ? '' : `, ${given}`} }] } }`
    expect(load(text).settings.auth.users).toMatchObject([{ roles, ...(approvesAs && { approvesAs }) }])
    expect(load(text).settings.auth.users[0]?.approvesAs).toBe(approvesAs)
  })

  it('an unknown role is refused', () => {
    expect(problems(`auth: { ${jwt}, basic: { users: [{ ${person}, roles: [root] }] } }`)).toEqual([
      expect.stringMatching(/roles.*viewer/),
    ])
  })

  it('a warning is printed for tokens that travel unencrypted', () => {
    const listen = 'listen: { public_url: "http://mcp.example.com" }\nfeatures: none'
    const { warnings } = load(`${listen}\nauth: { ${jwt} }`)
    expect(warnings.map(({ message }) => message)).toEqual(['tokens are sent unencrypted: use https://'])
  })

  it.each([
    ['', 'on', 1],
    [', scopes: [read]', 'on', 0],
    ['', 'off', 0],
  ])('a token with %j is warned of where the endpoint for owners is %s', (scopes, operator, count) => {
    const token = `{ id: ci, hash: "sha256:saltsalt:${'0'.repeat(64)}"${scopes} }`
    const text = `listen: { operator_mcp: ${operator} }\nfeatures: none\nauth: { opaque: { tokens: [${token}] } }`
    const about = load(text).warnings.filter(({ path }) => path.includes('operator_mcp'))
    expect(about).toHaveLength(count)
  })
})
