// An MCP server of 2026-07-28 with one tool that takes a second, and reports progress every 100 ms.
// It prints the port it listens on.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { REVISIONS } from './reply.ts'

const STEPS = 10
const STEP_MS = 100

const about = {
  resultType: 'complete',
  _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'slow', version: '1.0.0' } },
}
const cacheable = { ttlMs: 0, cacheScope: 'private' }
const tool = {
  name: 'wait',
  description: 'Takes a second.',
  inputSchema: { type: 'object' },
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
}
const fixed: Readonly<Record<string, object>> = {
  'server/discover': { supportedVersions: [REVISIONS.modern], capabilities: { tools: {} }, ...cacheable },
  'tools/list': { tools: [tool], ...cacheable },
}

const server = createServer((request, response) => void answer(request, response))
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`)
})

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id, method, params } = JSON.parse(await text(request))
  if (method === 'tools/call') return wait(id, params?._meta?.progressToken, response)
  const result = fixed[method]
  const error = { code: -32601, message: 'Method not found' }
  response.writeHead(result ? 200 : 404, { 'content-type': 'application/json' })
  response.end(
    JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result: { ...result, ...about } } : { error }) }),
  )
}

async function wait(id: unknown, progressToken: unknown, response: ServerResponse): Promise<void> {
  const send = (message: object): void => {
    response.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`)
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  for (let progress = 1; progress <= STEPS; progress++) {
    await pause(STEP_MS)
    if (progressToken === undefined) continue
    send({ method: 'notifications/progress', params: { progressToken, progress, total: STEPS } })
  }
  send({ id, result: { content: [{ type: 'text', text: 'done' }], ...about } })
  response.end()
}
