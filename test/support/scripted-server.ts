import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

/** A request to a scripted server, and its answer as a stream, where a script wants to write it itself. */
export interface Asked {
  readonly message: Json
  readonly params: Json
  /** Sends a message on the stream of the answer. */
  say(message: Json): void
  /** Ends the answer with this result. */
  finish(result: Json): void
}

type Script = (asked: Asked) => Json | undefined

/** A server of 2025-11-25 over HTTP that answers each method as it is told. */
export interface ScriptedServer {
  readonly url: string
  /** Every message it got, in order. */
  readonly seen: readonly Json[]
  /** The HTTP exchanges that are not over. */
  readonly open: number
  close(): Promise<void>
}

/** Starts a server; a script that gives nothing answers by itself, and a method without one is not known. */
export async function scriptedServer(
  capabilities: Json,
  scripts: Readonly<Record<string, Script>>,
  port = 0,
): Promise<ScriptedServer> {
  const seen: Json[] = []
  const running = new Set<ServerResponse>()
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const message = parse(Buffer.concat(parts).toString())
      if (!isObject(message)) return response.writeHead(request.method === 'DELETE' ? 200 : 405).end()
      seen.push(message)
      if (message['id'] === undefined) return response.writeHead(202).end()
      running.add(response)
      response.on('close', () => running.delete(response))
      return answer(message, response)
    })
  })

  const answer = (message: Json, response: ServerResponse): void => {
    const { id, method } = message
    const reply = (body: Json): Json => ({ jsonrpc: '2.0', id, ...body })
    if (method === 'initialize') {
      const serverInfo = { name: 'scripted', version: '1.0.0' }
      const result = { protocolVersion: '2025-11-25', capabilities, serverInfo }
      return json(response, reply({ result }), { 'mcp-session-id': 'scripted' })
    }
    const script = scripts[String(method)]
    if (!script) return json(response, reply({ error: { code: -32601, message: 'Method not found' } }))
    const event = (each: Json): void => {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(`data: ${JSON.stringify(each)}\n\n`)
    }
    const finish = (result: Json): void => {
      event(reply({ result }))
      response.end()
    }
    const say = (each: Json): void => event({ jsonrpc: '2.0', ...each })
    const result = script({ message, params: objectAt(message, 'params'), say, finish })
    if (result) json(response, reply(isObject(result['error']) ? result : { result }))
  }

  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  const address = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${address.port}/mcp`,
    seen,
    get open() {
      return running.size
    },
    close: () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      return closed
    },
  }
}

/** The progress token a call carries. */
export function tokenOf({ params }: Asked): unknown {
  return objectAt(params, '_meta')['progressToken']
}

function json(response: ServerResponse, message: Json, headers: Record<string, string> = {}): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(message))
}
