// The baseline: a reverse proxy that knows nothing of MCP, as fast as node:http and undici allow.
// Usage: pass-through.ts UPSTREAM_URL; it prints the port it listens on.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool, type Dispatcher } from 'undici'

// RFC 9110 §7.6.1, and the two that belong to one hop because the body is sent anew.
const hopByHop = new Set([
  'connection',
  'keep-alive',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'host',
])
const target = new URL(process.argv[2] ?? '')
const pool = new Pool(target.origin, { connections: 64, pipelining: 1 })

const server = createServer((request, response) => {
  const chunks: Buffer[] = []
  request.on('data', (chunk: Buffer) => chunks.push(chunk))
  request.on('end', () => forward(request, joined(chunks), response))
})
server.keepAliveTimeout = 600_000
server.listen(0, '127.0.0.1', () => {
  const address = server.address() as AddressInfo
  process.stdout.write(`${address.port}\n`)
})

function forward(request: IncomingMessage, body: Buffer, response: ServerResponse): void {
  const method = request.method as Dispatcher.HttpMethod
  const options = { path: target.pathname, method, headers: endToEnd(request.headers), body }
  let cancel: (() => void) | undefined
  let streams = false
  const chunks: Buffer[] = []
  response.on('close', () => response.writableFinished || cancel?.())
  pool.dispatch(options, {
    onRequestStart(controller) {
      cancel = () => controller.abort(new Error('client closed the connection'))
    },
    onResponseStart(_controller, status, headers) {
      streams = headers['content-length'] === undefined
      response.writeHead(status, endToEnd(headers))
    },
    onResponseData(_controller, chunk) {
      if (streams) response.write(chunk)
      else chunks.push(chunk)
    },
    onResponseEnd() {
      response.end(streams ? undefined : joined(chunks))
    },
    onResponseError() {
      if (response.headersSent) response.destroy()
      else response.writeHead(502).end()
    },
  })
}

function endToEnd(headers: IncomingMessage['headers']): Record<string, string | string[]> {
  const kept: Record<string, string | string[]> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined && !hopByHop.has(name)) kept[name] = value
  }
  return kept
}

function joined(chunks: Buffer[]): Buffer {
  const [first] = chunks
  return first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks)
}
