/** A server under `upstreams`: schema and checks. */
import { resolve } from 'node:path'
import { errorCodes } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import { scopeNameSchema } from '../../core/principal.ts'
import { compilePattern } from '../../core/text/pattern.ts'
import { durationSchema } from '../../core/time/units.ts'
import { revisionNames } from '../../protocol/revisions.ts'
import { isHttpUrl, isLoopback } from '../names.ts'
import { type Place, placeAt, type Checked, type Finding } from '../problem.ts'
import { holdsPassword, looksLikeToken, namesSecret } from '../secrets.ts'
import { aboutProperties, list, toolWords } from './about.ts'
import { approvalProblems } from './auth-checks.ts'
import { expressionProblems, maskProblems } from './tool-checks.ts'
import { toolSchema } from './tool.ts'
import { oauthSchema, oauthProblems } from './upstream-oauth.ts'

const words = { type: 'string', errorMessage: 'must be text: put it in quotes' }
const oneLine = { type: 'string', pattern: '^[^\\r\\n\\0]*$', errorMessage: 'must be text on one line' }

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
}

/** A key by its thumbprint (RFC 7638), and what is said of a value that is none. */
export const GATEWAY_KEY = /^[A-Za-z0-9_-]{43}$/
export const GATEWAY_KEY_MISTAKE =
  'must be the key of a Gatehouse: 43 characters, which it prints when it starts and serves as `kid` at /.well-known/jwks.json'

/** The JSON Schema of one upstream written as settings, apart from what features add. */
export const upstreamProperties: JsonSchema = {
  ...aboutProperties,
  url: {
    type: 'string',
    pattern: '^(https?://|\\$\\{)',
    errorMessage: 'must start with http:// or https://',
    description: 'The URL of a server reached over HTTP. Give this or `command`.',
    examples: ['https://api.githubcopilot.com/mcp/'],
  },
  command: {
    type: ['string', 'array'],
    items: words,
    minItems: 1,
    minLength: 1,
    errorMessage: 'must be a command line such as `npx -y some-server`, or a list of words',
    description:
      'The command that starts a server speaking over stdin and stdout: a line with quotes as in a shell, or a list of words. It runs without a shell.',
    examples: ['npx -y @modelcontextprotocol/server-filesystem /srv/docs'],
  },
  args: {
    type: 'array',
    items: words,
    errorMessage: 'must be a list of words',
    description: 'Arguments added after those in `command`, taken as they are.',
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
    description: 'Environment variables of the command, in addition to a safe few of the gateway’s own.',
    examples: [{ API_KEY: '${API_KEY}' }],
  },
  cwd: {
    type: 'string',
    minLength: 1,
    errorMessage: 'must be a directory',
    description:
      'The directory the command runs in, relative to this file; by default the directory of this file.',
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
  transport: {
    enum: ['auto', 'stdio', 'streamable', 'sse'],
    default: 'auto',
    description: 'How to speak with the server; `auto` finds it out.',
  },
  revision: {
    enum: ['follow', 'auto', ...revisionNames],
    default: 'follow',
    description:
      'The MCP revision to speak with the server. `auto` finds out the newest it has; `follow` does too, and gives clients of older revisions connections of their own era where the server has both.',
  },
  isolation: {
    enum: ['auto', 'shared', 'per_client'],
    default: 'auto',
    description: 'Whether clients share one connection or process of the server, or each have their own.',
  },
  trust: {
    type: 'boolean',
    description:
      'Whether what the server says of its own tools (that one only reads, say) is believed. By default true for commands and false for URLs.',
  },
  gateway_key: {
    type: 'string',
    pattern: GATEWAY_KEY.source,
    errorMessage: GATEWAY_KEY_MISTAKE,
    description:
      'The server is a Gatehouse that holds this key: it proves that, or is not used. What both would do (ask, keys, provenance, transactions) is left to it.',
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
    description: 'The roots that servers with a handshake may ask for: none, those of the client, or these.',
  },
  tools: {
    type: 'object',
    errorMessage: 'must be a mapping of tool names or globs to settings',
    default: {},
    propertyNames: { 'x-names': 'tool' },
    additionalProperties: { ...toolSchema, properties: { ...toolSchema.properties, ...toolWords } },
    description: 'What is special about some tools, by name or glob; the most specific glob wins.',
    examples: [{ 'delete_*': { risk: 'destructive', rate: '10/minute' } }],
  },
  scopes: {
    type: 'object',
    default: {},
    errorMessage: 'must be a mapping of scopes to lists of names',
    propertyNames: scopeNameSchema,
    additionalProperties: { ...list, 'x-names': 'item' },
    description: 'Named scopes: the tools, prompts and resource URIs each one opens, by name or glob.',
    examples: [{ 'read:repo': ['get_*', 'list_*'] }],
  },
  optional: {
    ...list,
    default: [],
    description:
      'Names and patterns of these settings that may match nothing the server lists, each as it is written there, or a glob of them.',
    examples: [['delete_repository', 'admin_*']],
  },
  allow: {
    ...argumentRules,
    description: 'Of the tools named here only these calls are let through: each argument must fit its glob.',
  },
  deny: {
    ...argumentRules,
    description:
      'Calls that are never let through, by tool, then by argument a glob of its value: one argument that fits is enough. A resource is named by its URI.',
    examples: [{ 'read_*': { path: '/srv/docs/private/**' } }],
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
        match: { type: 'string', minLength: 1, description: 'A regular expression the error text contains.' },
        code: { enum: errorCodes, description: 'The code callers see.' },
        category: { enum: ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited'] },
        retry_after: durationSchema,
        suggestion: { type: 'string', description: 'What the caller can do about it.' },
      },
    },
    description: 'What errors of this server mean.',
  },
  start_timeout: {
    ...durationSchema,
    default: '30s',
    description: 'How long starting the server and the opening exchange may take.',
  },
  idle: {
    ...durationSchema,
    default: '10m',
    description: 'How long an unused connection or process is kept.',
  },
}

type Values = Readonly<Record<string, unknown>>
type Path = readonly string[]

/** Where the files an upstream names are, how strict to be, and whether people can be told apart. */
interface Surroundings {
  readonly directory: string
  readonly isStrict: boolean
  readonly hasAuth: boolean
}

/** Checks how the keys of one upstream go together. */
export function checkUpstream(
  upstream: Values,
  path: Path,
  { directory, isStrict, hasAuth }: Surroundings,
): Checked {
  const query = querySecrets(upstream, path)
  const found = [reachProblem(upstream, path), ...misplaced(upstream, path), transportProblem(upstream, path)]
  const rest = [
    ...headerProblems(upstream, path),
    cwdProblem(upstream, path, directory),
    urlProblem(upstream, path),
    ...oauthProblems(upstream, path),
    ...maskProblems(upstream.features, [...path, 'features']),
    ...patternProblems(upstream, path),
    ...renameProblems(upstream.tools, [...path, 'tools']),
    ...expressionProblems(upstream.tools, [...path, 'tools']),
    ...approvalProblems(upstream.tools, [...path, 'tools'], hasAuth),
    ...(isStrict ? query : []),
  ]
  return {
    problems: [...found, ...rest].filter((finding) => finding !== undefined),
    warnings: [...plainTextWarning(upstream, path), ...(isStrict ? [] : query)],
  }
}

function reachProblem({ url, command }: Values, path: Path): Finding | undefined {
  if (url !== undefined && command !== undefined) {
    return { path: [...path, 'command'], at: 'key', message: 'there is a `url` too: keep one of the two' }
  }
  if (url !== undefined || command !== undefined) return undefined
  return { path, at: 'key', message: 'needs `command` or `url`' }
}

function misplaced({ url, command, ...others }: Values, path: Path): Finding[] {
  if ((url === undefined) === (command === undefined)) return []
  const kind = url === undefined ? 'url' : 'command'
  const keys = kind === 'url' ? ['headers', 'token', 'oauth'] : ['args', 'env', 'cwd']
  const advice = kind === 'url' ? ': a command gets its secrets through `env`' : ': remove it'
  return keys
    .filter((key) => others[key] !== undefined)
    .map((key) => ({ path: [...path, key], at: 'key', message: `goes with \`${kind}\` only${advice}` }))
}

function transportProblem({ url, command, transport }: Values, path: Path): Finding | undefined {
  const needsUrl = transport === 'streamable' || transport === 'sse'
  if (needsUrl && command !== undefined && url === undefined) {
    return { path: [...path, 'transport'], message: 'goes with `url` only: a command speaks over stdio' }
  }
  if (transport === 'stdio' && url !== undefined && command === undefined) {
    return {
      path: [...path, 'transport'],
      message: 'goes with `command` only: a URL is auto, streamable or sse',
    }
  }
  return undefined
}

// Headers that MCP or HTTP fill in themselves.
const own = new Set(
  'host connection content-length transfer-encoding upgrade te trailer keep-alive content-type accept mcp-session-id mcp-protocol-version mcp-method mcp-name last-event-id'.split(
    ' ',
  ),
)

function headerProblems({ headers, token }: Values, path: Path): Finding[] {
  if (!isObject(headers)) return []
  return Object.keys(headers).flatMap((name): Finding[] => {
    const at = { path: [...path, 'headers', name], at: 'key' } as const
    if (own.has(name.toLowerCase()))
      return [{ ...at, message: 'the gateway sets this header itself: remove it' }]
    const isTwice = name.toLowerCase() === 'authorization' && token !== undefined
    return isTwice ? [{ ...at, message: '`token` sets this header already: keep one of the two' }] : []
  })
}

function cwdProblem({ cwd }: Values, path: Path, directory: string): Finding | undefined {
  if (typeof cwd !== 'string' || cwd === '') return undefined
  const place = placeAt(resolve(directory, cwd))
  if (place === 'directory') return undefined
  return { path: [...path, 'cwd'], message: unfit(place) }
}

function unfit(place: Exclude<Place, 'directory'>): string {
  if (place === 'nothing') return 'this directory does not exist'
  return place === 'other' ? 'this is not a directory' : `this directory cannot be looked at: ${place.hidden}`
}

function urlProblem({ url }: Values, path: Path): Finding | undefined {
  if (typeof url !== 'string') return undefined
  const at = [...path, 'url']
  if (!isHttpUrl(url)) return { path: at, message: 'must be a whole URL such as https://example.com/mcp' }
  if (!holdsPassword(url)) return undefined
  return { path: at, message: 'a URL cannot hold a user and password: write them into `headers`' }
}

/** Patterns are matched against what servers send, so they must not be able to go on for ever. */
function patternProblems({ errors }: Values, path: Path): Finding[] {
  const rules: readonly unknown[] = Array.isArray(errors) ? errors : []
  return rules.flatMap((rule, index) => {
    const match = isObject(rule) ? rule.match : undefined
    const message = typeof match === 'string' ? patternProblem(match) : undefined
    return message === undefined ? [] : [{ path: [...path, 'errors', String(index), 'match'], message }]
  })
}

function patternProblem(match: string): string | undefined {
  try {
    return compilePattern(match) ? undefined : 'must not look around or back, and be short'
  } catch {
    return 'must be a regular expression'
  }
}

/** Queries end up in the logs of everyone on the way. */
function querySecrets({ url }: Values, path: Path): Finding[] {
  if (typeof url !== 'string' || !isHttpUrl(url)) return []
  const isSecret = ([name, value]: [string, string]): boolean =>
    value !== '' && (namesSecret(name) || /key$/i.test(name) || looksLikeToken(value))
  const found = [...new URL(url).searchParams].find(isSecret)
  if (!found) return []
  const message = `the query holds a secret (${found[0].slice(0, 40)}), and addresses end up in logs: send it with \`token\` or \`headers\``
  return [{ path: [...path, 'url'], message }]
}

function plainTextWarning({ url, token, headers, oauth }: Values, path: Path): Finding[] {
  if (typeof url !== 'string' || !/^http:/i.test(url) || !URL.canParse(url)) return []
  if (isLoopback(new URL(url).hostname)) return []
  const isFixed = token !== undefined || (isObject(headers) && Object.keys(headers).length > 0)
  const isSent = isFixed || oauth !== undefined
  const message = 'secrets go to this server unencrypted: use https:// if it offers it'
  return isSent ? [{ path: [...path, 'url'], message }] : []
}

/** Checks the new names of the tools of one upstream: one tool has a new name, and a name is of one tool. */
export function renameProblems(tools: unknown, path: readonly string[]): Finding[] {
  if (!isObject(tools)) return []
  const renames = Object.entries(tools).flatMap(([name, settings]) =>
    isObject(settings) && typeof settings.rename === 'string' ? [[name, settings.rename] as const] : [],
  )
  return renames.flatMap(([name, rename], index): Finding[] => {
    const at = [...path, name, 'rename']
    const twin = renames.slice(0, index).find(([, other]) => other === rename)?.[0]
    if (name.includes('*')) return [{ path: at, message: 'a pattern stands for several tools: name one' }]
    if (rename === name) return [{ path: at, message: 'this is its name already: remove it' }]
    if (twin !== undefined) return [{ path: at, message: `this is the new name of ${twin} too` }]
    if (!Object.hasOwn(tools, rename) || renames.some(([other]) => other === rename)) return []
    const message = `there are settings for ${rename} of their own: write them here, beside the new name`
    return [{ path: at, message }]
  })
}
