/** `oauth` of a server: schema, settings and checks. */
import { isObject } from '../../core/json/json.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import type { Secret } from '../../core/text/secret.ts'
import { isHttpUrl, isLoopback } from '../names.ts'
import type { Finding } from '../problem.ts'

const url = {
  type: 'string',
  pattern: '^https?://',
  errorMessage: 'must be a URL such as https://login.example.com',
}

/** The JSON Schema of `oauth` of an upstream. */
export const oauthSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { client_id: gateway, client_secret: "${SECRET}" }',
  description: 'How the gateway obtains tokens for this server. The token of a caller is never forwarded.',
  properties: {
    grant: {
      enum: ['client_credentials', 'token_exchange', 'authorization_code'],
      description:
        'As the gateway itself, by exchanging the token of each caller, or by sign-in of each caller. Default: the first if there is a `client_secret`, else the last.',
    },
    client_id: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be the client id of the gateway',
      description:
        'The client id of the gateway; without it, the gateway registers itself before users sign in.',
    },
    client_secret: {
      type: 'string',
      minLength: 1,
      'x-secret': true,
      errorMessage: 'must be text, such as "${CLIENT_SECRET}", and not be empty',
      description: 'The secret of that client.',
    },
    issuer: {
      ...url,
      description: 'The authorization server. Default: the one in the metadata of the server.',
      examples: ['https://login.example.com'],
    },
    token_endpoint: {
      ...url,
      description: 'The token endpoint of an authorization server without metadata.',
    },
    scopes: {
      type: ['array', 'string'],
      items: { type: 'string', pattern: '^[!#-\\[\\]-~]+$', errorMessage: 'must be one scope' },
      default: [],
      errorMessage: 'must be a list of scopes',
      description:
        'The requested scopes. Default: those in the challenge of the server, else those in its metadata.',
    },
    audience: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be text',
      description: 'The `audience` parameter that some authorization servers require.',
    },
    resource: {
      type: ['string', 'boolean'],
      pattern: '^([a-z][a-z0-9+.-]*:|(off|on|true|false)$)',
      errorMessage: 'must be the URI of the server, or off',
      default: 'on',
      description:
        'The `resource` parameter of token requests: `on` is the URL of this server; `off` omits it, for authorization servers that reject it.',
    },
  },
}

/** `oauth` of an upstream as written in the file. */
export interface OAuthValues {
  readonly grant?: OAuthSettings['grant']
  readonly client_id?: string
  readonly client_secret?: Secret
  readonly issuer?: string
  readonly token_endpoint?: string
  readonly scopes: string | readonly string[]
  readonly audience?: string
  readonly resource: string | boolean
}

/** The settings of `oauth` for the server at a URL. */
export function oauthSettings(values: OAuthValues, url: string): OAuthSettings {
  const { client_id: clientId, client_secret: clientSecret, token_endpoint: tokenEndpoint } = values
  const { issuer, audience, scopes } = values
  const resource = values.resource === true ? url.replace(/#.*$/, '') : values.resource
  return {
    grant: values.grant ?? (clientSecret ? 'client_credentials' : 'authorization_code'),
    ...(clientId !== undefined && { clientId }),
    ...(clientSecret && { clientSecret }),
    ...(issuer !== undefined && { issuer }),
    ...(tokenEndpoint !== undefined && { tokenEndpoint }),
    scopes: typeof scopes === 'string' ? scopes.split(/\s+/).filter(Boolean) : scopes,
    ...(audience !== undefined && { audience }),
    ...(resource !== false && { resource }),
  }
}

type Values = Readonly<Record<string, unknown>>

/** Checks `oauth` for consistency with the rest of an upstream. */
export function oauthProblems(upstream: Values, path: readonly string[]): Finding[] {
  const { oauth, url, token, headers, isolation } = upstream
  if (!isObject(oauth) || url === undefined) return []
  const at = [...path, 'oauth']
  const problems: Finding[] = []
  const named = isObject(headers) ? Object.keys(headers) : []
  if (token !== undefined || named.some((name) => name.toLowerCase() === 'authorization')) {
    problems.push({ path: at, at: 'key', message: 'a fixed token is also set: keep one of the two' })
  }
  const grant = grantOf(oauth)
  const needs = grant === 'client_credentials' ? ['client_id', 'client_secret'] : ['client_id']
  const isOfItself = grant === 'client_credentials' || grant === 'token_exchange'
  const isRegistered = isOfItself || oauth.client_secret !== undefined
  for (const key of isRegistered ? needs : []) {
    if (oauth[key] === undefined) problems.push({ path: at, at: 'key', message: `needs \`${key}\`` })
  }
  if (grant !== 'client_credentials' && isolation === 'shared') {
    const message =
      'each caller has its own credentials, so connections cannot be shared: use auto or per_client'
    problems.push({ path: [...path, 'isolation'], message })
  }
  if (grant === 'authorization_code' && oauth.token_endpoint !== undefined && oauth.issuer === undefined) {
    const message = 'is not enough for users to sign in: give `issuer`'
    problems.push({ path: [...at, 'token_endpoint'], at: 'key', message })
  }
  return [...problems, ...plainText(oauth, at)]
}

/** Secrets are sent to these URLs, so https is required except on loopback. */
function plainText(oauth: Values, at: readonly string[]): Finding[] {
  return ['issuer', 'token_endpoint'].flatMap((key): Finding[] => {
    const address = oauth[key]
    if (typeof address !== 'string') return []
    if (!isHttpUrl(address)) return [{ path: [...at, key], message: 'must be a complete URL' }]
    const { protocol, hostname } = new URL(address)
    const isSafe = protocol === 'https:' || isLoopback(hostname)
    return isSafe ? [] : [{ path: [...at, key], message: 'must start with https://' }]
  })
}

/** Warns if all callers would share the grant of one user. */
export function sharedGrants(upstreams: Values, isForAll: boolean): Finding[] {
  if (!isForAll) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || grantOf(oauth) !== 'authorization_code') return []
    const message =
      'without `auth`, callers cannot be distinguished, so the first sign-in applies to all of them: set `auth`'
    return [{ path: ['upstreams', name, 'oauth'], at: 'key', message }]
  })
}

/** Warns if tokens of callers are to be exchanged, but callers send none. */
export function missingTokens(upstreams: Values, auth: unknown): Finding[] {
  const { jwt, opaque }: Values = isObject(auth) ? auth : {}
  if (jwt !== undefined || (isObject(opaque) && opaque.introspect !== undefined)) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || grantOf(oauth) !== 'token_exchange') return []
    const message =
      'callers have no token that could be exchanged: set `auth.jwt` or `auth.opaque.introspect`'
    return [{ path: ['upstreams', name, 'oauth', 'grant'], message }]
  })
}

/** Whether each user has credentials of a server, as the values of a file say. */
export function isPersonal({ oauth }: Values): boolean {
  return isObject(oauth) && grantOf(oauth) !== 'client_credentials'
}

function grantOf(oauth: Values): unknown {
  return oauth.grant ?? (oauth.client_secret === undefined ? 'authorization_code' : 'client_credentials')
}
