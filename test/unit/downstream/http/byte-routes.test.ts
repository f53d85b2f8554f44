// Transfers of bytes: when a silent one ends, and that a shutdown waits for one.
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { Hono } from 'hono'
import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished, vi } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { byteExchangeSlot } from '../../../../src/core/http-paths.ts'
import { asGatewayError, type GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { Arrivals } from '../../../../src/downstream/http/body.ts'
import { addByteRoutes, Transfers } from '../../../../src/downstream/http/routes.ts'
import { listenHttp } from '../../../../src/downstream/http/server.ts'
import { createRequestStateCodec } from '../../../../src/protocol/request-state.ts'
import { collected } from '../../../../src/store/blobs/blobs.ts'
import { noPageSignIn, noSignIns } from '../../../support/auth/guarded-front.ts'
import { edge as plain } from '../../../support/edge.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'

const runtime = { ...plain.runtime, byteRoutes: [{ verb: 'POST', path: '/files' }] } as const
const edge = { ...plain, runtime }

/** Answers with what was sent. */
const handle: Handler = async (call) => {
  const exchange = byteExchangeSlot.of(call)
  const body = exchange && (await collected(exchange.body)).toString()
  await exchange?.send({ status: 201, headers: {}, body: body ?? '' })
  return { kind: 'result', result: Payload.of({}) }
}

/** A file that is being sent; `answer` resolves when its connection ends. */
function sending(port: number, agent?: Agent) {
  const client = request({ port, host: '127.0.0.1', path: '/files', method: 'POST', agent })
  const answer = new Promise<string>((resolve) => {
    client.on('error', ({ message }) => resolve(message))
    client.on('response', (response) => void collected(response).then((body) => resolve(String(body))))
  })
  client.write('first ')
  return { client, answer }
}

it('a client that sends nothing for long is disconnected, which cancels its call', async () => {
  const transfers = new Transfers(new Arrivals(), 500)
  const errors: GatewayError[] = []
  const app = new Hono<{ Bindings: HttpBindings }>()
  addByteRoutes(app, {
    edge: () => edge,
    handle,
    transfers,
    pageSignIn: { link: () => undefined },
    guarded: async ({ env }, serve) => {
      const http = { ...env, upstream: undefined, principal: anonymous, edge, requestId: 'r' }
      await serve(http).catch((error: unknown) => void errors.push(asGatewayError(error)))
      return RESPONSE_ALREADY_SENT
    },
  })
  const listener = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  const server = createServer((incoming, outgoing) => void listener(incoming, outgoing))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const { client, answer } = sending(port)
  // Each of these waits is shorter than the limit, not all of them together.
  for (let n = 0; n < 4; n++) {
    await new Promise((resolve) => setTimeout(resolve, 150))
    client.write('and more ')
  }
  expect([errors, transfers.isAny]).toEqual([[], true])
  expect(await answer).toBe('socket hang up')
  await vi.waitFor(() => expect(errors).toMatchObject([{ code: 'CANCELLED' }]))
  expect(transfers.isAny).toBe(false)
})

/** A listener, and what waits until as many transfers have begun. */
async function listening() {
  const onBegun = vi.fn<() => void>()
  const store = new MemoryStore()
  const listener = await listenHttp({
    handle: (call) => {
      onBegun()
      return handle(call)
    },
    runtime: () => ({ ...runtime, listen: { ...runtime.listen, port: 0 } }),
    signIns: noSignIns,
    pageSignIn: noPageSignIn,
    seal: createRequestStateCodec(Date.now),
    store: () => store,
    ready: async () => ({ isReady: true, checks: {} }),
    page: async () => 'a page',
    log: silentLog,
  })
  onTestFinished(() => listener.close())
  const begun = (count: number) => vi.waitFor(() => expect(onBegun).toHaveBeenCalledTimes(count))
  return { listener, begun, port: Number(new URL(listener.url).port) }
}

it('a shutdown waits for a transfer', async () => {
  const { listener, begun, port } = await listening()
  const { client, answer } = sending(port)
  await begun(1)
  const onDrained = vi.fn<() => void>()
  const drained = listener.drain(10_000).then(onDrained)
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(onDrained).not.toHaveBeenCalled()
  client.end('last')
  expect(await answer).toBe('first last')
  await drained
})

it('a shutdown takes requests on open connections until all work has ended, and closes each after its answer', async () => {
  const { listener, begun, port } = await listening()
  const agents = [0, 1].map(() => new Agent({ keepAlive: true, maxSockets: 1 }))
  onTestFinished(() => agents.forEach((agent) => agent.destroy()))
  const transfers = agents.map((agent) => sending(port, agent))
  await begun(2)
  const work = Promise.withResolvers<void>()
  const drained = listener.drain(10_000, work.promise)
  for (const { client, answer } of transfers) {
    client.end('last')
    expect(await answer).toBe('first last')
  }
  const [first, second] = agents.map((agent) => () => listed(port, agent))
  expect(await first?.()).toEqual([true, 200, 'close', expect.stringContaining('"result"')])
  work.resolve()
  await drained
  expect(await second?.()).toEqual([true, 503, 'close', expect.stringContaining('shutting down')])
})

/** Whether the connection was open before, the status, what becomes of the connection, and the body. */
async function listed(port: number, agent: Agent) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/list',
  }
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'client', version: '1' },
  }
  const client = request({ port, host: '127.0.0.1', path: '/mcp', method: 'POST', agent, headers })
  client.end(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } }))
  const [response] = (await once(client, 'response')) as [IncomingMessage]
  const body = String(await collected(response))
  return [client.reusedSocket, response.statusCode, response.headers.connection, body]
}
