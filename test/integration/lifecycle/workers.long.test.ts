import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { modern } from '../../support/fronts.ts'
import { runCommand } from '../../support/gateway.ts'
import { type GatewayProcess, runCommandProcess } from '../../support/gateway-process.ts'
import { callsOf, folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

const call = (url: string, args: Json = {}): Promise<{ readonly status: number; readonly text: string }> => {
  const { message, headers } = modern('tools/call', { name: 'echo', arguments: args })
  return post(url, JSON.stringify(message), headers)
}

/** The processes of a worker, the last one first. */
const processesOf = (gateway: GatewayProcess, worker: number): readonly number[] =>
  gateway
    .log()
    .filter((line) => line['event'] === 'worker.started' && line['worker'] === worker)
    .map(({ pid }) => Number(pid))
    .toReversed()

/** Whether the last process of a worker has answered a call. */
function answers(gateway: GatewayProcess, worker: number): boolean {
  const lines = gateway.log().filter((line) => line['worker'] === worker)
  const start = lines.findLastIndex(({ event }) => event === 'worker.started')
  return lines.slice(start).some(({ event }) => event === 'call')
}

async function counted({ origin }: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${origin}/metrics`)).text()
  return Number(/^gatehouse_calls_total\{.*tool="echo",outcome="ok"\} (\d+)$/m.exec(text)?.[1])
}

describe('workers', () => {
  it('that are killed under load are started again; no call fails that is made again, and no count gets lost', async () => {
    const audit = join(folder(), 'audit.jsonl')
    const server = await httpServer({ revision: '2026-07-28' })
    const config = { workers: 2, store: './state', observe: { audit } }
    const gateway = await gatewayProcessTo({ one: { url: server.url } }, { config })
    await gateway.logged(({ event, worker }) => event === 'upstream.ready' && worker === 2)
    let answered = 0
    let isOver = false
    const clients = Array.from({ length: 8 }, async () => {
      while (!isOver) {
        const found = await call(gateway.url).catch(() => undefined)
        if (found?.status === 200) answered++
        // The log has a line for each, and is read again and again.
        await pause(5)
      }
    })
    for (const worker of [2, 1]) {
      const before = answered
      await until(() => answered > before + 50, 'calls')
      const known = await counted(gateway)
      const [pid = 0] = processesOf(gateway, worker)
      process.kill(pid, 'SIGKILL')
      const during = answered
      await until(() => answered > during + 50, 'calls of the other worker')
      expect(await counted(gateway)).toBeGreaterThanOrEqual(known)
      await until(() => processesOf(gateway, worker).length === 2, 'the next process')
      await until(() => answers(gateway, worker), 'a call of the next process')
    }
    isOver = true
    await Promise.all(clients)
    expect(callsOf(server, 'echo')).toBeGreaterThanOrEqual(answered)
    gateway.stop()
    expect((await gateway.ended).code).toBe(0)
    const verified = await runCommand(['audit', 'verify', '--config', gateway.configFile, audit])
    expect(verified).toMatchObject({ code: 0 })
  })

  it('that are all killed before a next one serves come back at the same address', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const config = { workers: 2, store: './state' }
    // Its port is any free one.
    const gateway = await gatewayProcessTo({ one: { url: server.url } }, { config })
    await gateway.logged(({ event, worker }) => event === 'upstream.ready' && worker === 2)
    const [first = 0] = processesOf(gateway, 1)
    const [second = 0] = processesOf(gateway, 2)
    process.kill(second, 'SIGKILL')
    await until(() => processesOf(gateway, 2).length === 2, 'the next process')
    process.kill(first, 'SIGKILL')
    await until(
      () => call(gateway.url).then(() => answers(gateway, 1) && answers(gateway, 2)),
      'answers of the next processes',
    )
    gateway.stop()
    expect((await gateway.ended).code).toBe(0)
  })

  it('finish what they do at a stop: no answered call is lost', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const gateway = await gatewayProcessTo(
      { one: { url: server.url } },
      { config: { workers: 2, store: './state' } },
    )
    await gateway.logged(({ event, worker }) => event === 'upstream.ready' && worker === 2)
    const { message, headers } = modern('tools/call', { name: 'slow', arguments: { ms: 1500 } })
    const calls = Array.from({ length: 6 }, () => post(gateway.url, JSON.stringify(message), headers))
    await until(() => callsOf(server, 'slow') === calls.length, 'the calls at the server')
    gateway.stop()
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(calls.map(() => 200))
    expect((await gateway.ended).code).toBe(0)
  })

  it('answer for the others when one of them is stopped, and take its connections', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const gateway = await gatewayProcessTo(
      { one: { url: server.url } },
      { config: { workers: 2, store: './state' } },
    )
    await gateway.logged(({ event, worker }) => event === 'upstream.ready' && worker === 2)
    await Promise.all(Array.from({ length: 10 }, () => call(gateway.url)))
    expect(await counted(gateway)).toBe(10)
    const [pid = 0] = processesOf(gateway, 2)
    process.kill(pid, 'SIGSTOP')
    // One connection is handed to it, and not taken.
    void call(gateway.url).catch(() => undefined)
    void call(gateway.url).catch(() => undefined)
    await pause(100)
    const found = await Promise.all(Array.from({ length: 10 }, () => call(gateway.url)))
    expect(found.map(({ status }) => status)).toEqual(found.map(() => 200))
    const text = await (await fetch(`${gateway.origin}/metrics`)).text()
    expect(text).toContain('gatehouse_workers{state="silent"} 1')
    expect(await counted(gateway)).toBeGreaterThanOrEqual(20)
    process.kill(pid, 'SIGCONT')
  })

  it('that cannot listen end the gateway, which says why once', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const port = new URL(server.url).port
    const file = join(folder(), 'state')
    const { code, stderr } = await runCommandProcess(
      ['serve', '--workers', '3', '--port', port, server.url],
      { env: { XDG_STATE_HOME: file } },
    )
    expect(code).toBe(1)
    expect(stderr.match(/is in use by another program/g)).toHaveLength(1)
  })
})
