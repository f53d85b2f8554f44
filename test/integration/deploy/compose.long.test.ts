/** The Compose files: what Compose makes of them, and the fleet of compose.fleet.yaml, with its files, as processes of this machine. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { end, freePort } from '../../support/child-process.ts'
import { until } from '../../support/condition.ts'
import { inRepository } from '../../support/document.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { composed, needsCompose } from '../../support/kubernetes-tools.ts'
import { needs } from '../../support/needs.ts'
import { needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'

const HAPROXY = '/usr/sbin/haproxy'
const needsHaproxy = needs({ program: HAPROXY, get: 'apt-get install haproxy' })

describe('the Compose files', needsCompose, () => {
  const published = ({ ports }: { readonly ports?: readonly object[] }) => ports ?? []

  test('make one gateway, which is published to this machine only', () => {
    const { services } = composed('compose.yaml')
    expect(Object.keys(services).toSorted()).toEqual(['everything', 'gatehouse'])
    expect(Object.values<object>(services).flatMap(published)).toMatchObject([
      { host_ip: '127.0.0.1', published: '8900', target: 8900 },
    ])
  })

  test('make three gateways with Redis behind a balancer, which alone is published, to this machine only', () => {
    const { services } = composed('compose.yaml', 'compose.fleet.yaml')
    expect(Object.keys(services).toSorted()).toEqual(['balancer', 'everything', 'gatehouse', 'redis'])
    expect(services.gatehouse.deploy).toMatchObject({ replicas: 3 })
    expect(services.gatehouse.environment).toEqual(['REDIS_URL=redis://redis:6379'])
    const all = Object.entries<object>(services).flatMap(([name, each]) =>
      published(each).map((port) => ({ name, ...port })),
    )
    expect(all).toMatchObject([{ name: 'balancer', host_ip: '127.0.0.1', published: '8900', target: 8900 }])
    for (const each of Object.values<object>(services))
      expect(each).toMatchObject({ cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
  })
})

describe.skipIf(needsRedis.skip)('the fleet of compose.fleet.yaml', needsHaproxy, () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  let redis: RedisServer
  let server: FakeServer
  let gateways: GatewayProcess[]
  let balancer: ChildProcess
  let url: string

  beforeAll(async () => {
    redis = await startRedis({ isForgetful: true })
    server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
    const config = parse(readFileSync(inRepository('deploy/config/gateway.config.yaml'), 'utf8'))
    const env = { REDIS_URL: redis.url }
    gateways = await Promise.all(
      [1, 2, 3].map(async () =>
        startGatewayProcess(
          { ...config, upstreams: { everything: server.url } },
          { env, port: await freePort() },
        ),
      ),
    )
    const port = await freePort()
    const configuration = readFileSync(inRepository('deploy/haproxy/haproxy.cfg'), 'utf8')
      .replace('bind :8900', `bind 127.0.0.1:${port}`)
      // In the place of the addresses that the DNS of Docker has for the service.
      .replace(
        /^ *server-template .*$/m,
        gateways.map(({ origin }, index) => `    server ${index} ${new URL(origin).host}`).join('\n'),
      )
    const file = join(folder, 'haproxy.cfg')
    writeFileSync(file, configuration)
    balancer = spawn(HAPROXY, ['-db', '-f', file], { stdio: 'ignore' })
    url = `http://127.0.0.1:${port}/mcp`
    await until(async () => (await statusOf(new URL('/ready', url))) === 200, 'the balancer')
  })
  afterAll(async () => {
    await end(balancer)
    await Promise.all(gateways.map((gateway) => gateway.close()))
    await server.close()
    await redis.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  async function connected(): Promise<Client> {
    const client = new Client({ name: 'a-client', version: '1.0.0' })
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    return client
  }

  const call = (client: Client) => client.callTool({ name: 'echo', arguments: { text: 'a' } })

  async function callsAt({ origin }: GatewayProcess): Promise<number> {
    const page = await (await fetch(`${origin}/metrics`)).text()
    return Number(/^gatehouse_calls_total\{.*tool="echo".*\} (\d+)$/m.exec(page)?.[1] ?? 0)
  }

  test('answers every call of older clients, whose requests go to one gateway after the other', async () => {
    const clients = await Promise.all(Array.from({ length: 4 }, connected))
    for (let round = 0; round < 6; round++) await Promise.all(clients.map(call))
    const counts = await Promise.all(gateways.map(callsAt))
    expect(counts.reduce((sum, each) => sum + each)).toBe(24)
    // 4 clients with 6 calls each, in turn with what else they send.
    for (const count of counts) expect(count).toBeGreaterThan(2)
    await Promise.all(clients.map((client) => client.close()))
  })

  test('answers every call made after a gateway has ended', async () => {
    const client = await connected()
    const [first] = gateways
    await first?.close()
    for (let round = 0; round < 9; round++) await expect(call(client)).resolves.toHaveProperty('content')
    await client.close()
  })
})

async function statusOf(url: URL): Promise<number | undefined> {
  return (await fetch(url).catch(() => undefined))?.status
}
