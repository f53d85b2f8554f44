import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { anonymous, type Principal } from '../../../../src/core/principal.ts'
import { anonymousCaller, presentPrincipal } from '../../../../src/downstream/auth/authenticator.ts'
import type { Json } from '../../../support/server/json.ts'

const hash = `sha256:a-long-salt:${'0'.repeat(64)}`
const jwt = { issuer: 'https://login.example', audience: 'gateway' }
const introspect = { url: 'https://login.example/introspect', client_id: 'a', client_secret: 'b' }
const basic = { users: [{ name: 'anna', password_hash: `scrypt:a-long-salt:${'0'.repeat(64)}` }] }

/** What is left of a caller with these settings: its scopes, or that it is gone. */
function left(principal: Principal, auth: Json): readonly string[] | 'all' | 'gone' {
  const upstreams = { files: { url: 'https://files.example/mcp' } }
  const listen = { public_url: 'https://gateway.example' }
  const { settings } = loadSettings(JSON.stringify({ upstreams, listen, auth }), {
    file: 'gateway.config.yaml',
    env: {},
  })
  try {
    const { id, scopes } = presentPrincipal(principal, settings.auth)
    expect(id).toBe(principal.id)
    return scopes ? [...scopes] : 'all'
  } catch (error) {
    expect(error).toMatchObject({ code: 'FORBIDDEN' })
    return 'gone'
  }
}

const tokens = (...list: Json[]): Json => ({ opaque: { tokens: list.map((token) => ({ hash, ...token })) } })
const agent = (...scopes: string[]): Principal => ({ id: 'token:agent', scopes: new Set(scopes) })

describe('a caller that the gateway knows from before', () => {
  it.each<[string, Principal, Json, readonly string[] | 'all' | 'gone']>([
    [
      'a token that is listed',
      agent('read:files'),
      tokens({ id: 'agent', scopes: ['read:files'] }),
      ['read:files'],
    ],
    ['a token without a scope that it had', agent('a', 'b'), tokens({ id: 'agent', scopes: ['b'] }), ['b']],
    ['a token without any scope', agent('a'), tokens({ id: 'agent', scopes: [] }), []],
    [
      'a token with a scope that it did not have',
      agent('a'),
      tokens({ id: 'agent', scopes: ['a', 'b'] }),
      ['a'],
    ],
    ['a token that had all scopes', { id: 'token:agent' }, tokens({ id: 'agent', scopes: ['a'] }), ['a']],
    ['a token that has all scopes', { id: 'token:agent' }, tokens({ id: 'agent' }), 'all'],
    ['a token that was removed', agent('a'), tokens({ id: 'other', scopes: ['a'] }), 'gone'],
    ['a token where no tokens are listed', agent('a'), { jwt }, 'gone'],
    ['a token where nobody authenticates', agent('a'), {}, 'gone'],
    ['a user of an issuer', { id: 'user:anna' }, { jwt }, 'all'],
    ['a user whose tokens are introspected', { id: 'client:a' }, { opaque: { introspect } }, 'all'],
    ['a user without an issuer', { id: 'user:anna' }, tokens({ id: 'agent' }), 'gone'],
    ['a user with a password', { id: 'service:anna' }, { basic }, 'all'],
    ['a user whose password was removed', { id: 'service:bert' }, { basic }, 'gone'],
    ['everybody where nobody authenticates', anonymous, {}, 'all'],
    ['everybody where callers authenticate', anonymous, { jwt }, 'gone'],
    ['everybody beside the client of a pipe', anonymous, { principal: { id: 'me' } }, 'all'],
    [
      'a caller without a token where lists are public',
      anonymousCaller,
      { jwt, anonymous: ['tools/list'] },
      [],
    ],
    ['a caller without a token where nothing is public', anonymousCaller, { jwt }, 'gone'],
    [
      'the client of a pipe',
      { id: 'me' },
      { jwt, principal: { id: 'me', scopes: ['read:files'] } },
      ['read:files'],
    ],
    ['the client of a pipe that was renamed', { id: 'me' }, { principal: { id: 'you' } }, 'gone'],
  ])('%s', (_title, principal, auth, expected) => {
    expect(left(principal, auth)).toEqual(expected)
  })
})
