import { describe, expect, it } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import type { OAuthSettings } from '../../../../src/core/settings.ts'
import { authorizationServer, signIn } from '../../../support/authorization-server.ts'
import { caller, echo, linkOf, oauthUpstream, startOf, textOf } from '../../../support/oauth-upstream.ts'
import { protectedServer, unauthorized } from '../../../support/protected-server.ts'

const PUBLIC = 'https://gateway.example/at'
const DOCUMENT = `${PUBLIC}/oauth/client.json`

async function world(
  options: Parameters<typeof authorizationServer>[0],
  oauth: Partial<OAuthSettings>,
  publicUrl?: string,
) {
  const authority = await authorizationServer(options)
  const server = await protectedServer(async (token, url) => {
    const claims = token && (await authority.verify(token, url).catch(() => undefined))
    return claims ? undefined : unauthorized(url, 'read')
  })
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  return {
    authority,
    server,
    ...oauthUpstream(server.url, oauth, publicUrl === undefined ? {} : { publicUrl }),
  }
}

describe('the client identity of the gateway at an authorization server', () => {
  it('the configured client has precedence', async () => {
    const oauth = { clientId: 'pre-registered', clientSecret: new Secret('secret') }
    const here = await world({ documents: {} }, oauth, PUBLIC)
    const { url } = await startOf(here.desk, linkOf(await here.upstream.handle(echo(caller('alice')))))
    const link = new URL(url)
    expect(link.searchParams.get('client_id')).toBe('pre-registered')
    expect(here.authority.requests).not.toContain('POST /reg')
  })

  it('the client metadata document is used if it can be fetched', async () => {
    const documents: Record<string, unknown> = {}
    const here = await world({ documents }, {}, PUBLIC)
    documents[DOCUMENT] = here.desk.document()
    const outcome = await here.upstream.handle(echo(caller('alice')))
    const { url: link, cookie } = await startOf(here.desk, linkOf(outcome))
    expect(new URL(link).searchParams.get('client_id')).toBe(DOCUMENT)
    const back = await signIn(link, 'alice', (url) => url.startsWith(`${PUBLIC}/oauth/callback`))
    await here.desk.finish(new URL(back).searchParams, () => cookie.value)
    expect(textOf(await here.upstream.handle(echo(caller('alice'))))).toBeDefined()
    expect(here.authority.requests).not.toContain('POST /reg')
  })

  it('dynamic registration is used if the document cannot be fetched', async () => {
    const here = await world({ documents: {} }, {})
    const { url } = await startOf(here.desk, linkOf(await here.upstream.handle(echo(caller('alice')))))
    const link = new URL(url)
    expect(link.searchParams.get('client_id')).not.toContain('client.json')
    expect(here.authority.requests).toContain('POST /reg')
  })

  it('without registration the configuration must name a client', async () => {
    const here = await world({ registration: false }, {})
    await expect(here.upstream.handle(echo(caller('alice')))).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      extra: { suggestion: expect.stringContaining('oauth.client_id') },
    })
  })
})

describe('the client metadata document', () => {
  it('the document contains its own URL and the redirect URI, and no secret', async () => {
    const { desk } = await world({}, {}, PUBLIC)
    expect(desk.document()).toEqual({
      client_id: DOCUMENT,
      client_name: 'Gatehouse',
      redirect_uris: [`${PUBLIC}/oauth/callback`],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
      application_type: 'web',
    })
  })

  it('there is no document if the gateway is not public', async () => {
    const { desk } = await world({}, {})
    expect(desk.document()).toBeUndefined()
  })
})
