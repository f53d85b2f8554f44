import { describe, expect, it, onTestFinished } from 'vitest'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import { requestToken } from '../../../../src/upstream/oauth/token-endpoint.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'

/** Requests a token where the token endpoint answers this, as a public client. */
async function requested(answer: SiteAnswer) {
  const { origin } = await httpSite(() => answer)
  const http = createOAuthHttp(true)
  onTestFinished(() => http.close())
  const server = { issuer: origin, token_endpoint: `${origin}/token` }
  return requestToken({ server, client: { id: 'gw', auth: 'none' }, http }, 'client_credentials', {})
}

const token = { access_token: 'abc', token_type: 'Bearer', expires_in: 3600 }
const NEVER = Number.MAX_SAFE_INTEGER

describe('the response of a token endpoint', () => {
  it.each<[string, SiteAnswer]>([
    ['as it should be', { body: token }],
    ['with the status 201', { status: 201, body: token }],
    ['with the status 203', { status: 203, body: token }],
    ['as text/plain', { type: 'text/plain', body: JSON.stringify(token) }],
    ['as text/html', { type: 'text/html', body: JSON.stringify(token) }],
    ['with a byte order mark', { body: `\u{feff}${JSON.stringify(token)}` }],
    [
      'with null for all that is optional',
      { body: { ...token, refresh_token: null, scope: null, id_token: null } },
    ],
    ['with a token type in capitals', { body: { ...token, token_type: 'BEARER' } }],
    ['with a token type with a blank', { body: { ...token, token_type: 'bearer ' } }],
    ['without a token type', { body: { ...token, token_type: undefined } }],
    ['with null as its token type', { body: { ...token, token_type: null } }],
    ['with a refresh token that is empty', { body: { ...token, refresh_token: '' } }],
    ['with an ID token that is none', { body: { ...token, id_token: { a: 1 } } }],
    ['with members that nobody knows', { body: { ...token, error: null, user: { id: 1 }, ext: [] } }],
  ])('%s is a token', async (_name, answer) => {
    const { expiresAt, ...grant } = await requested(answer)
    expect(grant).toEqual({ value: 'abc' })
    expect(Math.abs(expiresAt - Date.now() - 3_600_000)).toBeLessThan(60_000)
  })

  it.each([
    ['3600', 3600],
    ['3600.0', 3600],
    [' 60 ', 60],
    [59.9, 59.9],
    [1, 1],
  ])('a lifetime of %j is %d seconds', async (lifetime, seconds) => {
    const { expiresAt } = await requested({ body: { ...token, expires_in: lifetime } })
    expect(Math.abs(expiresAt - Date.now() - seconds * 1000)).toBeLessThan(30_000)
  })

  it.each(['null', '0', '-1', '"-1"', '"soon"', '""', '[]', '{}', 'true', '1e400', '12345678901234567890'])(
    'a token with a lifetime of %s is used until it is refused',
    async (lifetime) => {
      const body = `{"access_token":"abc","token_type":"Bearer","expires_in":${lifetime}}`
      expect(await requested({ body })).toEqual({ value: 'abc', expiresAt: NEVER })
    },
  )

  it.each([
    ['a b', 'a b'],
    [['a', 'b'], 'a b'],
    [[], undefined],
    ['', undefined],
    [{}, undefined],
    [7, '7'],
  ])('the scope %j is %j', async (scope, expected) => {
    expect((await requested({ body: { ...token, scope } })).scope).toBe(expected)
  })

  it('a number that a double cannot hold is a token with all its digits', async () => {
    const body = '{"access_token":725653563933458433,"refresh_token":9007199254740993}'
    expect(await requested({ body })).toEqual({
      value: '725653563933458433',
      refresh: '9007199254740993',
      expiresAt: NEVER,
    })
  })

  it.each<[string, SiteAnswer, string]>([
    ['an error', { status: 400, body: { error: 'invalid_scope' } }, 'invalid_scope'],
    ['an error with 200', { body: { error: 'invalid_scope', access_token: null } }, 'invalid_scope'],
    ['an error that is no code', { status: 400, body: { error: '<b>\u{202e}secret</b>' } }, 'an error'],
    ['an error that is an object', { status: 400, body: { error: { code: 7 } } }, 'HTTP 400'],
    ['a page', { status: 404, type: 'text/html', body: '<html>' }, 'HTTP 404'],
    ['a page with 401', { status: 401, type: 'text/html', body: '<html>' }, 'invalid_client'],
    ['a page with 200', { type: 'text/html', body: '<html>' }, 'not as it should be'],
    ['nothing', { status: 204 }, 'not as it should be'],
    ['a list', { body: [token] }, 'not as it should be'],
    ['null', { body: 'null' }, 'not as it should be'],
    ['a token of two lines', { body: { ...token, access_token: 'a\nb' } }, 'malformed token'],
    ['a token that is an object', { body: { ...token, access_token: {} } }, 'not as it should be'],
    ['another kind of token', { body: { ...token, token_type: 'mac' } }, 'no bearer token'],
    ['a redirect', { status: 302, headers: { location: '/elsewhere' } }, 'HTTP 302'],
  ])('%s is a permanent failure that names the fix', async (_name, answer, why) => {
    await expect(requested(answer)).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'permanent',
      message: expect.stringContaining(why),
      extra: {
        suggestion: expect.stringMatching(/^Ask the operator of the gateway to .*oauth/),
        forOperator: expect.stringContaining('oauth'),
      },
    })
  })

  it.each<[string, SiteAnswer]>([
    ['503', { status: 503, type: 'text/html', body: '<html>' }],
    ['429', { status: 429 }],
    ['temporarily_unavailable', { status: 400, body: { error: 'temporarily_unavailable' } }],
    ['server_error', { status: 500, body: { error: 'server_error' } }],
  ])('%s is a failure that may pass', async (_name, answer) => {
    await expect(requested(answer)).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'transient',
    })
  })
})
