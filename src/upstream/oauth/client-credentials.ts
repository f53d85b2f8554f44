/** Tokens for the gateway itself (RFC 6749, 4.4), and tokens exchanged for those of callers (RFC 8693). */
import type { Principal } from '../../core/principal.ts'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../core/error.ts'
import type { Secret } from '../../core/text/secret.ts'
import type { Login } from '../transport/auth-retry.ts'
import { RenewingLogin } from './token-renewal.ts'
import { requestToken, type TokenConversation } from './token-endpoint.ts'

interface Options {
  /** Who issues tokens, and what the gateway is to it. */
  conversation(): Promise<TokenConversation>
  /** What every request for a token says. */
  parameters(): Promise<Readonly<Record<string, string | undefined>>>
}

/** One login for all callers: the gateway's own (RFC 6749 §4.4). */
export function clientCredentials({ conversation, parameters }: Options): () => Login {
  const login = new RenewingLogin(async () =>
    requestToken(await conversation(), 'client_credentials', await parameters()),
  )
  return () => login
}

/** A login for each token of a caller: what that token is exchanged for (RFC 8693). */
export function tokenExchange(options: Options): (principal: Principal) => Login {
  // Each of a caller's tokens may allow something else, so none stands for another.
  const logins = new LRUCache<string, RenewingLogin>({ max: 10_000 })

  return ({ token, claims }) => {
    if (!token) return tokenless
    const known = logins.get(token.digest)
    if (known) return known
    const login = exchanged(token, claims, options)
    logins.set(token.digest, login)
    return login
  }
}

function exchanged(
  token: Secret,
  claims: Principal['claims'],
  { conversation, parameters }: Options,
): RenewingLogin {
  const until = typeof claims?.exp === 'number' ? claims.exp * 1000 : Number.MAX_SAFE_INTEGER
  return new RenewingLogin(async () => {
    const granted = await requestToken(
      await conversation(),
      'urn:ietf:params:oauth:grant-type:token-exchange',
      {
        ...(await parameters()),
        subject_token: token.reveal(),
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      },
    )
    // What was got for a token is not good for longer than the token.
    return { ...granted, expiresAt: Math.min(granted.expiresAt, until) }
  })
}

/** The login of a caller that came without a token. */
const tokenless: Login = {
  headers: () => Promise.reject(noToken()),
  refused: () => Promise.resolve(false),
}

function noToken(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'This server is reached with a token exchanged for that of the caller, and the caller came without one.',
    { suggestion: 'Call the gateway with a bearer token.', details: { http_status: 401 } },
  )
}
