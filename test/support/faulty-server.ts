import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { badMessages, goodAnswer, httpFaults, toolList, toolOf, unknownMethod, welcome } from './faults.ts'
import { isObject, type Json, parse } from './server/json.ts'

type Respond = (response: ServerResponse, message: Json, request: IncomingMessage) => void

/** A Streamable HTTP server of 2025-11-25 in this process whose tools misbehave, each in the way of its name. */
export interface FaultyServer {
  readonly url: string
  close(): Promise<void>
}

/** Starts a server; `tools` adds tools, and `first` sees every message before anything else does. */
export async function startFaultyServer(
  tools: Readonly<Record<string, Respond>> = {},
  first?: (response: ServerResponse, message: Json) => boolean,
): Promise<FaultyServer> {
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const message = parse(body)
      if (!isObject(message)) return response.writeHead(request.method === 'POST' ? 400 : 405).end()
      if (first?.(response, message) === true) return response
      return answer(request, response, message)
    })
  })
  const answer = (request: IncomingMessage, response: ServerResponse, message: Json): void => {
    const { id, method } = message
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize') return send(response, welcome(id), { 'mcp-session-id': 'faulty' })
    if (method === 'tools/list') {
      const names = ['good', ...Object.keys({ ...badMessages, ...httpFaults, ...tools })]
      return send(response, { jsonrpc: '2.0', id, result: { tools: toolList(names) } })
    }
    const tool = toolOf(message)
    if (tool === undefined) return send(response, unknownMethod(id))
    const own = Object.hasOwn(tools, tool) ? tools[tool] : undefined
    if (own) return own(response, message, request)
    httpFaults[tool]?.(response, id, String(request.headers.host))
    if (response.headersSent || response.destroyed) return
    response.writeHead(200, { 'content-type': 'application/json' }).end((badMessages[tool] ?? goodAnswer)(id))
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      return closed
    },
  }
}

/** Answers with a message. */
export function send(response: ServerResponse, message: Json, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(message))
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}
