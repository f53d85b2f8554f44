import type { JsonSchema } from '../core/schema.ts'
import { durationSchema } from '../core/units.ts'

const words = { type: 'string', errorMessage: 'must be text: put it in quotes' }
const oneLine = { type: 'string', pattern: '^[^\\r\\n\\0]*$', errorMessage: 'must be text on one line' }

/** The JSON Schema of one upstream written as settings, apart from what features add. */
export const upstreamProperties: JsonSchema = {
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
  transport: {
    enum: ['auto', 'stdio', 'streamable', 'sse'],
    default: 'auto',
    description: 'How to speak with the server; `auto` finds it out.',
  },
  revision: {
    enum: ['auto', '2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28'],
    default: 'auto',
    description: 'The MCP revision to speak with the server; `auto` finds it out.',
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
      'The roots that servers older than 2026-07-28 may ask for: none, those of the client, or these.',
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
