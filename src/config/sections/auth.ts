/** The section `auth`: schema, settings, and checks, also those of approvals that depend on it. */
import type { Fields } from '../../core/payload.ts'
import type { AuthSettings, BasicUser, IntrospectSettings, JwtSettings } from '../../core/auth-settings.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { anonymous, type Principal, scopeListSchema } from '../../core/principal.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import { durationSchema } from '../../core/time/units.ts'
import { isHttpUrl } from '../names.ts'
import { complete, withSwitches } from '../schema-lookup.ts'
import { isConfidentialUrl, isLoopbackHost } from '../../core/address.ts'
import { atKey, atValue, type Findings, type Finding } from '../problem.ts'
import { holdsPassword } from '../secrets.ts'

const text = { type: 'string', minLength: 1, errorMessage: 'must be text' } as const
const url = { type: 'string', pattern: '^https?://\\S+$', errorMessage: 'must be a URL' } as const
const knownScopes = { ...scopeListSchema, 'x-names': 'scope' } as const
const hash = (form: string) =>
  ({
    type: 'string',
    pattern: `^${form}:[^:]{8,}:[0-9a-f]{64}$`,
    errorMessage: `must be ${form}:<salt of 8 characters or more>:<64 hex digits>`,
    'x-secret': true,
  }) as const

const jwtSchema = {
  type: 'object',
  required: ['issuer'],
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { issuer: https://idp.example.com }',
  description: 'JWTs of one issuer, verified locally with its keys.',
  properties: {
    issuer: {
      ...text,
      description: 'The exact value of `iss` in a token.',
      examples: ['https://idp.example.com'],
    },
    audience: {
      type: ['array', 'string'],
      items: text,
      minLength: 1,
      minItems: 1,
      errorMessage: 'must be a name or URL, or a list of them',
      description:
        'Accepted values of `aud`, in addition to the URL of the called endpoint (or of /mcp, which covers all endpoints). Required beyond loopback without `listen.public_url`.',
    },
    jwks: {
      ...url,
      description: "The URL of the issuer's keys. Default: discovered through the issuer's metadata.",
    },
    algorithms: {
      type: 'array',
      minItems: 1,
      items: {
        enum: [
          'RS256',
          'RS384',
          'RS512',
          'PS256',
          'PS384',
          'PS512',
          'ES256',
          'ES384',
          'ES512',
          'EdDSA',
          'Ed25519',
          'HS256',
        ],
      },
      errorMessage: 'must be a list of signature algorithms such as [RS256]',
      description: 'Accepted signature algorithms. Default: RS256 and ES256. HS256 requires `secret`.',
    },
    required_claims: {
      type: ['array', 'string'],
      items: text,
      minLength: 1,
      default: [],
      errorMessage: 'must be a list of claims',
      description: 'Required claims, in addition to iss, aud, sub, exp and iat.',
    },
    scope_claim: { ...text, default: 'scope', description: "The claim with the caller's scopes." },
    secret: {
      type: 'string',
      minLength: 32,
      errorMessage: 'must be 32 characters or more',
      'x-secret': true,
      description: 'The shared secret of HS256, instead of `jwks`. Requires `development: on`.',
    },
    client_id: {
      ...text,
      description:
        "The client id of the gateway at the issuer. It enables sign-in to the gateway's pages with OpenID Connect; register the redirect URI /sign-in/callback of the gateway. See [People in a browser](guard.md#people-in-a-browser).",
    },
    client_secret: {
      ...text,
      'x-secret': true,
      description: 'The client secret, if the issuer assigned one.',
    },
  },
} as const

const opaqueSchema = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  errorMessage: 'must be a mapping with `introspect:`, `tokens:` or both',
  description: 'Opaque tokens.',
  properties: {
    introspect: {
      type: 'object',
      required: ['url', 'client_id', 'client_secret'],
      additionalProperties: false,
      errorMessage: 'must be a mapping with `url:`, `client_id:` and `client_secret:`',
      description: 'Token introspection (RFC 7662). Results are cached for at most a minute.',
      properties: {
        url: { ...url, description: 'The introspection endpoint.' },
        client_id: { ...text, description: 'The client id of the gateway at the introspection endpoint.' },
        client_secret: { ...text, 'x-secret': true, description: 'The client secret.' },
        require_audience: {
          type: 'boolean',
          default: true,
          description: 'Refuse tokens if the response of the endpoint has no `aud`.',
        },
      },
    },
    tokens: {
      type: 'array',
      default: [],
      errorMessage: 'must be a list of { hash, id, scopes }',
      description:
        'Static tokens: the hash (`sha256:<salt>:<hex>`), `id` and `scopes` of each; without `scopes` the holder may do everything. Use long random values, such as from `openssl rand -hex 32`.',
      items: {
        type: 'object',
        required: ['hash', 'id'],
        additionalProperties: false,
        errorMessage: 'must be a mapping with `hash:` and `id:`',
        properties: {
          hash: {
            ...hash('sha256'),
            description:
              'The SHA-256 of the concatenated salt and token: sha256:$SALT: followed by the output of printf %s "$SALT$TOKEN" | sha256sum',
          },
          id: { ...text, maxLength: 200, description: 'The id of the token holder, used in logs.' },
          scopes: { ...knownScopes, description: 'The scopes of the holder. Default: all.' },
        },
      },
    },
  },
} as const

const pageRoles = ['viewer', 'approver', 'operator'] as const

const basicSchema = {
  type: 'object',
  required: ['users'],
  additionalProperties: false,
  errorMessage: 'must be a mapping with `users:`',
  description:
    'Names and passwords for service paths such as /metrics, never for MCP. Only on loopback or with an https:// `listen.public_url`.',
  properties: {
    users: {
      type: 'array',
      minItems: 1,
      errorMessage: 'must be a list of { name, password_hash }',
      description:
        'People and programs with a password (`scrypt:<salt>:<hex>`), for /metrics, and with `approves_as` for /confirm.',
      items: {
        type: 'object',
        required: ['name', 'password_hash'],
        additionalProperties: false,
        errorMessage: 'must be a mapping with `name:` and `password_hash:`',
        properties: {
          name: {
            type: 'string',
            pattern: '^[^:\\0-\\x1f]{1,200}$',
            errorMessage: 'must be text without a colon',
          },
          password_hash: {
            ...hash('scrypt'),
            description:
              '32 bytes of scrypt (N 16384, r 8, p 1): scrypt:$SALT: followed by the output of node -p "crypto.scryptSync(process.argv[1], process.argv[2], 32).toString(\'hex\')" "$PASSWORD" "$SALT"',
          },
          approves_as: {
            ...text,
            maxLength: 200,
            description:
              'The id of this person as an approver at /confirm, such as user:anna if the person also has a token with that name. Without it, the person may not approve calls.',
          },
          roles: {
            type: ['array', 'string'],
            items: { enum: pageRoles },
            pattern: `^(?:${pageRoles.join('|')})$`,
            default: [],
            errorMessage: 'must be a list of viewer, approver and operator',
            description:
              'What this person may do at /console: `viewer` sees it, `approver` decides on calls, `operator` does everything. `approves_as` makes an approver as well.',
          },
        },
      },
    },
  },
} as const

const oauthSchema = {
  type: 'object',
  required: ['authorization_servers'],
  additionalProperties: false,
  errorMessage: 'must be a mapping with `authorization_servers:`',
  description: 'Where clients get tokens (RFC 9728). Default: the issuer.',
  properties: {
    authorization_servers: {
      type: ['array', 'string'],
      items: url,
      minItems: 1,
      pattern: url.pattern,
      errorMessage: 'must be a list of URLs',
      description: 'The issuers in the metadata for clients; by default that of `auth.jwt`.',
    },
    scopes_supported: {
      ...scopeListSchema,
      default: [],
      description: 'The scopes that clients request initially. Others are requested when a call needs them.',
    },
  },
} as const

/** The JSON Schema of `auth`. */
export const authSchema = {
  type: ['object', 'string'],
  pattern: '^none$',
  errorMessage: 'must be none, or a mapping with `jwt:` or `opaque:`',
  additionalProperties: false,
  description: 'Authentication of callers. `none` admits everyone who can reach the address.',
  examples: [{ jwt: { issuer: 'https://idp.example.com' } }],
  properties: {
    jwt: jwtSchema,
    opaque: opaqueSchema,
    basic: basicSchema,
    oauth: oauthSchema,
    development: {
      type: 'boolean',
      default: false,
      description: 'Accept tokens that are signed with a shared secret. Only for development.',
    },
    realm: {
      type: 'string',
      pattern: '^[\\w .:/@-]{1,100}$',
      default: 'gatehouse',
      errorMessage: 'must be a name of letters, digits, spaces and . : / @ - _',
      description: 'The name of this service in challenges.',
    },
    anonymous: {
      type: 'array',
      items: { enum: ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list'] },
      default: [],
      errorMessage: 'must be a list of methods such as [tools/list]',
      description: 'Lists that anyone may read without a token, such as `[tools/list]`.',
    },
    principal: {
      type: 'object',
      required: ['id'],
      additionalProperties: false,
      errorMessage: 'must be a mapping with `id:`',
      description: 'The principal of the client of `gatehouse stdio`.',
      properties: {
        id: { ...text, maxLength: 200, description: 'The id of the client of `gatehouse stdio`.' },
        scopes: { ...knownScopes, description: 'Its scopes; by default it may do everything.' },
      },
    },
    session: {
      type: 'object',
      default: {},
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { max_ttl: 8h, idle: 30m }',
      description: 'The lifetime of a session with restricted permissions.',
      properties: {
        max_ttl: {
          ...durationSchema,
          default: '8h',
          description: 'How long a session with fewer scopes lasts.',
        },
        idle: { ...durationSchema, default: '30m', description: 'How long such a session lasts unused.' },
      },
    },
    elevate_url: { ...url, description: 'Where people request more rights; refusals contain this URL.' },
    scope_map: {
      type: 'object',
      default: {},
      additionalProperties: knownScopes,
      errorMessage: 'must be a mapping of scopes of tokens to scopes here',
      description:
        'Maps scopes of tokens to scopes of the gateway. Those under `*` are granted to every token.',
      examples: [{ 'mcp.read': ['read:files'] }],
    },
  },
} as const

/** The settings of `auth` from the validated value of the file, with all defaults. */
export function authSettings(written: unknown): AuthSettings {
  // The value is validated by the schema, which has these types and defaults.
  const values = complete(asObject(written), withSwitches(authSchema)) as AuthValues
  const { realm, jwt, opaque, basic, oauth, principal, session, elevate_url: elevateUrl } = values
  return {
    realm,
    ...(jwt && { jwt: jwtSettings(jwt) }),
    ...(opaque?.introspect && { introspect: introspectSettings(opaque.introspect) }),
    tokens: (opaque?.tokens ?? []).map(({ hash, id, scopes }) => ({
      hash,
      id,
      ...(scopes !== undefined && { scopes: [scopes].flat() }),
    })),
    users: (basic?.users ?? []).map(userSettings),
    authorizationServers: oauth ? [oauth.authorization_servers].flat() : issuerOf(jwt),
    scopesSupported: [oauth?.scopes_supported ?? []].flat(),
    anonymous: values.anonymous,
    principal: principal ? principalOf(principal) : anonymous,
    session: { maxTtl: session.max_ttl, idle: session.idle },
    ...(elevateUrl !== undefined && { elevateUrl }),
    scopeMap: Object.fromEntries(
      Object.entries(values.scope_map).map(([scope, names]) => [scope, [names].flat()]),
    ),
  }
}

type AuthValues = Exclude<FromSchema<typeof authSchema>, string>
type JwtValues = FromSchema<typeof jwtSchema>

function jwtSettings({ issuer, audience, jwks, algorithms, secret, ...rest }: JwtValues): JwtSettings {
  const { client_id: id, client_secret: clientSecret } = rest
  return {
    issuer,
    audiences: [audience ?? []].flat(),
    ...(jwks !== undefined && { jwks }),
    algorithms: algorithms ?? (secret ? ['HS256'] : ['RS256', 'ES256']),
    requiredClaims: [rest.required_claims].flat(),
    scopeClaim: rest.scope_claim,
    ...(secret && { secret }),
    ...(id !== undefined && { client: { id, ...(clientSecret && { secret: clientSecret }) } }),
  }
}

function introspectSettings(
  values: NonNullable<FromSchema<typeof opaqueSchema>['introspect']>,
): IntrospectSettings {
  const { url, client_id: clientId, client_secret: clientSecret, require_audience: requiresAudience } = values
  return { url, clientId, clientSecret, requiresAudience }
}

function issuerOf(jwt: JwtValues | undefined): readonly string[] {
  return jwt && jwt.secret === undefined && isHttpUrl(jwt.issuer) ? [jwt.issuer] : []
}

function principalOf({ id, scopes }: NonNullable<AuthValues['principal']>): Principal {
  return { id, ...(scopes !== undefined && { scopes: new Set([scopes].flat()) }) }
}

function userSettings({
  name,
  password_hash: passwordHash,
  approves_as: approvesAs,
  roles,
}: FromSchema<typeof basicSchema>['users'][number]): BasicUser {
  const given = pageRoles.filter(
    (role) => [roles].flat().includes(role) || (role === 'approver' && approvesAs !== undefined),
  )
  const mayApprove = given.includes('approver') || given.includes('operator')
  const approver = approvesAs ?? `service:${name}`
  return { name, passwordHash, roles: given, ...(mayApprove && { approvesAs: approver }) }
}

type Path = readonly string[]

/** Checks `auth` for consistency, also with the listen address and the profile. */
export function checkAuth({ auth, listen, profile }: Fields): Findings {
  const values = asObject(auth)
  const address = asObject(listen)
  const isCorporate = profile === 'corporate'
  return {
    problems: [
      ...atValue(
        ['profile'],
        isCorporate &&
          !requiresTokens(values) &&
          'corporate needs `auth` with `jwt` or `opaque` at the top level of the file',
      ),
      ...jwtProblems(values, address),
      ...opaqueProblems(values),
      ...basicProblems(values, address),
      ...oauthProblems(values),
      // Public lists require authentication for everything else.
      ...atKey(
        ['auth', 'anonymous'],
        values.anonymous !== undefined &&
          !requiresTokens(values) &&
          'needs `jwt` or `opaque`: otherwise everything is public',
      ),
      ...atKey(
        ['listen', 'operator_mcp'],
        isOn(address.operator_mcp) &&
          !requiresTokens(values) &&
          'needs `auth` with `jwt` or `opaque`: otherwise every caller would be the owner',
      ),
      ...atValue(
        ['auth', 'development'],
        isCorporate && isOn(values.development) && 'is not allowed with `profile: corporate`',
      ),
    ],
    warnings: [...plainTextWarning(values, address), ...ownerWarning(values, address)],
  }
}

/** Whether the values of `auth` require callers to authenticate. */
export function requiresTokens(auth: unknown): boolean {
  return isObject(auth) && (auth.jwt !== undefined || auth.opaque !== undefined)
}

function jwtProblems({ jwt, development }: Fields, listen: Fields): Finding[] {
  if (!isObject(jwt)) return []
  const at = (key: string): Path => ['auth', 'jwt', key]
  const { issuer, jwks, secret, algorithms } = jwt
  const names: readonly unknown[] = Array.isArray(algorithms) ? algorithms : []
  const isSecret = secret !== undefined
  const needsDiscovery = jwks === undefined && !isSecret && typeof issuer === 'string'
  return [
    ...(needsDiscovery ? urlProblems(issuer, at('issuer'), ', or give `jwks` too') : []),
    ...urlProblems(jwks, at('jwks')),
    ...atKey(at('secret'), jwks !== undefined && isSecret && '`jwks` is also set: keep one of the two'),
    ...atKey(
      at('secret'),
      isSecret && !isOn(development) && 'needs `development: on` under `auth`: use `jwks` elsewhere',
    ),
    ...atValue(at('algorithms'), names.includes('HS256') && !isSecret && 'HS256 requires `secret`'),
    ...atValue(
      at('algorithms'),
      isSecret && names.some((name) => name !== 'HS256') && '`secret` allows only HS256',
    ),
    ...audienceProblems(jwt, listen),
    ...clientProblems(jwt, listen),
  ]
}

/** Checks the settings for sign-in of people at the issuer. */
function clientProblems(
  { issuer, jwks, secret, client_id: id, client_secret: clientSecret }: Fields,
  listen: Fields,
): Finding[] {
  const at = (key: string): Path => ['auth', 'jwt', key]
  if (id === undefined)
    return atKey(at('client_secret'), clientSecret !== undefined && 'needs `client_id` as well')
  // Discovery through metadata requires a URL anyway.
  const hasKeys = jwks !== undefined || secret !== undefined
  return [
    ...(hasKeys ? urlProblems(issuer, at('issuer'), ', where people sign in') : []),
    ...atKey(
      at('client_id'),
      isOpenHost(listen) &&
        listen.public_url === undefined &&
        'needs `listen.public_url`, to which the issuer redirects browsers',
    ),
  ]
}

// Without a public URL, the host names of this server are unknown, so the audience of tokens cannot be verified.
function audienceProblems({ audience }: Fields, listen: Fields): Finding[] {
  const isUnknown = audience === undefined && listen.public_url === undefined && isOpenHost(listen)
  return atKey(
    ['auth', 'jwt'],
    isUnknown && 'needs `audience` here or `listen.public_url`, to verify that tokens are for this server',
  )
}

function opaqueProblems({ opaque }: Fields): Finding[] {
  if (!isObject(opaque)) return []
  const { introspect, tokens } = opaque
  const at: Path = ['auth', 'opaque']
  const ids = (Array.isArray(tokens) ? tokens : []).map((token) => (isObject(token) ? token.id : undefined))
  const twice = ids.findIndex((id, index) => id !== undefined && ids.indexOf(id) !== index)
  return [
    ...(isObject(introspect) ? urlProblems(introspect.url, [...at, 'introspect', 'url']) : []),
    ...atValue(
      at,
      introspect === undefined && ids.length === 0 && 'needs `introspect` or at least one of `tokens`',
    ),
    ...atValue([...at, 'tokens', String(twice), 'id'], twice >= 0 && 'another token has this id'),
  ]
}

function basicProblems({ basic }: Fields, listen: Fields): Finding[] {
  const { public_url: publicUrl } = listen
  const isEncrypted = typeof publicUrl === 'string' && /^https:/i.test(publicUrl)
  const message =
    'passwords only travel over https: give an https:// `listen.public_url`, or listen on 127.0.0.1'
  return atKey(['auth', 'basic'], basic !== undefined && isOpenHost(listen) && !isEncrypted && message)
}

function oauthProblems({ oauth, jwt, opaque }: Fields): Finding[] {
  if (!isObject(oauth)) return []
  const isReal = jwt !== undefined || (isObject(opaque) && opaque.introspect !== undefined)
  const servers = [oauth.authorization_servers].flat()
  return [
    ...atKey(['auth', 'oauth'], !isReal && 'needs `jwt` or `opaque.introspect`'),
    ...servers.flatMap((server) => urlProblems(server, ['auth', 'oauth', 'authorization_servers'])),
  ]
}

function urlProblems(value: unknown, path: Path, otherwise = ''): Finding[] {
  if (typeof value !== 'string') return []
  if (!isHttpUrl(value)) return atValue(path, `must be a URL such as https://idp.example.com${otherwise}`)
  if (holdsPassword(value)) return atValue(path, 'a URL must not contain a user and password')
  return atValue(path, !isConfidentialUrl(value) && `must be https://, except on loopback${otherwise}`)
}

function plainTextWarning(auth: Fields, { public_url: publicUrl }: Fields): Finding[] {
  const isPlain = typeof publicUrl === 'string' && isHttpUrl(publicUrl) && !isConfidentialUrl(publicUrl)
  return atValue(
    ['listen', 'public_url'],
    requiresTokens(auth) && isPlain && 'tokens are sent unencrypted: use https://',
  )
}

/** Tokens without scopes have all roles: an agent with one could approve the calls of another one. */
function ownerWarning({ opaque }: Fields, { operator_mcp: operator }: Fields): Finding[] {
  const { tokens } = asObject(opaque)
  const isUnlimited = Array.isArray(tokens) && tokens.some((each) => asObject(each).scopes === undefined)
  return atKey(
    ['listen', 'operator_mcp'],
    isOn(operator) &&
      isUnlimited &&
      'tokens without `scopes` are for the owner too: give those of agents scopes in auth.opaque.tokens',
  )
}

/** Whether other machines can reach the address. */
export function isOpenHost({ host }: Fields): boolean {
  return typeof host === 'string' && !isLoopbackHost(host)
}

function isOn(value: unknown): boolean {
  return value === true || value === 'on' || value === 'true'
}

/** Warns if calls wait for approval on a page that no browser can authenticate to. */
export function pageWarnings({ auth, features, profile, store }: Fields): Finding[] {
  if (!isObject(auth) || !requiresTokens(auth)) return []
  const { jwt, basic } = auth
  const users = isObject(basic) && Array.isArray(basic.users) ? basic.users : []
  const isOpened = isObject(jwt) && jwt.client_id !== undefined
  if (isOpened || users.some(isApprover)) return []
  if (!isPageUsed(features, profile)) return []
  const way = isObject(jwt)
    ? 'set `client_id` here for sign-in at the issuer, or add users'
    : 'add users with `approves_as`'
  const otherwise = store === 'memory' ? 'a client that supports elicitation' : '`gatehouse approvals`'
  return atKey(
    ['auth', isObject(jwt) ? 'jwt' : 'opaque'],
    `no browser can open the approval page, because browsers do not send tokens: ${way} under \`auth.basic\`. Otherwise, such a call needs ${otherwise}`,
  )
}

function isApprover(user: unknown): boolean {
  if (!isObject(user)) return false
  const roles = [user.roles].flat()
  return user.approves_as !== undefined || roles.includes('approver') || roles.includes('operator')
}

/** Whether a call may wait for approval outside of the client. */
function isPageUsed(features: unknown, profile: unknown): boolean {
  if (features === 'none') return false
  const confirm = isObject(features) ? features.confirm : undefined
  if (confirm === false || confirm === 'off') return false
  const fallback = isObject(confirm) ? confirm.fallback : undefined
  return (fallback ?? (profile === 'corporate' ? 'deny' : 'page')) === 'page'
}

/** Checks the approval settings of one tool for consistency. */
export function approvalProblems(tools: unknown, path: Path, hasAuth: boolean): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) =>
    isObject(tool) ? problemsOf(tool, [...path, glob], hasAuth) : [],
  )
}

function problemsOf(tool: Readonly<Record<string, unknown>>, at: Path, hasAuth: boolean): Finding[] {
  const { approval, approvals, approvers } = tool
  const misplaced = approval === 'inline' ? ['approvals', 'approvers'].filter((key) => key in tool) : []
  if (misplaced.length > 0) {
    const message = 'requires `approval: out_of_band`: inline approval asks only the caller'
    return misplaced.flatMap((key) => atKey([...at, key], message))
  }
  if (typeof approvals !== 'number' || approvals < 2) return []
  const path = [...at, 'approvals']
  const named = approvers === undefined ? undefined : [approvers].flat().length
  if (named !== undefined && named < approvals)
    return atValue(path, `more than the ${named} in \`approvers\`: there are not enough approvers`)
  return atValue(path, !hasAuth && 'needs `auth`: without it, people cannot be distinguished')
}
