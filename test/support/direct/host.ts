/** Serves an odd server over HTTP, or over stdio in a process of its own. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { isObject, objectAt, parse } from '../server/json.ts'
import { odd } from './odd.ts'
import { type OddServer, said } from './odd-servers.ts'

/** An odd server that listens on a loopback port. */
export interface Hosted {
  readonly url: string
  close(): Promise<void>
}

/** The command that runs an odd server over stdio. */
export function oddCommand(name: string): { readonly command: string; readonly args: string[] } {
  const program = fileURLToPath(new URL('../../fixtures/odd-server/main.ts', import.meta.url))
  return { command: process.execPath, args: [program, name] }
}

/** Starts an odd server over Streamable HTTP. */
export async function hostOdd(name: string): Promise<Hosted> {
  const host = new Host(oddServer(name))
  const server = createServer((request, response) => void host.take(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** An odd server by its name. */
export function oddServer(name: string): OddServer {
  const server = odd[name]
  if (!server) throw new TypeError(`no odd server ${name}`)
  return server
}

class Host {
  readonly #server: OddServer
  /** The streams of sessions, and of subscriptions, by their ids. */
  readonly #streams = new Map<ServerResponse, string | undefined>()

  constructor(server: OddServer) {
    this.#server = server
  }

  async take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const isModern = this.#server.revision === '2026-07-28'
    if (request.method === 'GET' && !isModern) return this.#stream(response, undefined)
    if (request.method !== 'POST')
      return void response.writeHead(request.method === 'DELETE' ? 200 : 405).end()
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const text = Buffer.concat(parts).toString()
    const message = parse(text)
    if (!isObject(message) || !('id' in message)) return void response.writeHead(202).end()
    if (message['method'] === 'subscriptions/listen') {
      const id = JSON.stringify(message['id'])
      this.#stream(response, id)
      return write(
        response,
        acknowledgement(id, JSON.stringify(objectAt(message['params'], 'notifications'))),
      )
    }
    const { answers, changes } = said(this.#server, text)
    const session = isModern ? {} : { 'mcp-session-id': 'odd' }
    for (const [stream, id] of this.#streams)
      for (const change of changes) write(stream, id === undefined ? change : subscribed(change, id))
    if (answers.length === 1)
      return void response.writeHead(200, { 'content-type': 'application/json', ...session }).end(answers[0])
    response.writeHead(200, { 'content-type': 'text/event-stream', ...session })
    for (const answer of answers) write(response, answer)
    response.end()
  }

  #stream(response: ServerResponse, id: string | undefined): void {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    this.#streams.set(response, id)
    response.on('close', () => this.#streams.delete(response))
  }
}

function write(response: ServerResponse, text: string): void {
  response.write(`data: ${text}\n\n`)
}

/** The first message of a subscription. */
export function acknowledgement(id: string, filter: string): string {
  return `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":${filter},"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}}}`
}

/** A notification of a subscription. */
export function subscribed(change: string, id: string): string {
  const { method } = parse(change) as { method: string }
  return `{"jsonrpc":"2.0","method":"${method}","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${id}}}}`
}
