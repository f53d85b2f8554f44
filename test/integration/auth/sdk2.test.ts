import {
  Client,
  type OAuthClientInformationMixed,
  type OAuthClientProvider,
  type OAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { redirectUri } from '../../support/auth/authorization-server.ts'
import { followTo } from '../../support/auth/browser.ts'
import { type OAuthField, startOAuthField } from '../../support/auth/oauth-field.ts'

let field: OAuthField
let gateway: OAuthField['gateway']

beforeAll(async () => {
  field = await startOAuthField()
  ;({ gateway } = field)
})
afterAll(() => field.close())

describe('a client of the official SDK 2.x', () => {
  it.each(['legacy', 'auto'] as const)(
    'C074 follows the challenge to sign in, and again for a scope a call requires, as %s',
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
