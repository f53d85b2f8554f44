// A minimal, fast MCP server with one tool.
// Usage: upstream.ts [--era legacy|modern] [--stdio] [--events]; with --events it answers calls by event streams. Over HTTP it prints the port it listens on.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { REVISIONS, replyText, type Era } from './reply.ts'

interface Message {
  readonly id?: string | number
  readonly method: string
  readonly params?: Record<string, unknown>
}
type Answer = { readonly result: string } | { readonly status: number; readonly error: string }

const { values } = parseArgs({
  options: { era: { type: 'string' }, stdio: { type: 'boolean' }, events: { type: 'boolean' } },
})
const era: Era = values.era === 'modern' ? 'modern' : 'legacy'
const server = { name: 'bench', version: '1.0.0' }
const modernFields = {
  resultType: 'complete',
  _meta: { 'io.modelcontextprotocol/serverInfo': server },
}
const capabilities = { tools: {} }
const tools = [
  {
    name: 'get_text',
    description: 'Returns a text of about the given size.',
    inputSchema: { type: 'object', properties: { bytes: { type: 'integer', minimum: 0 } } },
    annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
  },
  {
    name: 'write',
    description: 'Does nothing, and says that it writes.',
    inputSchema: {
      type: 'object',
      properties: {
        bytes: { type: 'integer', minimum: 0 },
        key: { type: 'string' },
        shard: { type: 'string' },
      },
    },
    annotations: { readOnlyHint: false, destructiveHint: false, openWorldHint: false },
  },
]
const sessions = new Set<string>()
const replies = new Map<number, string>()
const cacheable = { ttlMs: 0, cacheScope: 'private' }
const fixed = new Map<string, string>(
  era === 'modern'
    ? [
        ['server/discover', encode({ supportedVersions: [REVISIONS.modern], capabilities, ...cacheable })],
        ['tools/list', encode({ tools, ...cacheable })],
      ]
    : [
        ['initialize', encode({ protocolVersion: REVISIONS.legacy, capabilities, serverInfo: server })],
        ['tools/list', encode({ tools })],
        ['ping', encode({})],
      ],
)

if (values.stdio) serveStdio()
else serveHttp()

function encode(result: object): string {
  return JSON.stringify(era === 'modern' ? { ...result, ...modernFields } : result)
}

function answer(message: Message): Answer {
  if (message.method === 'tools/call') return call(message.params)
  const result = fixed.get(message.method)
  if (result !== undefined) return { result }
  return { status: era === 'modern' ? 404 : 200, error: '{"code":-32601,"message":"Method not found"}' }
}

function call(params: Message['params'] = {}): Answer {
  if (params['name'] !== 'get_text' && params['name'] !== 'write')
    return { status: 200, error: '{"code":-32602,"message":"Unknown tool"}' }
  const args = params['arguments']
  const wanted = typeof args === 'object' && args !== null && 'bytes' in args ? args.bytes : 1024
  const bytes = typeof wanted === 'number' ? Math.min(wanted, 1_000_000) : 1024
  const known = replies.get(bytes)
  if (known !== undefined) return { result: known }
  const result = encode({ content: [{ type: 'text', text: replyText(bytes) }] })
  if (replies.size < 16) replies.set(bytes, result)
  return { result }
}

function frame(id: Message['id'], reply: Answer): string {
  const body = 'result' in reply ? `"result":${reply.result}` : `"error":${reply.error}`
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id ?? null)},${body}}`
}

// Parsed messages are adopted unchecked: the only peers are the benchmark's own targets.
function parse(text: string): Message {
  return JSON.parse(text) as Message
}

function serveStdio(): void {
  let pending = ''
  process.stdin.setEncoding('utf8')
  process.stdin.on('data', (chunk: string) => {
    const lines = (pending + chunk).split('\n')
    pending = lines.pop() ?? ''
    for (const line of lines) {
      const message = parse(line)
      if (message.id !== undefined) process.stdout.write(frame(message.id, answer(message)) + '\n')
    }
  })
  process.stdin.on('end', () => process.exit(0))
}

function serveHttp(): void {
  const http = createServer((request, response) => {
    if (request.method !== 'POST') {
      response.writeHead(request.method === 'DELETE' && era === 'legacy' ? 200 : 405).end()
      return
    }
    let text = ''
    request.setEncoding('utf8')
    request.on('data', (chunk: string) => (text += chunk))
    request.on('end', () => respond(request, response, parse(text)))
  })
  // Longer than any pause between two turns of a target, so that pooled connections stay alive.
  http.keepAliveTimeout = 600_000
  http.listen(0, '127.0.0.1', () => {
    const address = http.address() as AddressInfo
    process.stdout.write(`${address.port}\n`)
  })
}

function respond(request: IncomingMessage, response: ServerResponse, message: Message): void {
  const refusal = era === 'modern' ? refuseModern(request, message) : refuseLegacy(request, message)
  if (message.id === undefined) return void response.writeHead(refusal?.status ?? 202).end()
  const reply = refusal ?? answer(message)
  const body = frame(message.id, reply)
  if (values.events && message.method === 'tools/call') {
    const headers = { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' }
    return void response.writeHead(200, headers).end(`event: message\ndata: ${body}\n\n`)
  }
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  }
  if (message.method === 'initialize' && 'result' in reply) headers['mcp-session-id'] = openSession()
  response.writeHead('status' in reply ? reply.status : 200, headers).end(body)
}

function openSession(): string {
  const id = randomUUID()
  sessions.add(id)
  return id
}

function refuseLegacy(request: IncomingMessage, message: Message) {
  if (message.method === 'initialize') return undefined
  const session = request.headers['mcp-session-id']
  if (typeof session !== 'string')
    return { status: 400, error: '{"code":-32000,"message":"Server not initialized"}' }
  if (!sessions.has(session)) return { status: 404, error: '{"code":-32001,"message":"Session not found"}' }
  return undefined
}

function refuseModern(request: IncomingMessage, message: Message) {
  if (message.method === 'initialize') {
    const data = JSON.stringify({ supported: [REVISIONS.modern] })
    return { status: 400, error: `{"code":-32022,"message":"Unsupported version","data":${data}}` }
  }
  if (message.id === undefined) return undefined
  const meta = message.params?.['_meta']
  if (typeof meta !== 'object' || meta === null || !('io.modelcontextprotocol/protocolVersion' in meta))
    return { status: 400, error: '{"code":-32602,"message":"Missing _meta envelope"}' }
  const { headers } = request
  if (headers['mcp-protocol-version'] !== REVISIONS.modern || headers['mcp-method'] !== message.method)
    return { status: 400, error: '{"code":-32020,"message":"Header mismatch"}' }
  if (message.method === 'tools/call' && headers['mcp-name'] !== message.params?.['name'])
    return { status: 400, error: '{"code":-32020,"message":"Header mismatch"}' }
  return undefined
}
