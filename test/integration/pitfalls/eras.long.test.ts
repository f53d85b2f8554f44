import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Reply, textOf } from '../../support/client/options.ts'
import { type FaultyServer, send, startFaultyServer } from '../../support/faulty-server.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import {
  clientOf,
  gatewayTo,
  httpServer,
  serverJournal,
  shellServer,
  stdioServer,
} from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'
import { codeOf } from '../../support/structured-error.ts'

describe('a probe of the era', () => {
  test('tolerates a server that exits on it, and continues with another process', async () => {
    const gateway = await gatewayTo({ fake: stdioServer({ discover: 'exit' }, { revision: 'auto' }) })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    expect(textOf(await client.request('tools/call', { name: 'big', arguments: { bytes: 3 } }))).toBe('xxx')
    await gateway.logged(({ event, era }) => event === 'upstream.ready' && era === 'legacy')
  })

  test('of a server that stays silent is given up after a while', async () => {
    const gateway = await gatewayTo({ fake: stdioServer({ discover: 'silent' }, { revision: 'auto' }) })
    const client = await clientOf(gateway)
    expect(textOf(await client.request('tools/call', { name: 'big', arguments: { bytes: 3 } }))).toBe('xxx')
  })

  test('waits for a server that starts slowly, and detects its era', async () => {
    const slow = shellServer(
      'sleep 5',
      { revision: '2026-07-28' },
      { revision: 'auto', start_timeout: '60s' },
    )
    const gateway = await gatewayTo({ fake: slow }, { warm: false })
    const { era } = await gateway.logged(({ event }) => event === 'upstream.ready', 50_000)
    expect(era).toBe('modern')
  })

  test('is not made if the configuration names the revision', async () => {
    const { file } = serverJournal()
    const gateway = await gatewayTo({ fake: stdioServer({ seenFile: file }) })
    const client = await clientOf(gateway)
    const seen = textOf(await client.request('tools/call', { name: 'seen' }))
    expect(seen).toContain('initialize')
    expect(seen).not.toContain('server/discover')
  })

  const legacy: readonly (readonly [string, (response: ServerResponse, id: unknown) => void])[] = [
    [
      '200 and -32601',
      (response, id) => send(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }),
    ],
    [
      '400 and -32000 without an id',
      (response) => refuse(response, 400, { code: -32000, message: 'Server not initialized' }),
    ],
    ['400 and -32700', (response) => refuse(response, 400, { code: -32700, message: 'Parse error' })],
    ['400 and -32600', (response) => refuse(response, 400, { code: -32600, message: 'Invalid request' })],
    ['404 and text', (response) => void response.writeHead(404).end('Invalid session ID')],
    ['400 and other JSON', (response) => void response.writeHead(400).end('{"detail":"Missing session ID"}')],
    ['405', (response) => void response.writeHead(405).end()],
  ]
  const statuses = [401, 403, 500, 503]
  const broken = new Set(statuses)
  let gateway: RunningGateway
  const servers: FaultyServer[] = []

  beforeAll(async () => {
    for (const [, answer] of legacy) servers.push(await probed(answer))
    for (const status of statuses)
      servers.push(await probed((response, id) => refuseWhileBroken(status, response, id)))
    gateway = await startGateway({
      upstreams: Object.fromEntries(servers.map(({ url }, index) => [`web-${index}`, url])),
    })
  })
  afterAll(async () => {
    await gateway.close()
    for (const server of servers) await server.close()
  })

  function refuseWhileBroken(status: number, response: ServerResponse, id: unknown): void {
    if (broken.has(status)) response.writeHead(status).end()
    else send(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } })
  }

  async function callOf(index: number): Promise<Reply> {
    const url = `${gateway.url}/web-${index}`
    const client = await clientOf({ url }, { revision: '2026-07-28', handshake: false })
    return client.request('tools/call', { name: 'good' })
  }

  test.each(legacy.map(([name], index) => [name, index] as const))(
    'answered by %s detects a server with a handshake',
    async (_name, index) => {
      expect(textOf(await callOf(index))).toBe('good')
    },
  )

  test.each(statuses)('answered by %d detects nothing, and is repeated', async (status) => {
    const index = legacy.length + statuses.indexOf(status)
    expect(codeOf(await callOf(index))).toBe(status === 403 ? 'PERMISSION_DENIED' : 'SERVER_UNAVAILABLE')
    broken.delete(status)
    expect(textOf(await callOf(index))).toBe('good')
  })
})

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'for a client of %s that never listed the tools',
  (revision) => {
    test('mirrored arguments are in headers, under the name that the server uses', async () => {
      const server = await httpServer({ revision: '2026-07-28' })
      const other = await httpServer()
      const gateway = await gatewayTo({ fake: server.url, other: other.url })
      const args = { region: 'eü', count: 3, urgent: true, place: { city: 'Rome' } }
      const alone = await clientOf({ url: `${gateway.url}/fake` }, { revision: '2025-11-25' })
      expect(
        JSON.parse(textOf(await alone.request('tools/call', { name: 'headers', arguments: args }))),
      ).toEqual(args)
      const together = await clientOf(gateway, { revision })
      if (revision === '2026-07-28') await together.request('tools/list')
      const reply = await together.request('tools/call', { name: 'fake_headers', arguments: args })
      expect(JSON.parse(textOf(reply))).toEqual(args)
      const [last] = server.received('tools/call').slice(-1)
      expect(last?.headers).toMatchObject({
        'mcp-name': 'headers',
        'mcp-param-count': '3',
        'mcp-param-city': 'Rome',
      })
      expect(server.violations).toEqual([])
    })
  },
)

test('a server of both eras that names only the newest is used in the older era if configured', async () => {
  const server = await httpServer()
  const gateway = await gatewayTo({ fake: { url: server.url, revision: '2025-06-18' } })
  const client = await clientOf(gateway, { revision: '2026-07-28' })
  await client.request('tools/list')
  const asked = server.received('initialize').map(({ text }) => text)
  expect(server.received('server/discover')).toEqual([])
  expect(asked.every((text) => text.includes('"protocolVersion":"2025-06-18"'))).toBe(true)
})

/** A server with a handshake that answers a probe in this way. */
function probed(answer: (response: ServerResponse, id: unknown) => void): Promise<FaultyServer> {
  return startFaultyServer({}, (response, { id, method }) => {
    if (method !== 'server/discover') return false
    answer(response, id)
    return true
  })
}

function refuse(response: ServerResponse, status: number, error: Json): void {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ jsonrpc: '2.0', id: null, error }))
}
