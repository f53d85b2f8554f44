/** The section `auth`: schema and settings. */
import type { AuthSettings, BasicUser, IntrospectSettings, JwtSettings } from '../../core/auth-settings.ts'
import { isObject } from '../../core/json/json.ts'
import { anonymous, type Principal, scopeListSchema } from '../../core/principal.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { Secret } from '../../core/text/secret.ts'
import { durationSchema } from '../../core/time/units.ts'
import { isHttpUrl } from '../names.ts'
import { complete, withSwitches } from '../complete.ts'

const text = { type: 'string', minLength: 1, errorMessage: 'must be text' }
const url = { type: 'string', pattern: '^https?://\\S+$', errorMessage: 'must be a URL' }
const knownScopes = { ...scopeListSchema, 'x-names': 'scope' }
const hash = (form: string) => ({
  type: 'string',
  pattern: `^${form}:[^:]{8,}:[0-9a-f]{64}$`,
  errorMessage: `must be ${form}:<salt of 8 characters or more>:<64 hex digits>`,
  'x-secret': true,
})

const jwtSchema: JsonSchema = {
  type: 'object',
  required: ['issuer'],
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { issuer: https://idp.example.com }',
  description: 'JWTs of one issuer, verified locally with its keys.',
  properties: {
    issuer: {
      ...text,
      description: 'The exact value of `iss`.',
      examples: ['https://idp.example.com'],
    },
    audience: {
      type: ['array', 'string'],
      items: text,
      minLength: 1,
      minItems: 1,
      errorMessage: 'must be a name or URL, or a list of them',
      description:
        'Accepted values of `aud`, in addition to the URL of the called endpoint (or of /mcp, which covers all endpoints).',
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
        "The client id of the gateway at the issuer. It enables sign-in to the gateway's pages with OpenID Connect; register the redirect URI /sign-in/callback of the gateway.",
    },
    client_secret: {
      ...text,
      'x-secret': true,
      description: 'The client secret, if the issuer assigned one.',
    },
  },
}

const opaqueSchema: JsonSchema = {
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
          description:
            'Reject tokens whose introspection response does not name this server as the audience.',
        },
      },
    },
    tokens: {
      type: 'array',
      default: [],
      errorMessage: 'must be a list of { hash, id, scopes }',
      description: 'Static tokens. Use long random values, such as from `openssl rand -hex 32`.',
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
}

const basicSchema: JsonSchema = {
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
      description: 'The users of service paths, and their passwords.',
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
        },
      },
    },
  },
}

const oauthSchema: JsonSchema = {
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
      description: 'The issuers of tokens for this server.',
    },
    scopes_supported: {
      ...scopeListSchema,
      default: [],
      description: 'The scopes that clients request initially. Others are requested when a call needs them.',
    },
  },
}

/** The JSON Schema of `auth`. */
export const authSchema: JsonSchema = {
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
      description: 'Allow settings for development only: tokens signed with a shared secret.',
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
      description: 'List methods that need no token.',
    },
    principal: {
      type: 'object',
      required: ['id'],
      additionalProperties: false,
      errorMessage: 'must be a mapping with `id:`',
      description: 'The principal of the client of `gatehouse stdio`.',
      properties: {
        id: { ...text, maxLength: 200, description: 'The id of the client, used in logs.' },
        scopes: { ...knownScopes, description: 'The scopes of the client. Default: all.' },
      },
    },
    session: {
      type: 'object',
      default: {},
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { max_ttl: 8h, idle: 30m }',
      description: 'The lifetime of a session with restricted permissions.',
      properties: {
        max_ttl: { ...durationSchema, default: '8h', description: 'The total lifetime.' },
        idle: { ...durationSchema, default: '30m', description: 'The idle timeout.' },
      },
    },
    elevate_url: { ...url, description: 'The URL where people request more permissions.' },
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
}

/** The settings of `auth` from the validated value of the file, with all defaults. */
export function authSettings(written: unknown): AuthSettings {
  // The value is validated by the schema, which has these types and defaults.
  const values = complete(isObject(written) ? written : {}, withSwitches(authSchema)) as AuthValues
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

type Texts = string | readonly string[]

interface AuthValues {
  readonly realm: string
  readonly jwt?: JwtValues
  readonly opaque?: {
    readonly introspect?: IntrospectValues
    readonly tokens: readonly { readonly hash: Secret; readonly id: string; readonly scopes?: Texts }[]
  }
  readonly basic?: { readonly users: readonly UserValues[] }
  readonly oauth?: { readonly authorization_servers: Texts; readonly scopes_supported: Texts }
  readonly anonymous: readonly string[]
  readonly principal?: PrincipalValues
  readonly session: { readonly max_ttl: number; readonly idle: number }
  readonly elevate_url?: string
  readonly scope_map: Readonly<Record<string, Texts>>
}

interface JwtValues {
  readonly issuer: string
  readonly audience?: Texts
  readonly jwks?: string
  readonly algorithms?: readonly string[]
  readonly required_claims: Texts
  readonly scope_claim: string
  readonly secret?: Secret
  readonly client_id?: string
  readonly client_secret?: Secret
}

interface IntrospectValues {
  readonly url: string
  readonly client_id: string
  readonly client_secret: Secret
  readonly require_audience: boolean
}

interface PrincipalValues {
  readonly id: string
  readonly scopes?: Texts
}

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

function introspectSettings(values: IntrospectValues): IntrospectSettings {
  const { url, client_id: clientId, client_secret: clientSecret, require_audience: requiresAudience } = values
  return { url, clientId, clientSecret, requiresAudience }
}

function issuerOf(jwt: JwtValues | undefined): readonly string[] {
  return jwt && jwt.secret === undefined && isHttpUrl(jwt.issuer) ? [jwt.issuer] : []
}

function principalOf({ id, scopes }: PrincipalValues): Principal {
  return { id, ...(scopes !== undefined && { scopes: new Set([scopes].flat()) }) }
}

interface UserValues {
  readonly name: string
  readonly password_hash: Secret
  readonly approves_as?: string
}

function userSettings({ name, password_hash: passwordHash, approves_as: approvesAs }: UserValues): BasicUser {
  return { name, passwordHash, ...(approvesAs !== undefined && { approvesAs }) }
}
