import { errorCodes } from '../core/error.ts'
import type { JsonSchema } from '../core/schema.ts'
import { scopeNameSchema } from '../core/scope.ts'
import { durationSchema } from '../core/units.ts'
import { revisionNames } from '../wire/revisions.ts'
import { aboutProperties, toolWords } from './about-schema.ts'
import { list, toolSchema } from './tool-schema.ts'
import { oauthSchema } from './upstream-oauth-schema.ts'

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
