import { describe, expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import { caller, echo, oauthUpstream } from '../../../support/oauth-upstream.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'

/** A server whose metadata, and whose token endpoint, answer this. */
async function failing(metadata: SiteAnswer, token: SiteAnswer = {}) {
  const site = await httpSite(({ path }, own) => {
    if (path.startsWith('/.well-known/oauth-protected-resource'))
      return { body: { resource: `${own}/mcp`, authorization_servers: [own] } }
    if (path.startsWith('/.well-known/'))
      return metadata.body === 'right' ? { body: { issuer: own, token_endpoint: `${own}/token` } } : metadata
    return path === '/token' ? token : { status: 401, headers: { 'www-authenticate': 'Bearer' } }
  })
  const client = { clientId: 'gateway', clientSecret: new Secret('a-secret') }
  const settings = { revision: 'auto', transport: 'auto' } as const
  const { upstream } = oauthUpstream(
    `${site.origin}/mcp`,
    { grant: 'client_credentials', ...client },
    { settings },
  )
  return { failed: upstream.handle(echo(caller('alice'))), upstream }
}

describe('a failure of a sign-in, where the revision of the server is not known yet', () => {
  it.each<[string, SiteAnswer, SiteAnswer?]>([
    ['no metadata', { status: 404 }],
    [
      'an issuer that is another one',
      { body: { issuer: 'https://evil.example', token_endpoint: 'https://evil.example/' } },
    ],
    ['a refused client', { body: 'right' }, { status: 401, body: { error: 'invalid_client' } }],
    ['a refused scope', { body: 'right' }, { status: 400, body: { error: 'invalid_scope' } }],
    ['a code of no meaning', { body: 'right' }, { status: 400, body: { error: 'constructor' } }],
    ['no token', { body: 'right' }, { body: {} }],
  ])('%s is permanent, and callers learn the fix', async (_name, metadata, token) => {
    const { failed, upstream } = await failing(metadata, token)
    await expect(failed).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      category: 'permanent',
      extra: {
        suggestion: expect.stringMatching(/^Ask the operator of the gateway to [^()]*oauth/),
        isUnsent: true,
      },
    })
    expect(upstream.status.problem).toContain('oauth')
  })

  it.each<[string, SiteAnswer, SiteAnswer?]>([
    ['metadata', { status: 503 }],
    ['a token endpoint', { body: 'right' }, { status: 503 }],
  ])('the failure of %s may pass', async (_name, metadata, token) => {
    const { failed } = await failing(metadata, token)
    await expect(failed).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE', category: 'transient' })
  })
})
