import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { OAuthClientInformationMixed, OAuthTokens } from '@modelcontextprotocol/sdk/shared/auth.js'
import { redirectUri } from './authorization-server.ts'
import { followTo } from './browser.ts'

/** What a client of the official SDK knows while it signs in. */
export interface SignedIn {
  readonly provider: OAuthClientProvider
  tokens?: OAuthTokens
  /** Where its user was sent, in order. */
  readonly sent: URL[]
}

const metadata = {
  redirect_uris: [redirectUri],
  client_name: 'test',
  grant_types: ['authorization_code'],
  response_types: ['code'],
  token_endpoint_auth_method: 'none',
  application_type: 'native',
}

/** Somebody who uses a client of the official SDK, which registers itself unless it is known by an id. */
export function newUser(clientId?: string): SignedIn {
  let information: OAuthClientInformationMixed | undefined =
    clientId === undefined ? undefined : { client_id: clientId }
  let verifier = ''
  const user: SignedIn = {
    sent: [],
    provider: {
      redirectUrl: redirectUri,
      clientMetadata: metadata,
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

/** Connects a client of the official SDK, signing its user in when it is told to. */
export async function connect(url: string, user: SignedIn): Promise<Client> {
  const first = new Client({ name: 'peer', version: '1.0.0' })
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: user.provider })
  try {
    await first.connect(transport)
    return first
  } catch (error) {
    if (user.sent.length === 0) throw error
    await signIn(transport, user)
  }
  const client = new Client({ name: 'peer', version: '1.0.0' })
  const again = new StreamableHTTPClientTransport(new URL(url), { authProvider: user.provider })
  await client.connect(again)
  return client
}

/** Goes through the authorization server as the user was last told to. */
export async function signIn(
  transport: { finishAuth(code: string): Promise<void> },
  { sent }: SignedIn,
): Promise<void> {
  const start = sent.at(-1)
  if (!start) throw new Error('The user was sent nowhere')
  const back = await followTo(start, redirectUri)
  const code = back.searchParams.get('code')
  if (code === null) throw new Error(`No code: ${back.href}`)
  await transport.finishAuth(code)
}
