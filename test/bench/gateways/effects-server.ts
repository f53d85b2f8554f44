// A server whose tools have effects: each execution writes one line to a file, which is what is counted.
// Usage: effects-server.ts FILE [--annotated] [--stdio]; over HTTP it prints the port it listens on.
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { dangerous, harmless, PLAIN_WRITE } from './effects.ts'

/** How long a tool works after its effect, so that a kill of the gateway finds calls whose effect it has not heard of. */
const WORK_MS = 5

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { annotated: { type: 'boolean' }, stdio: { type: 'boolean' } },
})
const [file = ''] = positionals

if (values.stdio) await makeServer().connect(new StdioServerTransport())
else serveHttp()

function makeServer(): Server {
  const server = new Server({ name: 'effects', version: '1.0.0' }, { capabilities: { tools: {} } })
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: listed() }))
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, arguments: args } }) => {
    appendFileSync(file, JSON.stringify({ tool: name, arguments: args ?? {} }) + '\n')
    await pause(WORK_MS)
    return { content: [{ type: 'text', text: 'done' }] }
  })
  return server
}

function listed() {
  const hints = values.annotated ? undefined : {}
  const read = hints ?? { annotations: { readOnlyHint: true } }
  const destroy = hints ?? { annotations: { readOnlyHint: false, destructiveHint: true } }
  const add = hints ?? { annotations: { readOnlyHint: false, destructiveHint: false } }
  return [
    ...harmless.map((tool) => ({ ...tool, ...read })),
    ...dangerous.map((tool) => ({ ...tool, ...destroy })),
    { ...PLAIN_WRITE, ...add },
  ].map(({ name, description, properties, annotations }) => ({
    name,
    description,
    inputSchema: {
      type: 'object' as const,
      properties: Object.fromEntries(properties.map((property) => [property, { type: 'string' }])),
    },
    ...(annotations && { annotations }),
  }))
}

// Without sessions, so that each gateway after a kill finds the server as the first one did.
function serveHttp(): void {
  const http = createServer((request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
    void makeServer()
      .connect(transport)
      .then(() => transport.handleRequest(request, response))
  })
  http.listen(0, '127.0.0.1', () => process.stdout.write(`${(http.address() as AddressInfo).port}\n`))
}
