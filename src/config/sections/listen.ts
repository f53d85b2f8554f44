/** The section `listen`. */
import { messageSizeSchema, timeoutSchema } from '../../core/time/units.ts'

const origin = '^(\\*|[a-z][a-z0-9+.-]*://[^/\\s*]+)$'

/** The JSON Schema of `listen`. */
export const listenSchema = {
  type: 'object',
  errorMessage: 'must be a mapping such as { port: 8900 }',
  default: {},
  description: 'How clients reach the gateway.',
  properties: {
    host: {
      type: 'string',
      pattern: '^[A-Za-z0-9.:_-]+$',
      errorMessage: 'must be an address or host name such as 127.0.0.1, without a scheme',
      default: '127.0.0.1',
      description: 'The address to listen on. Any address other than loopback needs `auth`.',
    },
    port: {
      type: 'integer',
      minimum: 0,
      maximum: 65535,
      errorMessage: 'must be a whole number from 0 (any free port) to 65535',
      default: 8900,
      description: 'The port to listen on; 0 takes any free port.',
    },
    public_url: {
      type: 'string',
      errorMessage: 'must be a URL such as https://mcp.example.com',
      description:
        'The URL of the gateway for clients, if it is behind a reverse proxy; its host is then allowed in `Host`. Servers that deliver events to webhooks only need it too. See [Servers that deliver to webhooks only](events-reference.md#servers-that-deliver-to-webhooks-only).',
      examples: ['https://mcp.example.com'],
    },
    origins: {
      type: ['array', 'string'],
      items: {
        type: 'string',
        pattern: origin,
        errorMessage: 'must be an origin such as https://agents.example.com, without a path',
      },
      pattern: origin,
      errorMessage: 'must be a list of origins such as https://agents.example.com, without paths',
      default: [],
      description: 'Allowed origins of web pages, in addition to loopback and that of `public_url`.',
      examples: [['https://agents.example.com']],
    },
    legacy_sse: {
      type: 'boolean',
      default: false,
      description: 'Also serve the HTTP+SSE transport of 2024-11-05, at /sse and /messages.',
    },
    operator_mcp: {
      type: 'boolean',
      default: false,
      description:
        'Serve the owner as an MCP client at /operator/mcp: approvals, calls, servers, the pause of writes and rewinds as tools, for principals with the scopes `gatehouse:view`, `gatehouse:approve` and `gatehouse:operate`, or without a limit of scopes. Needs `auth` with `jwt` or `opaque`. See [The owner as an MCP client](console.md#the-owner-as-an-mcp-client).',
    },
    aggregate: {
      type: 'boolean',
      default: true,
      description: 'Serve all servers together at /mcp.',
    },
    aggregate_timeout: {
      ...timeoutSchema,
      default: '2s',
      description:
        'How long /mcp waits for a server before it answers with the others: at the handshake, for each list, and for a subscription. The server is asked again in the background, and clients get `list_changed` when it answers. A longer time suits clients that ignore `list_changed`. Descriptions wait up to 2 s for a server that has not answered yet, and 5 s in all, also if this is shorter.',
    },
  },
  additionalProperties: false,
} as const

/** The JSON Schema of `limits.body`. */
export const bodySchema = {
  ...messageSizeSchema,
  default: '1MB',
  description:
    'The maximum size of a request of a client, for all servers; a larger one is refused with `PAYLOAD_TOO_LARGE`.',
}
