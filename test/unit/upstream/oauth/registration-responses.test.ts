import { describe, expect, it, onTestFinished } from 'vitest'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { createOAuthHttp } from '../../../../src/upstream/oauth/oauth-http.ts'
import { clientFor } from '../../../../src/upstream/oauth/registration.ts'
import { createTokenVault } from '../../../../src/upstream/oauth/token-vault.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'

const site = { startUri: 'http://127.0.0.1:1/start', redirectUri: 'http://127.0.0.1:1/callback' }
const made = { client_id: 'abc' }
const now = Math.floor(Date.now() / 1000)

/** Registers the gateway, twice if the registration is not kept. */
async function registered(answer: SiteAnswer, methods?: readonly string[]) {
  const { origin, requests } = await httpSite(() => answer)
  const http = createOAuthHttp(true)
  onTestFinished(() => http.close())
  const server = {
    issuer: origin,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    ...(methods && { token_endpoint_auth_methods_supported: [...methods] }),
  }
  const vault = createTokenVault(new MemoryStore())
  const oauth = { grant: 'authorization_code', scopes: [] } as const
  const client = await clientFor(server, site, { oauth, vault, http })
  expect(await clientFor(server, site, { oauth, vault, http })).toEqual(client)
  return { client, registrations: requests.length }
}

describe('the response of a registration', () => {
  it.each<[string, SiteAnswer, object]>([
    ['201', { status: 201, body: made }, { id: 'abc', auth: 'client_secret_basic' }],
    ['200', { status: 200, body: made }, { id: 'abc', auth: 'client_secret_basic' }],
    ['another content type', { status: 201, type: 'text/plain', body: JSON.stringify(made) }, { id: 'abc' }],
    ['a secret without its end', { body: { ...made, client_secret: 's' } }, { id: 'abc', secret: 's' }],
    [
      'a secret that never ends',
      { body: { ...made, client_secret: 's', client_secret_expires_at: 0 } },
      { secret: 's' },
    ],
    [
      'null as its end',
      { body: { ...made, client_secret: 's', client_secret_expires_at: null } },
      { secret: 's' },
    ],
    [
      'its end as text',
      { body: { ...made, client_secret: 's', client_secret_expires_at: `${now + 999}` } },
      { secret: 's' },
    ],
    [
      'its end that is no time',
      { body: { ...made, client_secret: 's', client_secret_expires_at: 'never' } },
      { secret: 's' },
    ],
    [
      'its end far away',
      { body: { ...made, client_secret: 's', client_secret_expires_at: 1e300 } },
      { secret: 's' },
    ],
    [
      'null for all that is optional',
      {
        body: {
          ...made,
          client_secret: null,
          client_uri: null,
          jwks: null,
          expires_in: null,
          scope: null,
          contacts: null,
        },
      },
      { id: 'abc', auth: 'client_secret_basic' },
    ],
    [
      'a method',
      { body: { ...made, client_secret: 's', token_endpoint_auth_method: 'client_secret_post' } },
      { auth: 'client_secret_post' },
    ],
    [
      'a method that nobody knows',
      { body: { ...made, token_endpoint_auth_method: 'magic' } },
      { auth: 'client_secret_basic' },
    ],
    ['an id that is a number', { body: '{"client_id":725653563933458433}' }, { id: '725653563933458433' }],
  ])('%s registers a client, once', async (_name, answer, expected) => {
    const { client, registrations } = await registered(answer)
    expect(client).toMatchObject(expected)
    expect(registrations).toBe(1)
  })

  it('a secret that has ended already is not kept', async () => {
    const body = { ...made, client_secret: 's', client_secret_expires_at: now - 10 }
    expect((await registered({ body })).registrations).toBe(2)
  })

  it('a client of a server that knows no secrets is public, although it gets one', async () => {
    const { client } = await registered({ body: { ...made, client_secret: 's' } }, ['none'])
    expect(client).toEqual({ id: 'abc', secret: 's', auth: 'none' })
  })

  it.each<[string, SiteAnswer, string]>([
    ['an error', { status: 400, body: { error: 'invalid_redirect_uri' } }, '(invalid_redirect_uri)'],
    ['a page', { status: 403, type: 'text/html', body: '<html>' }, '(HTTP 403)'],
    ['401', { status: 401 }, '(HTTP 401)'],
    ['404', { status: 404 }, '(HTTP 404)'],
    ['no client', { status: 201, body: { client_name: 'x' } }, 'not as it should be'],
    ['null as the client', { status: 201, body: { client_id: null } }, 'not as it should be'],
  ])('%s is permanent and names the fix', async (_name, answer, why) => {
    await expect(registered(answer)).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'permanent',
      message: expect.stringContaining(why),
      extra: { suggestion: expect.stringContaining('set oauth.client_id of this server') },
    })
  })

  it('a failure of the server may pass', async () => {
    await expect(registered({ status: 503 })).rejects.toMatchObject({ category: 'transient' })
  })
})
