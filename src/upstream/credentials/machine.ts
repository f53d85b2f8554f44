import type { Principal } from '../../core/principal.ts'
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import type { Secret } from '../../core/secret.ts'
import type { Answer } from '../fetch.ts'
import type { Login, LoginHeaders } from '../login.ts'
import { RenewingLogin } from './renewing.ts'
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

/** A login for each caller: what the caller's own token is exchanged for (RFC 8693). */
export function tokenExchange(options: Options): (principal: Principal) => Login {
  const logins = new LRUCache<string, ExchangedLogin>({ max: 10_000 })
  const exchanged = new LRUCache<string, RenewingLogin>({ max: 10_000 })

  return (principal) => {
    const login = logins.get(principal.id) ?? new ExchangedLogin()
    logins.set(principal.id, login)
    const { token } = principal
    // Each of a caller's tokens may allow something else, so each is exchanged for itself.
    if (token) login.use(token, () => exchange(token, principal, options, exchanged))
    return login
  }
}

function exchange(
  token: Secret,
  { claims }: Principal,
  { conversation, parameters }: Options,
  exchanged: LRUCache<string, RenewingLogin>,
): RenewingLogin {
  const key = createHash('sha256').update(token.reveal()).digest('base64')
  const known = exchanged.get(key)
  if (known) return known
  const until = typeof claims?.exp === 'number' ? claims.exp * 1000 : Number.MAX_SAFE_INTEGER
  const login = new RenewingLogin(async () => {
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
  exchanged.set(key, login)
  return login
}

/** A caller's login, whichever of its tokens it came with last. */
class ExchangedLogin implements Login {
  #token: Secret | undefined
  #current: RenewingLogin | undefined

  use(token: Secret, exchanged: () => RenewingLogin): void {
    if (this.#token === token) return
    this.#token = token
    this.#current = exchanged()
  }

  headers(): LoginHeaders | Promise<LoginHeaders> {
    return this.#current ? this.#current.headers() : Promise.reject(noToken())
  }

  refused(refusal: Answer, sent: LoginHeaders): Promise<boolean> {
    return this.#current?.refused(refusal, sent) ?? Promise.resolve(false)
  }
}

function noToken(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'This server is reached with a token exchanged for that of the caller, and the caller came without one.',
    { suggestion: 'Call the gateway with a bearer token.', details: { http_status: 401 } },
  )
}
