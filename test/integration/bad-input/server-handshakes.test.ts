import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect } from '../../support/fake-client.ts'
import { welcome } from '../../support/faults.ts'
import { type FaultyServer, send, startFaultyServer } from '../../support/faulty-server.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import type { Json } from '../../support/server/json.ts'
import { codeOf } from '../../support/structured-error.ts'

const program = fileURLToPath(new URL('../../fixtures/faulty-server/main.ts', import.meta.url))

/** How the handshake of a server can fail, and the error its callers receive. */
const faults: Readonly<Record<string, readonly [string, (response: ServerResponse, message: Json) => void]>> =
  {
    silent: ['SERVER_UNAVAILABLE', () => undefined],
    page: ['UPSTREAM_ERROR', (response) => void response.writeHead(200).end('<html>')],
    nothing: ['UPSTREAM_ERROR', (response) => void response.writeHead(200).end()],
    future: ['SERVER_UNAVAILABLE', (response, message) => send(response, version(message, '2031-01-01'))],
    no_version: ['SERVER_UNAVAILABLE', (response, message) => send(response, version(message, undefined))],
    null_version: ['SERVER_UNAVAILABLE', (response, message) => send(response, version(message, null))],
    redirect_loop: ['UPSTREAM_ERROR', (response) => void response.writeHead(307, { location: '/mcp' }).end()],
    unauthorized: ['SERVER_UNAVAILABLE', (response) => void response.writeHead(401).end()],
    broken: ['SERVER_UNAVAILABLE', (response) => void response.writeHead(503).end()],
    reset: ['SERVER_UNAVAILABLE', (response) => void response.destroy()],
  }

const servers = new Map<string, FaultyServer>()
let gateway: RunningGateway

beforeAll(async () => {
  for (const [name, [, fault]] of Object.entries(faults)) {
    servers.set(name, await startFaultyServer({}, (response, message) => (fault(response, message), true)))
  }
  servers.set('good', await startFaultyServer())
  const deaf = await startDeafServer()
  servers.set('deaf', deaf)
  // What answers has time for it.
  const reached = [...servers].map(([name, { url }]) => [
    name.replaceAll('_', '-'),
    { url, ...(faults[name]?.[0] !== 'UPSTREAM_ERROR' && { start_timeout: '700ms' }) },
  ])
  const child = { command: [process.execPath, program], revision: '2025-11-25', start_timeout: '700ms' }
  gateway = await startGateway({
    upstreams: {
      ...Object.fromEntries(reached),
      mute: { ...child, args: ['--mute'] },
      exits: { ...child, args: ['--exit'] },
      absent: { ...child, command: ['/no/such/program'] },
      'sse-silent': { url: deaf.url, transport: 'sse', start_timeout: '700ms' },
      closed: { url: 'http://127.0.0.1:9/mcp' },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  for (const server of servers.values()) await server.close()
})

const codes = Object.entries(faults).map(([name, [code]]) => [name.replaceAll('_', '-'), code] as const)
const others = [
  ['mute', 'SERVER_UNAVAILABLE'],
  ['exits', 'SERVER_UNAVAILABLE'],
  ['absent', 'SERVER_UNAVAILABLE'],
  ['deaf', 'SERVER_UNAVAILABLE'],
  ['sse-silent', 'SERVER_UNAVAILABLE'],
  ['closed', 'SERVER_UNAVAILABLE'],
] as const

test.concurrent.each([...codes, ...others])(
  'requests to a server whose handshake is "%s" end with %s',
  async (name, code) => {
    for (const revision of ['2026-07-28', '2025-11-25'] as const) {
      const client = await connect({
        revision,
        transport: 'http',
        url: `${gateway.url}/${name}`,
        handshake: false,
      })
      const method = revision === '2026-07-28' ? 'tools/list' : 'initialize'
      const params = {
        protocolVersion: revision,
        capabilities: {},
        clientInfo: { name: 'test', version: '1' },
      }
      const ask = () => client.request(method, method === 'initialize' ? params : {})
      // A gateway attempts again by itself what failed, and pauses after a few times: its error is that of no handshake.
      const attempt = async () => {
        const reply = await ask()
        return !reply.text.includes('times within a minute') && reply
      }
      const reply = code === 'UPSTREAM_ERROR' ? await until(attempt, 'a handshake') : await ask()
      expect(codeOf(reply)).toBe(code)
      await client.close()
    }
  },
)

test('unreachable servers do not affect a reachable one', async () => {
  const client = await connect({ revision: '2026-07-28', transport: 'http', url: `${gateway.url}/good` })
  const reply = await client.request('tools/call', { name: 'good' })
  expect(reply.result).toMatchObject({ content: [{ text: 'good' }] })
  await client.close()
})

/** A server that accepts connections and is silent. */
async function startDeafServer(): Promise<FaultyServer> {
  const server = createServer(() => undefined)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = (): Promise<void> => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(() => resolve()))
  }
  return { url: `http://127.0.0.1:${port}/sse`, close }
}

function version({ id }: Json, protocolVersion: unknown): Json {
  const { result } = welcome(id) as { result: Json }
  return { jsonrpc: '2.0', id, result: { ...result, protocolVersion } }
}
