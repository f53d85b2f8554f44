import {
  Client,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  type AuthorizationServer,
  redirectUri,
  startAuthorizationServer,
} from '../../support/auth/authorization-server.ts'
import { followTo } from '../../support/auth/browser.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'

let server: AuthorizationServer
let fake: FakeServer
let gateway: GatewayProcess

beforeAll(async () => {
  server = await startAuthorizationServer()
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await startGatewayProcess({
    auth: {
      jwt: { issuer: server.issuer },
      oauth: { authorization_servers: server.issuer, scopes_supported: 'read:fake' },
    },
    upstreams: {
      fake: { url: fake.url, tools: { echo: { scopes: 'read:fake' }, vendor: { scopes: 'write:fake' } } },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  await fake.close()
  await server.close()
})

describe('a client of the official SDK 2.x', () => {
  it.each(['legacy', 'auto'] as const)(
    'C074 signs in by the challenge, and again for a scope a call needs, as %s',
    async (mode) => {
      const user = newUser()
      const transport = () =>
        new StreamableHTTPClientTransport(new URL(gateway.url), { authProvider: user.provider })
      const newClient = () => new Client({ name: 'peer', version: '1.0.0' }, { versionNegotiation: { mode } })
      const first = transport()
      await expect(newClient().connect(first)).rejects.toThrow(/Unauthorized/)
      await signIn(first, user)
      const client = newClient()
      const second = transport()
      await client.connect(second)
      expect(client.getNegotiatedProtocolVersion()).toBe(mode === 'auto' ? '2026-07-28' : '2025-11-25')
      await client.callTool({ name: 'echo', arguments: { text: 'hello' } })
      await expect(client.callTool({ name: 'vendor', arguments: {} })).rejects.toThrow(/Unauthorized/)
      await signIn(second, user)
      const result = await client.callTool({ name: 'vendor', arguments: {} })
      expect(result.isError).not.toBe(true)
      const { aud, scope } = decodeJwt(user.tokens?.access_token ?? '')
      expect(aud).toBe(gateway.url)
      expect(String(scope).split(' ').toSorted()).toEqual(['read:fake', 'write:fake'])
      await client.close()
    },
  )
})

interface User {
  readonly provider: OAuthClientProvider
  readonly sent: URL[]
  tokens?: OAuthTokens
}

function newUser(): User {
  let information: OAuthClientInformationMixed = { client_id: 'app' }
  let verifier = ''
  const user: User = {
    sent: [],
    provider: {
      redirectUrl: redirectUri,
      clientMetadata: { redirect_uris: [redirectUri], client_name: 'test' },
      clientInformation: () => information,
      saveClientInformation: (given) => {
        information = given
      },
      tokens: () => user.tokens,
      saveTokens: (given) => {
        user.tokens = given
      },
      redirectToAuthorization: (url) => void user.sent.push(url),
      saveCodeVerifier: (given) => {
        verifier = given
      },
      codeVerifier: () => verifier,
    },
  }
  return user
}

async function signIn(transport: StreamableHTTPClientTransport, { sent }: User): Promise<void> {
  const start = sent.at(-1)
  if (!start) throw new Error('The user was sent nowhere')
  const back = await followTo(start, redirectUri)
  await transport.finishAuth(back.searchParams)
}
