// An MCP server of 2025-11-25 with one tool, whose text has the requested number of bytes. It sends the text in pieces, so
// that it never holds it.
// Usage: large-upstream.ts [--stdio]; over HTTP it prints the port it listens on.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { piecesOf } from './large-text.ts'
import { REVISIONS } from './reply.ts'

interface Message {
  readonly id?: string | number
  readonly method: string
  readonly params?: { readonly arguments?: { readonly bytes?: number; readonly as_events?: boolean } }
}

const tool = {
  name: 'get_text',
  description: 'Returns a text of the given size.',
  inputSchema: {
    type: 'object',
    properties: { bytes: { type: 'integer', minimum: 0 }, as_events: { type: 'boolean' } },
    required: ['bytes'],
  },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
}
const serverInfo = { name: 'large', version: '1.0.0' }
const fixed: Readonly<Record<string, object>> = {
  initialize: { protocolVersion: REVISIONS.legacy, capabilities: { tools: {} }, serverInfo },
  'tools/list': { tools: [tool] },
  ping: {},
}

if (parseArgs({ options: { stdio: { type: 'boolean' } } }).values.stdio) await serveStdio()
else serveHttp()

/** A response in pieces of JSON, without a line end. */
function* replyTo({ id, method, params }: Message): Generator<string> {
  const head = `{"jsonrpc":"2.0","id":${JSON.stringify(id)}`
  const result = fixed[method]
  if (result) return yield `${head},"result":${JSON.stringify(result)}}`
  if (method !== 'tools/call') return yield `${head},"error":{"code":-32601,"message":"Method not found"}}`
  yield `${head},"result":{"content":[{"type":"text","text":"`
  for (const piece of piecesOf(params?.arguments?.bytes ?? 0)) yield JSON.stringify(piece).slice(1, -1)
  yield '"}]}}'
}

async function serveStdio(): Promise<void> {
  for await (const line of createInterface(process.stdin)) {
    const message = JSON.parse(line) as Message
    if (message.id === undefined) continue
    await pipeline(Readable.from(followed(replyTo(message), '\n')), process.stdout, { end: false })
  }
}

function serveHttp(): void {
  const http = createServer((request, response) => void answer(request, response))
  http.keepAliveTimeout = 600_000
  http.listen(0, '127.0.0.1', () => {
    process.stdout.write(`${(http.address() as AddressInfo).port}\n`)
  })
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== 'POST') return void response.writeHead(405).end()
  const message = JSON.parse(await text(request)) as Message
  if (message.id === undefined) return void response.writeHead(202).end()
  const isEvent = message.params?.arguments?.as_events === true
  response.writeHead(200, { 'content-type': isEvent ? 'text/event-stream' : 'application/json' })
  if (isEvent) response.write('event: message\ndata: ')
  // A gateway that wants no more ends the connection.
  await pipeline(Readable.from(followed(replyTo(message), isEvent ? '\n\n' : '')), response).catch(
    () => undefined,
  )
}

function* followed(pieces: Iterable<string>, end: string): Generator<string> {
  yield* pieces
  if (end !== '') yield end
}
