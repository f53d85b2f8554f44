// A gateway of the official TypeScript SDK alone: its server passes on to its client what it is asked.
// Usage: sdk-gateway.ts UPSTREAM_URL PORT
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const [, , upstream = '', port = ''] = process.argv
const identity = { name: 'sdk-gateway', version: '1.0.0' }
const client = new Client(identity)
await client.connect(new StreamableHTTPClientTransport(new URL(upstream)))
const sessions = new Map<string, StreamableHTTPServerTransport>()

createServer((request, response) => {
  void sessionOf(request).then(async (transport) => {
    if (transport) await transport.handleRequest(request, response)
    else response.writeHead(404).end()
  })
}).listen(Number(port), '127.0.0.1')

async function sessionOf(request: IncomingMessage): Promise<StreamableHTTPServerTransport | undefined> {
  const id = request.headers['mcp-session-id']
  if (typeof id === 'string') return sessions.get(id)
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (session) => void sessions.set(session, transport),
  })
  const server = new Server(identity, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => client.listTools(params))
  server.setRequestHandler(CallToolRequestSchema, ({ params }) => client.callTool(params))
  await server.connect(transport)
  return transport
}
