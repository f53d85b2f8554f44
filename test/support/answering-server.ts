import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isObject, type Json, parseExact } from './server/json.ts'

/** A server over HTTP, of the revision with the oldest rules that all clients know. */
export interface AnsweringServer {
  readonly url: string
  close(): Promise<void>
}

/** The result of a request; undefined for a method that the server does not have. A promise that never settles is silence. */
type Answer = (method: string, params: Json) => unknown

/** Starts a server that gives these results, and none to what it does not know. */
export async function answeringServer(answer: Answer): Promise<AnsweringServer> {
  const respond = async (text: string, response: ServerResponse): Promise<void> => {
    const message = read(text)
    if (!isObject(message)) return void response.writeHead(405).end()
    const { id, method, params } = message
    if (id === undefined) return void response.writeHead(202).end()
    const result = await answer(String(method), isObject(params) ? params : {})
    const body = result === undefined ? { error: { code: -32601, message: 'Method not found' } } : { result }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
  }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => void respond(Buffer.concat(parts).toString(), response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** The results of a server with these lists, by their methods, whose tools all return `done`. */
export function withLists(
  lists: Readonly<Record<string, unknown>>,
  capabilities: unknown = { tools: {} },
): Answer {
  return (method) => {
    if (method === 'initialize')
      return { protocolVersion: '2025-06-18', capabilities, serverInfo: { name: 'odd', version: '1' } }
    return method === 'tools/call' ? { content: [{ type: 'text', text: 'done' }] } : lists[method]
  }
}

/** The answer that never comes. */
export const silence = new Promise<never>(() => undefined)

/** A message, in which long numbers are their digits; undefined if it is none. */
function read(text: string): unknown {
  try {
    return parseExact(text)
  } catch {
    return undefined
  }
}
