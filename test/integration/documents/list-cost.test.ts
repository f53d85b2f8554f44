import { afterAll, beforeAll, expect, test } from 'vitest'
import { cpuNanoseconds } from '../../bench/process-stats.ts'
import { post } from '../../support/client/raw.ts'
import { modern } from '../../support/fronts.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const tools = Array.from({ length: 500 }, (_each, at): Json => {
  const properties = { path: { type: 'string' }, count: { type: 'integer', minimum: 1 } }
  return {
    name: `${['get', 'create', 'delete', 'update'][at % 4]}_thing_${at}`,
    title: `Thing ${at}`,
    description: `Does the thing ${at} to what the path names. It may take a while.`,
    inputSchema: { type: 'object', properties, required: ['path'] },
  }
})

const running: { close(): Promise<unknown> }[] = []
let described: GatewayProcess
let bare: GatewayProcess

beforeAll(async () => {
  described = await before(tools, {})
  const { result } = JSON.parse(await list(described))
  // The same bytes, as a server would list them itself.
  bare = await before(result.tools, { features: 'none' })
}, 60_000)
afterAll(async () => void (await Promise.all(running.map((each) => each.close()))))

async function before(listed: readonly Json[], config: Json): Promise<GatewayProcess> {
  const server: ScriptedServer = await scriptedServer(
    { tools: {} },
    { 'tools/list': () => ({ tools: listed }) },
  )
  const gateway = await startGatewayProcess({
    store: 'memory',
    observe: { metrics: 'off' },
    ...config,
    upstreams: { it: { url: server.url } },
  })
  running.push(gateway, server)
  return gateway
}

async function list({ url }: GatewayProcess): Promise<string> {
  const { message, headers } = modern('tools/list')
  return (await post(url, JSON.stringify(message), headers)).text
}

/** The CPU time of a gateway for several lists, in nanoseconds. */
async function cost(gateway: GatewayProcess): Promise<number> {
  const start = cpuNanoseconds(gateway.pid)
  for (let round = 0; round < 40; round++) await list(gateway)
  return cpuNanoseconds(gateway.pid) - start
}

test(
  'listing 500 described tools costs at most twice as much as relaying the same bytes',
  { timeout: 60_000 },
  async () => {
    expect((await list(described)).length).toBeGreaterThan(200_000)
    expect((await list(bare)).length).toBeGreaterThan(200_000)
    await Promise.all([cost(bare), cost(described)])
    const through: number[] = []
    const full: number[] = []
    for (let round = 0; round < 2; round++) {
      through.push(await cost(bare))
      full.push(await cost(described))
    }
    expect(Math.min(...full) / Math.min(...through)).toBeLessThanOrEqual(2)
  },
)
