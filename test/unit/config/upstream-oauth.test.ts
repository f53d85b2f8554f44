import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { featureSettings } from '../../../src/core/settings.ts'
import { settingsEqual } from '../../../src/upstream/upstream.ts'

function load(upstream: string, profile = 'open') {
  const auth = profile === 'corporate' ? 'auth: { jwt: { issuer: "https://login.example.com" } }\n' : ''
  const text = `profile: ${profile}\n${auth}upstreams:\n  it: ${upstream}\n`
  return loadSettings(text, { file: '/srv/gateway.config.yaml', env: { SECRET: 'hidden' } })
}

function problems(upstream: string, profile?: string): string[] {
  try {
    load(upstream, profile)
    return []
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.problems.map(({ path, message }) => `${path}: ${message}`)
  }
}

function settingsOf(upstream: string) {
  const [found] = load(upstream).settings.upstreams
  if (!found) throw new Error('There is no upstream.')
  return found
}

const url = 'https://mcp.example.com/mcp'

describe('oauth settings of an upstream', () => {
  it('the grant is authorization_code without a secret and client_credentials with one', () => {
    expect(settingsOf(`{ url: "${url}", oauth: {} }`).reach).toMatchObject({
      oauth: { grant: 'authorization_code', scopes: [], resource: url },
    })
    const { reach } = settingsOf(`{ url: "${url}", oauth: { client_id: a, client_secret: "\${SECRET}" } }`)
    expect(reach).toMatchObject({ oauth: { grant: 'client_credentials', clientId: 'a' } })
    expect(JSON.stringify(reach)).not.toContain('hidden')
  })

  it('scopes are a list or a string, and resource can be replaced or omitted', () => {
    expect(settingsOf(`{ url: "${url}", oauth: { scopes: "a b" } }`).reach).toMatchObject({
      oauth: { scopes: ['a', 'b'] },
    })
    expect(settingsOf(`{ url: "${url}", oauth: { resource: "urn:it", scopes: [a] } }`).reach).toMatchObject({
      oauth: { scopes: ['a'], resource: 'urn:it' },
    })
    expect(settingsOf(`{ url: "${url}", oauth: { resource: off } }`).reach).not.toHaveProperty(
      'oauth.resource',
    )
  })

  it.each([
    [`{ url: "${url}", token: "\${SECRET}", oauth: {} }`, 'a fixed token is also set'],
    [`{ url: "${url}", headers: { Authorization: "\${SECRET}" }, oauth: {} }`, 'a fixed token is also set'],
    ['{ command: npx some-server, oauth: {} }', 'requires `url`'],
    [`{ url: "${url}", oauth: { grant: client_credentials, client_id: a } }`, 'needs `client_secret`'],
    [`{ url: "${url}", oauth: { client_secret: "\${SECRET}" } }`, 'needs `client_id`'],
    [`{ url: "${url}", oauth: { grant: token_exchange } }`, 'needs `client_id`'],
    [`{ url: "${url}", oauth: { issuer: "http://login.example.com" } }`, 'must start with https://'],
    [`{ url: "${url}", oauth: { token_endpoint: "https://login.example.com/t" } }`, 'give `issuer`'],
    [`{ url: "${url}", oauth: { grant: password } }`, 'must be one of client_credentials'],
    [
      `{ url: "${url}", oauth: { client_id: a, client_secret: "\${SECRET}", private_key: "\${SECRET}" } }`,
      'keep one',
    ],
    [`{ url: "${url}", oauth: { private_key: "\${SECRET}" } }`, 'needs `client_id`'],
    [
      `{ url: "${url}", oauth: { grant: jwt_bearer, client_id: a } }`,
      'needs `assertion_file` or `identity_provider`',
    ],
    [
      `{ url: "${url}", oauth: { client_id: a, assertion_file: /a, identity_provider: { issuer: "https://i.example", client_id: b } } }`,
      'one of the two',
    ],
    [
      `{ url: "${url}", oauth: { grant: client_credentials, client_id: a, client_secret: "\${SECRET}", assertion_file: /a } }`,
      'is for `grant: jwt_bearer` only',
    ],
    [`{ url: "${url}", oauth: { client_id: a, assertion_file: token } }`, 'must be the absolute path'],
    [`{ url: "${url}", oauth: { assertion_file: /a } }`, 'needs `client_id`'],
    [`{ url: "${url}", oauth: { client_id: a, identity_provider: { client_id: b } } }`, 'needs `issuer`'],
    [
      `{ url: "${url}", oauth: { client_id: a, identity_provider: { issuer: "https://i.example" } } }`,
      'client_id',
    ],
    [
      `{ url: "${url}", oauth: { client_id: a, identity_provider: { issuer: "http://i.example", client_id: b } } }`,
      'must start with https://',
    ],
    [`{ url: "${url}", oauth: { client_id: a, identity_provider: https://i.example } }`, 'must be a mapping'],
    [`{ url: "${url}", oauth: { dpop: yes } }`, 'must be auto, on or off'],
    [`{ url: "${url}", oauth: { pass_through: on } }`, 'pass_through'],
  ])('E34 %s is refused', (text, message) => {
    expect(problems(text).join('\n')).toContain(message)
  })

  it.each([
    ['{ client_id: a, private_key: "${SECRET}" }', { grant: 'client_credentials', clientId: 'a' }],
    ['{ client_id: a, assertion_file: /run/token }', { grant: 'jwt_bearer', assertionFile: '/run/token' }],
    [
      '{ client_id: a, identity_provider: { issuer: "https://i.example", client_id: b, client_secret: "${SECRET}" } }',
      {
        grant: 'jwt_bearer',
        identityProvider: { issuer: 'https://i.example', clientId: 'b', subjectTokenType: 'id_token' },
      },
    ],
    ['{ dpop: on }', { dpop: 'on' }],
    ['{ dpop: off }', { dpop: 'off' }],
  ])('oauth: %s is read, and no secret is printed', (oauth, expected) => {
    const { reach } = settingsOf(`{ url: "${url}", oauth: ${oauth} }`)
    expect(reach).toMatchObject({ oauth: expected })
    expect(JSON.stringify(reach)).not.toContain('hidden')
  })

  it('by default the server decides whether tokens are bound to a key', () => {
    for (const oauth of ['{}', '{ dpop: auto }'])
      expect(settingsOf(`{ url: "${url}", oauth: ${oauth} }`).reach).not.toHaveProperty('oauth.dpop')
  })

  it.each([
    ['{ client_id: a }', false],
    ['{ grant: token_exchange, client_id: a, client_secret: "${SECRET}" }', false],
    ['{ client_id: a, client_secret: "${SECRET}" }', true],
    ['{ client_id: a, private_key: "${SECRET}" }', true],
    ['{ client_id: a, assertion_file: /run/token }', true],
    ['{ client_id: a, identity_provider: { issuer: "https://i.example", client_id: b } }', false],
    [
      '{ client_id: a, identity_provider: { issuer: "https://i.example", client_id: b, subject_token_file: /a } }',
      true,
    ],
  ])(
    'events are on by default with oauth: %s only if the credentials are those of the gateway',
    (oauth, isOn) => {
      const text = (more: string) =>
        `features: ${more}\nupstreams:\n  it: { url: "${url}", oauth: ${oauth} }\n`
      const of = (more: string) =>
        featureSettings(
          loadSettings(text(more), { file: 'f', env: { SECRET: 's' } }).settings,
          'events',
          'it',
        )
      expect(of('{}') !== false).toBe(isOn)
      expect(of('{ events: on }')).toMatchObject({ writes: 'own' })
      expect(of('{ events: off }')).toBe(false)
    },
  )

  it.each(['authorization_code', 'token_exchange'])('connections are never shared with grant %s', (grant) => {
    const text = `{ url: "${url}", isolation: shared, oauth: { grant: ${grant}, client_id: a } }`
    expect(problems(text)).toEqual([
      expect.stringContaining('upstreams.it.isolation: each caller has its own credentials'),
    ])
  })

  it.each([
    'client_secret: plain-words',
    'private_key: plain-words',
    'identity_provider: { issuer: "https://i.example", client_id: b, client_secret: plain-words }',
  ])('a secret of a client in the file causes a warning: %s', (secret) => {
    const profile = 'auth: { jwt: { issuer: "https://login.example.com" } }\n'
    const text = `${profile}upstreams:\n  it: { url: "${url}", oauth: { client_id: a, ${secret} } }\n`
    const { warnings } = loadSettings(text, { file: '/srv/gateway.config.yaml', env: {} })
    expect(warnings.map(({ message }) => message)).toContainEqual(
      expect.stringContaining('looks like a secret'),
    )
  })

  it('sharing the grant of one caller among all callers causes a warning', () => {
    const of = (above: string) => {
      const text = `${above}\nfeatures: none\nupstreams:\n  it: { url: "${url}", oauth: {} }\n`
      const { warnings } = loadSettings(text, { file: '/srv/gateway.config.yaml', env: {} })
      return warnings.map(({ message }) => message)
    }
    const shared = [expect.stringContaining('the first sign-in applies')]
    expect(of('auth: none\nlisten: { host: 0.0.0.0 }')).toEqual(shared)
    expect(of('listen: { public_url: "https://gateway.example.com" }')).toEqual(shared)
    expect(of('listen: { port: 8900 }')).toEqual([])
    expect(
      of(
        'auth: { jwt: { issuer: "https://login.example.com" } }\nlisten: { host: 0.0.0.0, public_url: "https://g.example.com" }',
      ),
    ).toEqual([])
  })

  it('token exchange with callers that have no token causes a warning', () => {
    const of = (above: string, oauth = '{ grant: token_exchange, client_id: a }') => {
      const text = `${above}\nfeatures: none\nupstreams:\n  it: { url: "${url}", oauth: ${oauth} }\n`
      const { warnings } = loadSettings(text, { file: '/srv/gateway.config.yaml', env: {} })
      return warnings.map(({ path, message }) => `${path}: ${message}`)
    }
    const missing = [expect.stringMatching(/^upstreams\.it\.oauth\.grant: callers have no token/)]
    expect(of('auth: none')).toEqual(missing)
    const hash = `sha256:5b1f0c9e7a:${'0'.repeat(64)}`
    const identity = '{ client_id: a, identity_provider: { issuer: "https://i.example", client_id: b } }'
    expect(of('auth: none', identity)).toEqual([
      expect.stringContaining('oauth.identity_provider: callers have no token'),
    ])
    expect(of(`auth: { opaque: { tokens: [{ id: one, hash: "${hash}" }] } }`)).toEqual(missing)
    expect(of('auth: { jwt: { issuer: "https://login.example.com" } }')).toEqual([])
  })

  it('upstream settings with different client secrets are not equal', () => {
    const of = (secret: string) =>
      settingsOf(`{ url: "${url}", oauth: { client_id: a, client_secret: "${secret}" } }`)
    expect(settingsEqual(of('one'), of('one'))).toBe(true)
    expect(settingsEqual(of('one'), of('two'))).toBe(false)
  })
})

describe('a secret in the query of a URL', () => {
  it.each(['token=abc', 'api_key=abc', 'exaApiKey=abc', 'x=ghp_0123456789abcdef', 'a=1&access_token=abc'])(
    'C062 a secret in the query of a URL is reported: %s',
    (query) => {
      const text = `"${url}?${query}"`
      expect(problems(text, 'corporate')).toEqual([expect.stringContaining('the query contains a secret')])
      expect(problems(text)).toEqual([])
      const { warnings } = load(text)
      expect(warnings.map(({ message }) => message)).toContainEqual(
        expect.stringContaining('the query contains a secret'),
      )
    },
  )

  it('C062 the report does not print the secret', () => {
    expect(problems(`"${url}?token=do-not-show"`, 'corporate').join()).not.toContain('do-not-show')
  })

  it.each(['page=2', 'toolsets=repos,issues', 'token='])('C062 no secret is reported in %s', (query) => {
    expect(problems(`"${url}?${query}"`, 'corporate')).toEqual([])
  })
})
