import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createRemoteJWKSet, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { errors, Provider } from 'oidc-provider'
import { onTestFinished } from 'vitest'
import { isObject } from './server/json.ts'

interface Options {
  /** How long access tokens are good, in seconds. */
  readonly ttl?: number
  /** Answers for documents of clients that would be on the internet, by URL. */
  readonly documents?: Readonly<Record<string, unknown>>
  readonly registration?: boolean
  readonly refreshTokens?: boolean
  /** Refresh tokens are good once: one that is used again ends all that came from the same sign-in. */
  readonly rotates?: boolean
  /** Who signed in, as some authorization servers say it with every token, whatever was asked for. */
  readonly idToken?: string
}

/** A real authorization server on loopback, until the test is over. */
export interface AuthorizationServer {
  readonly issuer: string
  /** Every request it got, as `METHOD /path`. */
  readonly requests: readonly string[]
  /** The bodies of the requests for tokens. */
  readonly grants: readonly URLSearchParams[]
  /** How many sign-ins it ended because a refresh token was used again. */
  readonly revoked: number
  /** A token of the kind clients of the gateway come with, for `audience`. */
  tokenFor(subject: string, audience: string): Promise<string>
  /** What a token says, where it is for `audience`. */
  verify(token: string, audience: string): Promise<JWTPayload>
  /** Knows a client no more that had registered itself. */
  forget(client: string): Promise<void>
}

export const CLIENT = { id: 'gateway', secret: 'a-secret-of-the-gateway' }
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
/** The key the tokens of callers are signed with, and who signs them. */
export const CALLERS = {
  secret: 'the key the tokens of callers are signed with',
  issuer: 'https://login.example',
}
const callers = new TextEncoder().encode(CALLERS.secret)

export async function authorizationServer({
  ttl = 3600,
  documents,
  registration = true,
  refreshTokens = true,
  rotates = false,
  idToken,
}: Options = {}): Promise<AuthorizationServer> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        grant_types: ['client_credentials', EXCHANGE],
        redirect_uris: [],
        response_types: [],
      },
    ],
    cookies: { keys: ['a key for cookies'] },
    issueRefreshToken: async () => refreshTokens,
    ...(rotates && { rotateRefreshToken: true }),
    features: {
      clientCredentials: { enabled: true },
      registration: { enabled: registration },
      clientIdMetadataDocument: { enabled: documents !== undefined, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: async () => true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: 'read write',
          audience: resource,
          accessTokenTTL: ttl,
          accessTokenFormat: 'jwt',
        }),
      },
    },
    ...(documents && {
      fetch: async (url: URL | string) => Response.json(documents[String(url)], { status: 200 }),
    }),
  })
  provider.registerGrantType(
    EXCHANGE,
    async (context) => {
      const { params, client } = context.oidc
      const { payload } = await jwtVerify(params['subject_token'] ?? '', callers).catch(() => {
        throw new errors.InvalidGrant('the subject token is no good')
      })
      const token = new provider.AccessToken({
        client,
        accountId: payload.sub,
        scope: 'read',
        resourceServer: undefined,
      })
      Object.assign(token, { resourceServer: exchanged(params['resource'] ?? '', ttl) })
      context.body = {
        access_token: await token.save(),
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: ttl,
      }
    },
    ['subject_token', 'subject_token_type', 'requested_token_type', 'resource', 'audience', 'scope'],
  )

  provider.use(async (context, next) => {
    await next()
    if (idToken !== undefined && context.path === '/token' && isObject(context.body))
      context.body = { ...context.body, id_token: idToken }
  })
  provider.on('server_error', (_context, error) => console.error(error))
  let revoked = 0
  provider.on('grant.revoked', () => void revoked++)
  const requests: string[] = []
  const grants: URLSearchParams[] = []
  const answer = provider.callback()
  server.on('request', (request, response) => {
    requests.push(`${request.method} ${request.url?.split('?')[0]}`)
    if (request.url === '/token') {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => grants.push(new URLSearchParams(Buffer.concat(chunks).toString())))
    }
    void answer(request, response)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const keys = createRemoteJWKSet(new URL(`${issuer}/jwks`))
  return {
    issuer,
    requests,
    grants,
    get revoked() {
      return revoked
    },
    tokenFor: (subject, audience) =>
      new SignJWT({ scope: 'read:one write:one' })
        .setProtectedHeader({ alg: 'HS256' })
        .setSubject(subject)
        .setIssuer(CALLERS.issuer)
        .setAudience(audience)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(callers),
    verify: async (token, audience) => (await jwtVerify(token, keys, { audience, issuer })).payload,
    forget: (client) => provider.Client.adapter.destroy(client),
  }
}

function exchanged(audience: string, ttl: number) {
  return {
    audience,
    accessTokenTTL: ttl,
    accessTokenFormat: 'jwt',
    scopes: new Set(['read']),
    scope: 'read',
    identifier: () => audience,
  }
}

/** Signs a user in through the pages of the server, as a browser would. Resolves with where it was sent last. */
export async function signIn(url: string, user: string, until: (url: string) => boolean): Promise<string> {
  const jar = new Map<string, string>()
  const visit = async (address: string, form?: Record<string, string>): Promise<Response> => {
    const response = await fetch(address, {
      method: form ? 'POST' : 'GET',
      redirect: 'manual',
      headers: { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') },
      ...(form && { body: new URLSearchParams(form) }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [name = '', value = ''] = cookie.split(';')[0]?.split('=') ?? []
      jar.set(name, value)
    }
    return response
  }
  let place = url
  let response = await visit(place)
  for (let hop = 0; hop < 20; hop++) {
    const location = response.headers.get('location')
    if (location !== null) {
      place = new URL(location, place).href
      if (until(place)) return place
      response = await visit(place)
      continue
    }
    const page = await response.text()
    const prompt = /name="prompt" value="(\w+)"/.exec(page)?.[1]
    if (prompt === undefined) throw new Error(`There is no way on from ${place}: ${page.slice(0, 500)}`)
    response = await visit(place, { prompt, ...(prompt === 'login' && { login: user, password: 'any' }) })
  }
  throw new Error('The sign-in goes in circles.')
}

/** Signs a user in by a link of the gateway, and comes back to it. Resolves with the text of the last page. */
export async function followLink(link: string, user: string): Promise<string> {
  const start = await fetch(link)
  const cookie = start.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const href = /<a rel="noreferrer" href="([^"]+)"/.exec(await start.text())?.[1] ?? ''
  const url = href.replaceAll(/&#(\d+);/g, (_whole, code: string) => String.fromCharCode(Number(code)))
  const back = await signIn(url, user, (place) => place.includes('/oauth/callback'))
  return (await fetch(back, { headers: { cookie } })).text()
}
