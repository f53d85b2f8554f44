import { AsyncLocalStorage } from 'node:async_hooks'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { Payload } from '../../src/core/payload.ts'
import { enterWorld, world } from '../../src/core/world.ts'
import { LegacyConnection } from '../../src/upstream/protocol/legacy.ts'
import { proofFor } from '../../src/upstream/protocol/gateway-proof.ts'
import type { UpstreamCall } from '../../src/upstream/suspended-calls.ts'
import { createHttpClient } from '../../src/upstream/transport/http-client.ts'
import { httpConnect, sseConnect } from '../../src/upstream/transport/http.ts'
import { serverSettings } from './server-settings.ts'
import { silentLog } from './silent-log.ts'

/** A message of the gateway. */
export interface Posted {
  readonly id?: number | string
  readonly method?: string
}

interface Answers {
  /** Answers GET; by default there is no stream. */
  get?(response: ServerResponse, request: IncomingMessage): void
  /** Answers a POST; if it does not, the server does as it should. */
  post?(message: Posted, response: ServerResponse, request: IncomingMessage): boolean
  /** Whether `initialize` gives no session. */
  readonly hasNoSession?: boolean
}

/** What a server got: how often each method, and GET. */
export type Counts = Record<string, number>

/** A server with a handshake over HTTP, and what it got. */
export async function sessionServer(
  answers: Answers,
): Promise<{ readonly url: URL; readonly counts: Counts }> {
  const counts: Counts = {}
  const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1)
  let sessions = 0
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (part: string) => void (text += part))
    request.on('end', () => {
      if (request.method !== 'POST') {
        count(String(request.method))
        if (request.method !== 'GET' || !answers.get) return void response.writeHead(405).end()
        return answers.get(response, request)
      }
      const message = JSON.parse(text) as Posted
      count(String(message.method))
      if (answers.post?.(message, response, request) === true) return
      if (message.id === undefined) return void response.writeHead(202).end()
      if (message.method === 'initialize' && !answers.hasNoSession)
        response.setHeader('mcp-session-id', `session-${++sessions}`)
      response.writeHead(200, { 'content-type': 'application/json' }).end(answerTo(message))
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`), counts }
}

/** The response to a request: the handshake, or a list with the request's id as the name of a tool. */
export function answerTo({ id, method }: Posted): string {
  const result =
    method === 'initialize'
      ? {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 's', version: '1' },
        }
      : { tools: [{ name: `tool-${id}`, inputSchema: { type: 'object' } }] }
  return JSON.stringify({ jsonrpc: '2.0', id, result })
}

/** Connects to a server with a handshake. */
export async function connectTo(
  url: URL,
  transport: 'streamable' | 'sse' = 'streamable',
): Promise<LegacyConnection> {
  const client = createHttpClient(url, {})
  const stepTimeout = (): AbortSignal => AbortSignal.timeout(10_000)
  const connect =
    transport === 'sse' ? sseConnect(client, stepTimeout) : httpConnect({ client, log: silentLog })
  const connection = await LegacyConnection.open({
    connect,
    capabilities: {},
    proof: () => proofFor(serverSettings()),
    stepTimeout,
    log: silentLog,
  })
  onTestFinished(async () => {
    await connection.close()
    await client.connections.destroy()
  })
  return connection
}

/** The names of the tools that a server lists, or the code of the error. */
export async function listOf(
  connection: LegacyConnection,
  signal = AbortSignal.timeout(10_000),
): Promise<unknown> {
  const client = { era: 'legacy', revision: '2025-11-25', capabilities: {} }
  const method = 'tools/list'
  const target = { method, upstream: 'one' }
  const call = { method, target, params: Payload.of({}), meta: {}, client, principal: { id: 'me' } }
  const working = { call, signal, notify: () => undefined, progress: () => undefined }
  return connection.open(working as unknown as UpstreamCall).then(
    (outcome) => (outcome.kind === 'result' ? named(outcome.result.fields.tools) : outcome.kind),
    (error: { code: string }) => error.code,
  )
}

function named(tools: unknown): unknown {
  return Array.isArray(tools) ? tools.map(({ name }: { name: string }) => name) : tools
}

/**
 * Makes delays a thousand times shorter for one test, and gives those over a second, in milliseconds. What other tests of
 * this process left running keeps its delays.
 */
export function shortDelays(): readonly number[] {
  const delays: number[] = []
  const { setTimeout } = world
  const own = new AsyncLocalStorage<true>()
  own.enterWith(true)
  const leave = enterWorld({
    ...world,
    setTimeout: (run, delay = 0, ...args) => {
      if (own.getStore() !== true) return setTimeout(run, delay, ...args)
      if (delay >= 1000) delays.push(delay)
      return setTimeout(run, delay / 1000, ...args)
    },
  })
  onTestFinished(leave)
  return delays
}
