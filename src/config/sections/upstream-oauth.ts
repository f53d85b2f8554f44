/** `oauth` of a server: schema, settings and checks. */
import type { Fields } from '../../core/payload.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type { IdentityProvider, OAuthSettings } from '../../core/settings.ts'
import { isConfidentialUrl } from '../../core/address.ts'
import { isHttpUrl } from '../names.ts'
import { atKey, atValue, type Finding } from '../problem.ts'

const url = {
  type: 'string',
  pattern: '^https?://',
  errorMessage: 'must be a URL such as https://login.example.com',
} as const

const path = {
  type: 'string',
  pattern: '^(/|[A-Za-z]:[\\\\/])',
  errorMessage: 'must be the absolute path of a file',
} as const

const privateKey = {
  type: 'string',
  minLength: 1,
  'x-secret': true,
  errorMessage: 'must be text, such as "${file:/run/secrets/key.pem}", and not be empty',
  description:
    'The private key with which the client authenticates in place of a secret (`private_key_jwt`), as PEM or JWK.',
} as const

const identityProvider = {
  type: 'object',
  additionalProperties: false,
  required: ['client_id'],
  errorMessage: 'must be a mapping such as { issuer: https://idp.example.com, client_id: gateway }',
  description:
    'The identity provider that asserts who a caller is to the authorization server of this server, for `jwt_bearer` (enterprise-managed authorization).',
  properties: {
    issuer: { ...url, description: 'The identity provider.' },
    token_endpoint: { ...url, description: 'Its token endpoint, if it has no metadata.' },
    client_id: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be the client id of the gateway',
      description: 'The client id of the gateway at the identity provider.',
    },
    client_secret: {
      type: 'string',
      minLength: 1,
      'x-secret': true,
      errorMessage: 'must be text, such as "${IDP_SECRET}", and not be empty',
      description: 'The secret of that client.',
    },
    private_key: privateKey,
    subject_token_file: {
      ...path,
      description:
        'A file with the token of the one person who uses the gateway, read at each request. Default: the token of each caller is used.',
      examples: ['/run/user/1000/id-token'],
    },
    subject_token_type: {
      enum: ['id_token', 'access_token', 'refresh_token', 'saml2'],
      default: 'id_token',
      description: 'What kind of token that is.',
    },
  },
} as const

/** The JSON Schema of `oauth` of an upstream. */
export const oauthSchema = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { client_id: gateway, client_secret: "${SECRET}" }',
  description: 'How the gateway obtains tokens for this server. The token of a caller is never forwarded.',
  properties: {
    grant: {
      enum: ['client_credentials', 'jwt_bearer', 'token_exchange', 'authorization_code'],
      description:
        'As the gateway itself, for an assertion, by exchanging the token of each caller, or by sign-in of each caller. Default: the first if there is a `client_secret` or `private_key`, the second if there is an `assertion_file` or `identity_provider`, else the last. See [Credentials for servers](guard.md#credentials-for-servers).',
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
    private_key: privateKey,
    assertion_file: {
      ...path,
      description:
        'A file with a JWT that a platform issued to the gateway, such as a projected service account token, read at each request for a token, for `jwt_bearer`.',
      examples: ['/var/run/secrets/tokens/mcp'],
    },
    identity_provider: identityProvider,
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
    dpop: {
      type: ['string', 'boolean'],
      pattern: '^(auto|off|on|true|false)$',
      default: 'auto',
      errorMessage: 'must be auto, on or off',
      description:
        'Whether tokens are bound to a key of the gateway, so that they are useless to others (DPoP, RFC 9449): `auto` if the server, asked without a token, says that it takes no others. With `issuer` or `token_endpoint` it is not asked: write `on`.',
    },
  },
} as const

/** `oauth` of an upstream as written in the file. */
type OAuthValues = FromSchema<typeof oauthSchema>

/** The settings of `oauth` for the server at a URL. */
export function oauthSettings(values: OAuthValues, url: string): OAuthSettings {
  const { client_id: clientId, client_secret: clientSecret, token_endpoint: tokenEndpoint } = values
  const { private_key: key, assertion_file: assertionFile, identity_provider: provider } = values
  const { issuer, audience, scopes, dpop } = values
  const resource = values.resource === true ? url.replace(/#.*$/, '') : values.resource
  return {
    grant: grantOf(values),
    ...(clientId !== undefined && { clientId }),
    ...(clientSecret && { clientSecret }),
    ...(key && { privateKey: key }),
    ...(assertionFile !== undefined && { assertionFile }),
    ...(provider && { identityProvider: identityProviderSettings(provider) }),
    ...(issuer !== undefined && { issuer }),
    ...(tokenEndpoint !== undefined && { tokenEndpoint }),
    scopes: typeof scopes === 'string' ? scopes.split(/\s+/).filter(Boolean) : scopes,
    ...(audience !== undefined && { audience }),
    ...(resource !== false && { resource }),
    ...(dpop !== 'auto' && { dpop: dpop ? 'on' : 'off' }),
  }
}

function identityProviderSettings(values: FromSchema<typeof identityProvider>): IdentityProvider {
  const {
    issuer,
    token_endpoint: tokenEndpoint,
    client_secret: clientSecret,
    private_key: privateKey,
  } = values
  const { subject_token_file: subjectTokenFile } = values
  return {
    ...(issuer !== undefined && { issuer }),
    ...(tokenEndpoint !== undefined && { tokenEndpoint }),
    clientId: values.client_id,
    ...(clientSecret && { clientSecret }),
    ...(privateKey && { privateKey }),
    ...(subjectTokenFile !== undefined && { subjectTokenFile }),
    subjectTokenType: values.subject_token_type,
  }
}

/** Checks `oauth` for consistency with the rest of an upstream. */
export function oauthProblems(upstream: Fields, path: readonly string[]): Finding[] {
  const { oauth, url, token, headers, isolation } = upstream
  if (!isObject(oauth) || url === undefined) return []
  const at = [...path, 'oauth']
  const named = isObject(headers) ? Object.keys(headers) : []
  const isFixed = token !== undefined || named.some((name) => name.toLowerCase() === 'authorization')
  const isSignIn = grantOf(oauth) === 'authorization_code'
  const provider = asObject(oauth.identity_provider)
  return [
    ...atKey(at, isFixed && 'a fixed token is also set: keep one of the two'),
    ...clientProblems(oauth, at),
    ...assertionProblems(oauth, at),
    ...atValue(
      [...path, 'isolation'],
      isPersonal(upstream) &&
        isolation === 'shared' &&
        'each caller has its own credentials, so connections cannot be shared: use auto or per_client',
    ),
    ...atKey(
      [...at, 'token_endpoint'],
      isSignIn &&
        oauth.token_endpoint !== undefined &&
        oauth.issuer === undefined &&
        'is not enough for users to sign in: give `issuer`',
    ),
    ...plainText(oauth, at),
    ...plainText(provider, [...at, 'identity_provider']),
  ]
}

/** Checks that the client has what its grant needs. */
function clientProblems(oauth: Fields, at: readonly string[]): Finding[] {
  const { client_id: id, client_secret: secret, private_key: key } = oauth
  const grant = grantOf(oauth)
  const [hasSecret, hasKey] = [secret !== undefined, key !== undefined]
  const isKnown = grant !== 'authorization_code' || hasSecret || hasKey
  const isAlone = grant === 'client_credentials' && !hasSecret && !hasKey
  const message = 'the client authenticates with its secret or its key: keep one of the two'
  return [
    ...atKey(at, isKnown && id === undefined && 'needs `client_id`'),
    ...atKey(at, isAlone && 'needs `client_secret` or `private_key`'),
    ...atKey([...at, 'private_key'], hasSecret && hasKey && message),
  ]
}

/** Checks that an assertion comes from one place. */
function assertionProblems(oauth: Fields, at: readonly string[]): Finding[] {
  const { assertion_file: file, identity_provider: provider } = oauth
  if (grantOf(oauth) !== 'jwt_bearer')
    return ['assertion_file', 'identity_provider'].flatMap((key) =>
      atKey([...at, key], oauth[key] !== undefined && 'is for `grant: jwt_bearer` only'),
    )
  if ((file === undefined) === (provider === undefined))
    return atKey(at, 'needs `assertion_file` or `identity_provider`, one of the two')
  const isKnown =
    !isObject(provider) || provider.issuer !== undefined || provider.token_endpoint !== undefined
  return atKey([...at, 'identity_provider'], !isKnown && 'needs `issuer`')
}

/** Secrets are sent to these URLs, so https is required except on loopback. */
function plainText(oauth: Fields, at: readonly string[]): Finding[] {
  return ['issuer', 'token_endpoint'].flatMap((key): Finding[] => {
    const address = oauth[key]
    if (typeof address !== 'string') return []
    if (!isHttpUrl(address)) return atValue([...at, key], 'must be a complete URL')
    return atValue([...at, key], !isConfidentialUrl(address) && 'must start with https://')
  })
}

/** Warns if all callers would share the grant of one user. */
export function sharedGrants(upstreams: Fields, isForAll: boolean): Finding[] {
  if (!isForAll) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || grantOf(oauth) !== 'authorization_code') return []
    const message =
      'without `auth`, callers cannot be distinguished, so the first sign-in applies to all of them: set `auth`'
    return atKey(['upstreams', name, 'oauth'], message)
  })
}

/** Warns if tokens of callers are to be exchanged, but callers send none. */
export function missingTokens(upstreams: Fields, auth: unknown): Finding[] {
  const { jwt, opaque }: Fields = asObject(auth)
  if (jwt !== undefined || (isObject(opaque) && opaque.introspect !== undefined)) return []
  return Object.entries(upstreams).flatMap(([name, upstream]): Finding[] => {
    const oauth = isObject(upstream) ? upstream.oauth : undefined
    if (!isObject(oauth) || !usesTokensOfCallers(oauth)) return []
    const message =
      'callers have no token that could be exchanged: set `auth.jwt` or `auth.opaque.introspect`'
    const key = grantOf(oauth) === 'jwt_bearer' ? 'identity_provider' : 'grant'
    return atValue(['upstreams', name, 'oauth', key], message)
  })
}

/** Whether each user has credentials of a server, as the values of a file say. */
export function isPersonal({ oauth }: Fields): boolean {
  return isObject(oauth) && (grantOf(oauth) === 'authorization_code' || usesTokensOfCallers(oauth))
}

function usesTokensOfCallers(oauth: Fields): boolean {
  const { identity_provider: provider } = oauth
  if (grantOf(oauth) !== 'jwt_bearer') return grantOf(oauth) === 'token_exchange'
  return isObject(provider) && provider.subject_token_file === undefined
}

function grantOf<Grant>(oauth: {
  readonly grant?: Grant
  readonly client_secret?: unknown
  readonly private_key?: unknown
  readonly assertion_file?: unknown
  readonly identity_provider?: unknown
}): Grant | 'client_credentials' | 'jwt_bearer' | 'authorization_code' {
  if (oauth.grant !== undefined) return oauth.grant
  if (oauth.assertion_file !== undefined || oauth.identity_provider !== undefined) return 'jwt_bearer'
  const isRegistered = oauth.client_secret !== undefined || oauth.private_key !== undefined
  return isRegistered ? 'client_credentials' : 'authorization_code'
}
