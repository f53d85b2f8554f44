import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { Crowd, type CrowdClient, type Holdings, holdingsIn } from '../../support/crowd.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { descendants } from '../../support/process-tree.ts'

const report = pathToFileURL(join(import.meta.dirname, '../../fixtures/memory-report.ts')).href
const MEGABYTE = 1024 * 1024

describe('a gateway that served twenty thousand calls over two hundred clients', () => {
  test('holds what it held before', { timeout: 180_000 }, async () => {
    const server = await httpServer()
    const upstreams = { stdio: stdioServer(), http: { url: server.url, revision: '2025-11-25' } }
    const gateway = await gatewayTo(upstreams, { env: { NODE_OPTIONS: `--import ${report}` } })
    const crowds = ['stdio', 'http'].map((name) => new Crowd(`${gateway.url}/${name}`, 16))
    onTestFinished(async () => void (await Promise.all(crowds.map((crowd) => crowd.close()))))
    // The first calls compile code and fill caches.
    await serve(crowds, { clients: 40, calls: 50 })
    const before = await holdings(gateway)
    const children = descendants(gateway.pid)

    await serve(crowds, { clients: 200, calls: 100 })

    const after = await until(async () => {
      const now = await holdings(gateway)
      return isLike(now, before) && now
    }, 'the gateway to hold no more than before', 20_000).catch(() => holdings(gateway))
    expect(after.resources).toEqual(before.resources)
    expect((after.heapUsed - before.heapUsed) / MEGABYTE).toBeLessThan(4)
    expect(descendants(gateway.pid)).toEqual(children)
  })
})

/** Half of the clients have sessions; one in five calls' worth of each client ends with it gone in mid-stream. */
async function serve(crowds: readonly Crowd[], { clients, calls }: { clients: number; calls: number }): Promise<void> {
  const waiting = Array.from({ length: clients }, (_each, index) => index)
  const work = async (): Promise<void> => {
    for (let index = waiting.shift(); index !== undefined; index = waiting.shift()) {
      const crowd = crowds[index % 2]
      if (!crowd) return
      const client = index % 4 < 2 ? await crowd.legacy() : crowd.modern()
      await useUp(client, calls, index % 5 === 0)
    }
  }
  await Promise.all(Array.from({ length: 20 }, work))
}

async function useUp(client: CrowdClient, calls: number, vanishes: boolean): Promise<void> {
  for (let id = 1; id <= calls; id += 4) {
    await Promise.all([0, 1, 2, 3].filter((more) => id + more <= calls).map((more) => client.echo(id + more)))
  }
  if (vanishes) await client.vanish(calls + 1)
  await client.leave()
}

async function holdings(gateway: GatewayProcess): Promise<Holdings> {
  const reports = () => gateway.log().filter(({ event }) => event === 'memory.report')
  const seen = reports().length
  gateway.signal('SIGUSR2')
  return holdingsIn(await until(() => reports()[seen], 'the report'))
}

function isLike(now: Holdings, before: Holdings): boolean {
  const names = new Set([...Object.keys(now.resources), ...Object.keys(before.resources)])
  return now.heapUsed - before.heapUsed < 4 * MEGABYTE && [...names].every((name) => now.resources[name] === before.resources[name])
}
