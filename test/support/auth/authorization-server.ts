import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import Provider from 'oidc-provider'

/** A real authorization server, where everybody signs in as `someone` unless said otherwise, and agrees to everything. */
export interface AuthorizationServer {
  readonly issuer: string
  /** What the gateway is there, to ask about tokens. */
  readonly client: { readonly id: string; readonly secret: string }
  /** Every path that was asked for. */
  readonly asked: readonly string[]
  /** Ends and starts again with other keys, at the same address. */
  restart(): Promise<void>
  /** A token of the client `robot` for a resource. */
  robotToken(resource: string, scope?: string): Promise<string>
  /** A token of a person for a resource, as the person's own client would get it. */
  personToken(person: string, resource: string): Promise<string>
  /** Whoever signs in from here on. */
  person: string
  /** A token of the robot that has ended. */
  endedToken(resource: string): Promise<string>
  close(): Promise<void>
}

interface Options {
  readonly format?: 'jwt' | 'opaque'
}

/** Where browsers are sent with a code. */
export const redirectUri = 'http://127.0.0.1:9/callback'

const client = { id: 'gateway', secret: 'a secret of the gateway' }
/** The gateway as people's way to its pages, on any port of loopback. */
export const pagesClient = { id: 'pages', secret: 'a secret of the pages' }
const robot = { id: 'robot', secret: 'a secret of the robot' }
const SCOPES = 'read:fake write:fake delete:fake'

/** Starts an authorization server on loopback. */
export async function startAuthorizationServer(options: Options = {}): Promise<AuthorizationServer> {
  const asked: string[] = []
  let server = createServer()
  const port = await listen(server, 0)
  const issuer = `http://127.0.0.1:${port}`
  let keys = await createKeys()
  const people = { current: 'someone' }
  serve(server, createProvider(issuer, keys, options), { asked, people })
  const close = async (): Promise<void> => {
    const closed = once(server, 'close')
    server.close()
    server.closeAllConnections()
    await closed
  }
  const signed = (claims: Readonly<Record<string, unknown>>): Promise<string> =>
    new SignJWT({ iss: issuer, ...claims })
      .setProtectedHeader({ alg: 'RS256', kid: keys.jwk.kid })
      .sign(keys.privateKey)
  return {
    issuer,
    client,
    asked,
    restart: async () => {
      await close()
      server = createServer()
      keys = await createKeys()
      serve(server, createProvider(issuer, keys, options), { asked, people })
      await listen(server, port)
    },
    robotToken: async (resource, scope = 'read:fake') => {
      const body = new URLSearchParams({ grant_type: 'client_credentials', resource, scope })
      const basic = [robot.id, robot.secret].map((part) => encodeURIComponent(part)).join(':')
      const authorization = `Basic ${Buffer.from(basic).toString('base64')}`
      const response = await fetch(`${issuer}/token`, { method: 'POST', body, headers: { authorization } })
      const answer: unknown = await response.json()
      if (typeof answer === 'object' && answer && 'access_token' in answer) return String(answer.access_token)
      throw new Error(`No token: ${JSON.stringify(answer)}`)
    },
    personToken: (person, resource) => {
      const now = Math.floor(Date.now() / 1000)
      return signed({ aud: resource, sub: person, iat: now, exp: now + 3600 })
    },
    get person() {
      return people.current
    },
    set person(name) {
      people.current = name
    },
    endedToken: (resource) =>
      signed({ aud: resource, sub: robot.id, scope: 'read:fake', iat: 1000, exp: 2000 }),
    close,
  }
}

interface Keys {
  readonly privateKey: CryptoKey
  readonly jwk: JWK & { readonly kid: string }
}

async function createKeys(): Promise<Keys> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  const jwk = { ...(await exportJWK(privateKey)), kid: crypto.randomUUID(), alg: 'RS256', use: 'sig' }
  return { privateKey, jwk }
}

function createProvider(issuer: string, { jwk }: Keys, { format = 'jwt' }: Options): Provider {
  const service = { grant_types: ['client_credentials'], redirect_uris: [], response_types: [] }
  return new Provider(issuer, {
    jwks: { keys: [jwk] },
    cookies: { keys: ['test'] },
    clients: [
      ...[client, robot].map(({ id, secret }) => ({ client_id: id, client_secret: secret, ...service })),
      {
        client_id: 'app',
        redirect_uris: [redirectUri],
        application_type: 'native',
        token_endpoint_auth_method: 'none',
      },
      {
        client_id: pagesClient.id,
        client_secret: pagesClient.secret,
        redirect_uris: ['http://127.0.0.1/sign-in/callback'],
        application_type: 'native',
      },
    ],
    scopes: ['openid', 'offline_access', ...SCOPES.split(' ')],
    pkce: { required: () => true },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    ttl: { AccessToken: 3600, ClientCredentials: 3600, Session: 600, Interaction: 600, Grant: 600 },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: true },
      clientCredentials: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: SCOPES,
          audience: resource,
          accessTokenFormat: format,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  })
}

interface Served {
  readonly asked: string[]
  readonly people: { readonly current: string }
}

function serve(server: Server, provider: Provider, { asked, people }: Served): void {
  const others = provider.callback()
  server.on('request', (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const path = incoming.url?.split('?', 1)[0] ?? ''
    asked.push(path)
    const served = path.startsWith('/interaction/')
      ? agree(provider, people.current, { incoming, outgoing })
      : others(incoming, outgoing)
    served.catch(() => outgoing.destroy())
  })
}

/** Signs in and agrees to whatever is asked. */
async function agree(
  provider: Provider,
  person: string,
  { incoming, outgoing }: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
): Promise<void> {
  const { prompt, params, session, grantId } = await provider.interactionDetails(incoming, outgoing)
  if (prompt.name === 'login')
    return provider.interactionFinished(incoming, outgoing, { login: { accountId: person } })
  const known = grantId === undefined ? undefined : await provider.Grant.find(grantId)
  const of = { accountId: session?.accountId ?? person, clientId: String(params['client_id']) }
  const grant = known ?? new provider.Grant(of)
  const { missingOIDCScope: open = [], missingResourceScopes: resources = {} } = prompt.details
  if (open.length > 0) grant.addOIDCScope(open.join(' '))
  for (const [resource, scopes] of Object.entries(resources))
    grant.addResourceScope(resource, scopes.join(' '))
  await provider.interactionFinished(incoming, outgoing, { consent: { grantId: await grant.save() } })
}

async function listen(server: Server, port: number): Promise<number> {
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (typeof address === 'object' && address) return address.port
  throw new Error('It has no port')
}
