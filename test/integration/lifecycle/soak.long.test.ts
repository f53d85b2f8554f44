import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { Crowd, type CrowdClient, type Holdings, holdingsIn } from '../../support/crowd.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { gatewayProcessTo, httpServer, stdioServer } from '../../support/journey.ts'
import { descendants } from '../../support/process-tree.ts'
import { repetitions } from '../../support/soak.ts'

const report = pathToFileURL(join(import.meta.dirname, '../../fixtures/memory-report/main.ts')).href
const MEGABYTE = 1024 * 1024
const CLIENTS = repetitions(60, 200)
const CALLS = 100

describe(`a gateway that served ${CLIENTS * CALLS} calls from ${CLIENTS} clients`, () => {
  test('returns to its former memory, handles and child processes', async () => {
    const server = await httpServer()
    const upstreams = { stdio: stdioServer(), http: { url: server.url, revision: '2025-11-25' } }
    const options = { args: ['--log-level', 'warn'], env: { NODE_OPTIONS: `--import ${report}` } }
    const gateway = await gatewayProcessTo(upstreams, options)
    // The first calls compile code and fill caches.
    await serve(gateway, { clients: 40, calls: 50 })
    const before = await rest(gateway)
    const children = descendants(gateway.pid)

    await serve(gateway, { clients: CLIENTS, calls: CALLS })

    const after = await rest(gateway)
    expect(grown(before.resources, after.resources)).toEqual([])
    expect((after.heapUsed - before.heapUsed) / MEGABYTE).toBeLessThan(4)
    expect(descendants(gateway.pid)).toEqual(children)
  })
})

/** Half of the clients have sessions; every fifth disconnects during its last call. */
async function serve(
  gateway: GatewayProcess,
  { clients, calls }: { clients: number; calls: number },
): Promise<void> {
  const crowds = ['stdio', 'http'].map((name) => new Crowd(`${gateway.url}/${name}`, 16))
  const waiting = Array.from({ length: clients }, (_each, index) => index)
  const work = async (): Promise<void> => {
    for (let index = waiting.shift(); index !== undefined; index = waiting.shift()) {
      const crowd = crowds[index % 2]
      if (!crowd) return
      const client = index % 4 < 2 ? await crowd.legacy() : crowd.modern()
      await useUp(client, calls, index % 5 === 0)
    }
  }
  try {
    await Promise.all(Array.from({ length: 20 }, work))
  } finally {
    await Promise.all(crowds.map((crowd) => crowd.close()))
  }
}

async function useUp(client: CrowdClient, calls: number, vanishes: boolean): Promise<void> {
  for (let id = 1; id <= calls; id += 4) {
    await Promise.all([0, 1, 2, 3].filter((more) => id + more <= calls).map((more) => client.echo(id + more)))
  }
  if (vanishes) await client.vanish(calls + 1)
  await client.leave()
}

/** The kinds of resources of which there are more than before. */
function grown(before: Holdings['resources'], after: Holdings['resources']): string[] {
  return Object.keys(after).filter((name) => (after[name] ?? 0) > (before[name] ?? 0))
}

/** The resources of the gateway once its idle connections are closed: the one for the server's own stream stays. */
async function rest(gateway: GatewayProcess): Promise<Holdings> {
  let last: Holdings | undefined
  const isAtRest = async (): Promise<boolean> => {
    last = await holdings(gateway)
    return (last.resources['TCPSocketWrap'] ?? 0) <= 1
  }
  await until(isAtRest, 'idle connections to be closed').catch(() => undefined)
  return last ?? holdings(gateway)
}

async function holdings(gateway: GatewayProcess): Promise<Holdings> {
  const reports = () => gateway.log().filter(({ event }) => event === 'memory.report')
  const seen = reports().length
  gateway.signal('SIGUSR2')
  return holdingsIn(await until(() => reports()[seen], 'the report'))
}
