/** A server under `upstreams`: schema and checks. */
import type { Fields } from '../../core/payload.ts'
import { resolve } from 'node:path'
import { errorCodes } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { parseProxy } from '../../core/proxy.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type { SchemaDialect, UpstreamSettings } from '../../core/settings.ts'
import type { Secret } from '../../core/text/secret.ts'
import { scopeNameSchema } from '../../core/principal.ts'
import { durationSchema, pauseSchema, timeoutSchema } from '../../core/time/units.ts'
import { revisionNames } from '../../core/revisions.ts'
import { isConfidentialUrl } from '../../core/address.ts'
import { isHttpUrl } from '../names.ts'
import {
  argumentLimitProblems,
  patternMistake,
  expressionProblems,
  maskProblems,
  toolSchema,
  type ToolValues,
} from './tool.ts'
import { atKey, atValue, type PathKind, placeAt, type Findings, type Finding } from '../problem.ts'
import { holdsPassword, looksLikeToken, namesSecret } from '../secrets.ts'
import { aboutProperties, list, resourceWords, toolWords } from './about.ts'
import { approvalProblems } from './auth.ts'
import { areServerEventsOn, eventProblems, eventsSchema, type EventValues } from './events.ts'
import type { CompatTarget } from './profile.ts'
import { oauthSchema, oauthProblems } from './upstream-oauth.ts'

const words = { type: 'string', errorMessage: 'must be text: put it in quotes' } as const
const oneLine = {
  type: 'string',
  pattern: '^[^\\r\\n\\0]*$',
  errorMessage: 'must be text on one line',
} as const

const argumentRules = {
  type: 'object',
  default: {},
  propertyNames: { 'x-names': 'item' },
  errorMessage: 'must be a mapping of tools to arguments, as in { read_*: { path: "/private/**" } }',
  additionalProperties: {
    type: ['object', 'boolean', 'string'],
    pattern: '^(on|true)$',
    not: { const: false },
    propertyNames: { 'x-names': 'argument' },
    additionalProperties: { type: 'string', errorMessage: 'must be a glob of the value, in quotes' },
    errorMessage: 'must be on, or a mapping of arguments to globs of their values',
  },
} as const

/** The JSON Schema of `prefix`, of one server or of all. */
const prefixSchema = {
  enum: ['auto', 'always', 'never'],
  errorMessage: 'must be auto, always or never',
} as const

/** The JSON Schema of `prefix` for all servers. */
export const commonPrefixSchema = {
  ...prefixSchema,
  default: 'auto',
  description:
    'Whether the names of tools and prompts at /mcp begin with the name of their server: `auto` if there are several servers, `always`, or `never`, except for a name that two servers have. See [Names at the address of several servers](usage.md#names-at-the-address-of-several-servers).',
} as const

/** The JSON Schema of `schemas`, of one server or of all. */
const schemasSchema = {
  type: ['string', 'object'],
  pattern: '^(?:repair|keep)$',
  properties: {
    for: {
      enum: ['auto', 'any', 'openai', 'anthropic', 'gemini'],
      description:
        'Whose rules the lists keep: those of one provider, of `any` of the three, or, with `auto`, of the provider that the client uses, by the name in its `clientInfo`; clients that use several, or are not known, get `any`.',
    },
  },
  required: ['for'],
  additionalProperties: false,
  errorMessage: 'must be repair, keep, or a mapping such as { for: gemini }',
} as const

/** The JSON Schema of `schemas` for all servers. */
export const commonSchemasSchema = {
  ...schemasSchema,
  default: 'keep',
  description:
    'How tools are listed whose input schema the providers of models refuse, and with it all other tools: `keep` lists what the server says, with every keyword, as the specification wants; `repair` lists them as the provider that the client uses takes them, and leaves out, with the reason, only those for which that is not possible; `{ for: ... }` says whose rules the lists keep. Calls are checked against the schema of the server in any case. See [Lists that every client can read](guard.md#lists-that-every-client-can-read).',
} as const

/** A gateway key, which is a thumbprint (RFC 7638), or `auto`; and the message for other values. */
export const GATEWAY_KEY = /^(?:auto|[A-Za-z0-9_-]{43})$/
export const GATEWAY_KEY_MISTAKE =
  'must be auto, or the key of a Gatehouse: 43 characters, printed at startup and served as `kid` at /.well-known/jwks.json'

const PROXY_MISTAKE = 'must be env, off, or the URL of an HTTP proxy such as http://proxy.example.com:3128'

/** The JSON Schema of one upstream written as settings, apart from what features add. */
export const upstreamProperties = {
  ...aboutProperties,
  url: {
    type: 'string',
    pattern: '^(https?://|\\$\\{)',
    errorMessage: 'must start with http:// or https://',
    description: 'The URL of an HTTP server. Set this or `command`.',
    examples: ['https://api.githubcopilot.com/mcp/'],
  },
  command: {
    type: ['string', 'array'],
    items: words,
    minItems: 1,
    minLength: 1,
    errorMessage: 'must be a command line such as `npx -y some-server`, or a list of words',
    description:
      'The command that starts a stdio server: a line with quotes as in a shell, or a list of words. It runs without a shell.',
    examples: ['npx -y @modelcontextprotocol/server-filesystem /srv/docs'],
  },
  args: {
    type: 'array',
    items: words,
    errorMessage: 'must be a list of words',
    description: 'Arguments added after those in `command`, without parsing.',
  },
  env: {
    type: 'object',
    propertyNames: { pattern: '^[^=\\0]+$', errorMessage: 'must be the name of an environment variable' },
    additionalProperties: {
      type: ['string', 'number', 'boolean'],
      errorMessage: 'must be text or a number',
      'x-secret': true,
    },
    errorMessage: 'must be a mapping of variables to values',
    description:
      'Environment variables of the command, in addition to a small safe set from the gateway’s environment.',
    examples: [{ API_KEY: '${API_KEY}' }],
  },
  cwd: {
    type: 'string',
    minLength: 1,
    errorMessage: 'must be a directory',
    description:
      'The working directory of the command, relative to this file. Default: the directory of this file.',
  },
  headers: {
    type: 'object',
    propertyNames: { pattern: "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", errorMessage: 'must be a header name' },
    additionalProperties: { ...oneLine, type: ['string', 'number', 'boolean'], 'x-secret': true },
    errorMessage: 'must be a mapping of header names to values',
    description: 'Headers sent with every request to the URL.',
    examples: [{ 'x-api-key': '${API_KEY}' }],
  },
  token: {
    ...oneLine,
    minLength: 1,
    'x-secret': true,
    errorMessage: 'must be a token on one line, such as "${TOKEN}", and not be empty',
    description: 'A bearer token for the URL: short for the header `authorization: Bearer …`.',
    examples: ['${GITHUB_TOKEN}'],
  },
  oauth: oauthSchema,
  proxy: {
    oneOf: [
      { enum: ['env', 'off'] },
      {
        type: 'string',
        pattern: '^(https?://|\\$\\{)[^\\r\\n\\0]*$',
        errorMessage: PROXY_MISTAKE,
        'x-secret': true,
      },
    ],
    default: 'env',
    errorMessage: PROXY_MISTAKE,
    description:
      'The proxy for requests to the URL and for its `oauth`: that of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), none, or this one for all of them. See [Proxies](operating.md#proxies).',
    examples: ['http://${PROXY_USER}:${PROXY_PASSWORD}@proxy.example.com:3128'],
  },
  transport: {
    enum: ['auto', 'stdio', 'streamable', 'sse'],
    default: 'auto',
    description: 'The transport of the server; `auto` detects it.',
  },
  revision: {
    enum: ['follow', 'auto', ...revisionNames],
    default: 'follow',
    description:
      'The MCP revision used with the server, such as `2025-11-25`. `auto` negotiates the newest; `follow` does too, but clients of older revisions get separate connections of their era if the server supports both.',
  },
  prefix: {
    ...prefixSchema,
    description: 'The same as `prefix` at the top level, for this server.',
  },
  schemas: {
    ...schemasSchema,
    description: 'The same as `schemas` at the top level, for this server.',
  },
  isolation: {
    enum: ['auto', 'shared', 'per_client'],
    default: 'auto',
    description:
      '`auto`: clients with the same capabilities share a connection. `shared`: all clients share one, and cannot be asked anything. `per_client`: one connection for each session.',
  },
  placement: {
    enum: ['each', 'one'],
    default: 'each',
    description:
      'Where a server that a command starts runs, if several gateways or workers share the store. `each`: each of them starts it. `one`: one of them does, and the others have their calls made there. See [Servers that run once](operating.md#servers-that-run-once).',
  },
  trust: {
    type: 'boolean',
    description:
      "Whether the annotations of the server's own tools are trusted; by default on for commands and for gateways with `gateway_key`, off for URLs. An untrusted server can raise the risk of its tools, but never lower it.",
  },
  sandbox: {
    type: 'boolean',
    default: false,
    description:
      'Calls of tools that would write are answered as dry runs: the server is not called. Calls that only read are made. Requires the feature `dry_run`. See [A server as a sandbox](dry-runs.md#a-server-as-a-sandbox).',
  },
  gateway_key: {
    type: 'string',
    pattern: GATEWAY_KEY.source,
    errorMessage: GATEWAY_KEY_MISTAKE,
    description:
      'The server is a Gatehouse with this key: it must prove that, or it is not used. `auto` accepts any key of a Gatehouse at this address, which must be https:// or on this machine. Features that both would apply (confirmation, idempotency keys, provenance, transactions) are left to it. On the command line: `--gateway-key`. See [A gateway behind a gateway](guard.md#a-gateway-behind-a-gateway).',
  },
  roots: {
    type: ['string', 'array'],
    pattern: '^(off|client)$',
    items: {
      type: 'string',
      pattern: '^[a-z][a-z0-9+.-]*:',
      errorMessage: 'must be a URI such as file:///srv/docs',
    },
    errorMessage: 'must be off, client, or a list of URIs such as file:///srv/docs',
    default: 'off',
    description:
      'What a server with a handshake gets if it asks for roots: none, those of the client, or these URIs.',
  },
  tools: {
    type: 'object',
    errorMessage: 'must be a mapping of tool names or globs to settings',
    default: {},
    propertyNames: { 'x-names': 'tool' },
    additionalProperties: { ...toolSchema, properties: { ...toolSchema.properties, ...toolWords } },
    description:
      'Settings of tools, by name or glob; the most specific glob takes precedence. See [Settings of tools](#settings-of-tools).',
    examples: [{ 'delete_*': { risk: 'destructive', rate: '10/minute' } }],
  },
  resources: {
    type: 'object',
    errorMessage: 'must be a mapping of URIs or globs of them to descriptions',
    additionalProperties: resourceWords,
    description:
      'Descriptions of resources, by URI or glob: `type`, `refreshable`, `cache`, `web`, `api`. See [Where descriptions are](descriptions.md#where-descriptions-are).',
    examples: [{ 'acme://projects/*': { type: 'project', cache: '5m', api: 'GET /api/projects/{1}' } }],
  },
  scopes: {
    type: 'object',
    default: {},
    errorMessage: 'must be a mapping of scopes to lists of names',
    propertyNames: scopeNameSchema,
    additionalProperties: { ...list, 'x-names': 'item' },
    description: 'Named scopes: the tools, prompts and resource URIs that each grants, by name or glob.',
    examples: [{ 'read:repo': ['get_*', 'list_*'] }],
  },
  optional: {
    ...list,
    default: [],
    description:
      'Names and patterns in these settings that may match nothing in the lists of the server, each as written there, or a glob of them. See [Names that match nothing](#names-that-match-nothing).',
    examples: [['delete_repository', 'admin_*']],
  },
  allow: {
    ...argumentRules,
    description:
      'Allowed calls of the tools named here: each argument must match its glob; `on` permits every call.',
  },
  deny: {
    ...argumentRules,
    description:
      'Denied calls, by tool, then globs of values by argument: one matching argument is enough; `on` refuses every call. A resource is named by its URI.',
    examples: [{ 'read_*': { path: '/srv/docs/private/**' } }],
  },
  events: {
    ...eventsSchema,
    description:
      'Events of this server, by name, with the settings of `events.<name>`: changes that a tool shows, or webhooks of its service.',
    examples: [{ 'issue.updated': { watch: 'list_issues()', items: '$.result.issues', id: '$.number' } }],
  },
  errors: {
    type: 'array',
    default: [],
    errorMessage: 'must be a list of rules such as { match: quota exceeded, code: QUOTA_EXHAUSTED }',
    items: {
      type: 'object',
      required: ['match', 'code'],
      additionalProperties: false,
      errorMessage: 'must be a rule such as { match: quota exceeded, code: QUOTA_EXHAUSTED }',
      properties: {
        match: {
          type: 'string',
          minLength: 1,
          description: 'A regular expression for the message, or the first 2,000 characters of an HTTP body.',
        },
        code: { enum: errorCodes, description: 'The code callers see.' },
        category: { enum: ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited'] },
        retry_after: pauseSchema,
        suggestion: { type: 'string', description: 'A suggestion for the caller.' },
      },
    },
    description: 'What errors of the server mean.',
  },
  start_timeout: {
    ...timeoutSchema,
    default: '30s',
    description:
      'How long the start of the server and the handshake may take together. A process that ends when it is asked for its era is followed by another one, which has the same time.',
  },
  reconnect: {
    ...pauseSchema,
    default: '3s',
    description:
      'How long a call waits for a server that restarts, or cannot be reached for another reason, before it fails with `SERVER_UNAVAILABLE`. For a server that was reached before; `0s` fails at once. See [Servers that restart](operating.md#servers-that-restart).',
  },
  idle: {
    ...durationSchema,
    default: '10m',
    description: 'How long a connection or process without a call or a session is kept.',
  },
} as const

/** A server as written in the file, with its command as words. */
export type UpstreamValues = Omit<
  FromSchema<{ readonly type: 'object'; readonly properties: typeof upstreamProperties }>,
  'command' | 'proxy' | 'roots' | 'schemas' | 'tools' | 'allow' | 'deny' | 'events'
> & {
  readonly command?: readonly string[]
  readonly proxy: 'env' | 'off' | Secret
  readonly roots: UpstreamSettings['roots']
  readonly schemas?: SchemasValue | undefined
  readonly tools: Readonly<Record<string, ToolValues>>
  readonly allow: Readonly<Record<string, ArgumentValues>>
  readonly deny: Readonly<Record<string, ArgumentValues>>
  readonly events: EventValues
  readonly compat?: CompatTarget
}

/** `schemas` as written in the file. */
export type SchemasValue = 'repair' | 'keep' | { readonly for: SchemaDialect }

/** The globs of arguments, or any arguments. */
export type ArgumentValues = Readonly<Record<string, string>> | boolean

type Path = readonly string[]

/** The base of relative paths, the strictness, and whether callers are authenticated. */
interface Surroundings {
  readonly directory: string
  readonly isStrict: boolean
  readonly hasAuth: boolean
  /** `features` for all servers. */
  readonly features: unknown
}

/** Checks one upstream for consistency. */
export function checkUpstream(
  upstream: Fields,
  path: Path,
  { directory, isStrict, hasAuth, features }: Surroundings,
): Findings {
  const query = querySecrets(upstream, path)
  const tools: Path = [...path, 'tools']
  const isOn = areServerEventsOn(upstream, features)
  return {
    problems: [
      ...reachProblems(upstream, path),
      ...headerProblems(upstream, path),
      ...cwdProblems(upstream, path, directory),
      ...sandboxProblems(upstream, path, features),
      ...urlProblems(upstream, path),
      ...proxyProblems(upstream, path),
      ...gatewayKeyProblems(upstream, path),
      ...oauthProblems(upstream, path),
      ...maskProblems(upstream.features, [...path, 'features']),
      ...argumentLimitProblems(upstream.limits, [...path, 'limits']),
      ...patternProblems(upstream, path),
      ...renameProblems(upstream.tools, tools),
      ...expressionProblems(upstream.tools, tools),
      ...approvalProblems(upstream.tools, tools, hasAuth),
      ...eventProblems(upstream.events, [...path, 'events'], { isOn }),
      ...(isStrict ? query : []),
    ],
    warnings: [...plainTextWarning(upstream, path), ...(isStrict ? [] : query)],
  }
}

/** Checks that there is one way to reach the server, and that the other settings belong to it. */
function reachProblems({ url, command, transport, ...others }: Fields, path: Path): Finding[] {
  if (url !== undefined && command !== undefined)
    return atKey([...path, 'command'], '`url` is also set: keep one of the two')
  if (url === undefined && command === undefined) return atKey(path, 'needs `command` or `url`')
  const isCommand = url === undefined
  const misplaced = isCommand ? ['headers', 'token', 'oauth', 'proxy'] : ['args', 'env', 'cwd']
  const advice = isCommand
    ? 'requires `url`: set secrets of a command in `env`'
    : 'requires `command`: remove it'
  const isPlaced = others['placement'] === 'one'
  const needsUrl = transport === 'streamable' || transport === 'sse'
  return [
    ...misplaced.flatMap((key) => atKey([...path, key], others[key] !== undefined && advice)),
    ...atValue([...path, 'transport'], needsUrl && isCommand && 'requires `url`: a command uses stdio'),
    ...atValue(
      [...path, 'transport'],
      transport === 'stdio' && !isCommand && 'requires `command`: a URL uses auto, streamable or sse',
    ),
    ...atValue(
      [...path, 'placement'],
      isPlaced && !isCommand && 'requires `command`: a server at a URL is not started by the gateway',
    ),
  ]
}

// Headers that MCP or HTTP set.
const own = new Set(
  'host connection content-length transfer-encoding expect upgrade te trailer keep-alive content-type accept mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id'.split(
    ' ',
  ),
)

/** Whether MCP or HTTP set a header, so that it cannot be configured. */
export function isOwnHeader(name: string): boolean {
  return own.has(name.toLowerCase())
}

function headerProblems({ headers, token }: Fields, path: Path): Finding[] {
  if (!isObject(headers)) return []
  return Object.keys(headers).flatMap((name): Finding[] => {
    const at = [...path, 'headers', name]
    if (isOwnHeader(name)) return atKey(at, 'the gateway sets this header itself: remove it')
    const isTwice = name.toLowerCase() === 'authorization' && token !== undefined
    return atKey(at, isTwice && '`token` already sets this header: keep one of the two')
  })
}

function cwdProblems({ cwd }: Fields, path: Path, directory: string): Finding[] {
  if (typeof cwd !== 'string' || cwd === '') return []
  const place = placeAt(resolve(directory, cwd))
  return atValue([...path, 'cwd'], place !== 'directory' && unfit(place))
}

function unfit(place: Exclude<PathKind, 'directory'>): string {
  if (place === 'nothing') return 'this directory does not exist'
  return place === 'other' ? 'this is not a directory' : `this directory cannot be read: ${place.hidden}`
}

/** A sandbox that nothing guards would be a trap. */
function sandboxProblems({ sandbox, features }: Fields, path: Path, common: unknown): Finding[] {
  if (sandbox !== true && sandbox !== 'on' && sandbox !== 'true') return []
  const written = [features, common].find(
    (each) => each === 'none' || (isObject(each) && Object.hasOwn(each, 'dry_run')),
  )
  const value = isObject(written) ? written.dry_run : written
  const isOff = value === 'none' || value === 'off' || value === false
  return atKey([...path, 'sandbox'], isOff && 'requires the feature `dry_run`, which is off here')
}

function urlProblems({ url }: Fields, path: Path): Finding[] {
  if (typeof url !== 'string') return []
  const at = [...path, 'url']
  if (!isHttpUrl(url)) return atValue(at, 'must be a complete URL such as https://example.com/mcp')
  return atValue(
    at,
    holdsPassword(url) && 'a URL must not contain a user and password: write them in `headers`',
  )
}

/** Without a known key, only the address says which gateway it is. */
function gatewayKeyProblems({ gateway_key: key, url }: Fields, path: Path): Finding[] {
  const isPlain = typeof url === 'string' && URL.canParse(url) && !isConfidentialUrl(url)
  return atValue(
    [...path, 'gateway_key'],
    key === 'auto' &&
      isPlain &&
      '`auto` requires https:// or an address of this machine: write the key of that gateway',
  )
}

function proxyProblems({ proxy }: Fields, path: Path): Finding[] {
  const isWrong = typeof proxy === 'string' && !['env', 'off'].includes(proxy) && !parseProxy(proxy)
  return atValue([...path, 'proxy'], isWrong && PROXY_MISTAKE)
}

function patternProblems({ errors, intent }: Fields, path: Path): Finding[] {
  const given = [
    ...membersOf(errors, 'match').map((each) => ({ ...each, section: 'errors' })),
    ...membersOf(intent, 'when').flatMap(({ text, ...each }) => {
      const source = /^\/(.*)\/$/s.exec(text)?.[1]
      return source === undefined ? [] : [{ ...each, text: source, section: 'intent' }]
    }),
  ]
  return given.flatMap(({ section, index, key, text }) =>
    atValue([...path, section, String(index), key], patternMistake(text)),
  )
}

/** The texts under a key in a list of mappings. */
function membersOf(
  list: unknown,
  key: string,
): readonly { readonly index: number; readonly key: string; readonly text: string }[] {
  const members: readonly unknown[] = Array.isArray(list) ? list : []
  return members.flatMap((member, index) => {
    const text = isObject(member) ? member[key] : undefined
    return typeof text === 'string' ? [{ index, key, text }] : []
  })
}

/** Queries appear in the logs of every hop. */
function querySecrets({ url }: Fields, path: Path): Finding[] {
  if (typeof url !== 'string' || !isHttpUrl(url)) return []
  const isSecret = ([name, value]: [string, string]): boolean =>
    value !== '' && (namesSecret(name) || /key$/i.test(name) || looksLikeToken(value))
  const [name] = [...new URL(url).searchParams].find(isSecret) ?? []
  return atValue(
    [...path, 'url'],
    name !== undefined &&
      `the query contains a secret (${name.slice(0, 40)}), and URLs appear in logs: send it with \`token\` or \`headers\``,
  )
}

function plainTextWarning({ url, token, headers, oauth }: Fields, path: Path): Finding[] {
  if (typeof url !== 'string' || !URL.canParse(url) || isConfidentialUrl(url)) return []
  const isFixed = token !== undefined || (isObject(headers) && Object.keys(headers).length > 0)
  const isSent = isFixed || oauth !== undefined
  return atValue(
    [...path, 'url'],
    isSent && 'secrets are sent to this server unencrypted: use https:// if available',
  )
}

/** Checks the renamed tools of one upstream: each name must refer to exactly one tool. */
export function renameProblems(tools: unknown, path: readonly string[]): Finding[] {
  if (!isObject(tools)) return []
  const renames = Object.entries(tools).flatMap(([name, settings]) =>
    isObject(settings) && typeof settings.rename === 'string' ? [[name, settings.rename] as const] : [],
  )
  return renames.flatMap(([name, rename], index): Finding[] => {
    const at = [...path, name, 'rename']
    const twin = renames.slice(0, index).find(([, other]) => other === rename)?.[0]
    if (name.includes('*')) return atValue(at, 'a pattern matches several tools: give one name')
    if (rename === name) return atValue(at, 'this is already its name: remove it')
    if (twin !== undefined) return atValue(at, `this is also the new name of ${twin}`)
    const isApart = Object.hasOwn(tools, rename) && !renames.some(([other]) => other === rename)
    const message = `there are separate settings for ${rename}: write them here, next to the new name`
    return atValue(at, isApart && message)
  })
}
