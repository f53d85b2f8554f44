import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { modern } from '../../support/fronts.ts'
import { runCommand } from '../../support/gateway.ts'
import { runCommandProcess } from '../../support/gateway-process.ts'
import { folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'

it('two workers serve one port: metrics are of both, the audit log is read as one, and a stop ends both', async () => {
  const audit = join(folder(), 'audit.jsonl')
  const server = await httpServer({ revision: '2026-07-28' })
  const config = { workers: 2, store: './state', observe: { audit } }
  const gateway = await gatewayProcessTo({ one: { url: server.url } }, { config })
  await gateway.logged(({ event, worker }) => event === 'upstream.ready' && worker === 2)

  // Each call has a connection of its own, and workers get connections in turn.
  const { message, headers } = modern('tools/call', { name: 'echo', arguments: { text: 'a' } })
  const calls = Array.from({ length: 10 }, () => post(gateway.url, JSON.stringify(message), headers))
  expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(calls.map(() => 200))
  const workers = await until(() => {
    const found = gateway.log().filter(({ event }) => event === 'call')
    return found.length === calls.length && new Set(found.map(({ worker }) => worker))
  }, 'the lines of all calls')
  expect(workers).toEqual(new Set([1, 2]))

  const metrics = await (await fetch(`${gateway.origin}/metrics`)).text()
  const counted = /^gatehouse_calls_total\{.*tool="echo",outcome="ok"\} (\d+)$/m.exec(metrics)
  expect(Number(counted?.[1])).toBe(calls.length)
  expect(metrics).toContain('gatehouse_workers{state="counted"} 2')

  expect(gateway.stdout().match(/^Gatehouse serves /gm)).toHaveLength(1)
  expect(gateway.stdout().match(/enter the code/g)).toHaveLength(1)
  gateway.stop()
  expect(await gateway.ended).toMatchObject({ code: 0, signal: null })
  expect(existsSync(audit.replace('audit.jsonl', 'audit.2.jsonl'))).toBe(true)
  const verified = await runCommand(['audit', 'verify', '--json', '--config', gateway.configFile, audit])
  const { logs } = JSON.parse(verified.stdout)
  expect(logs).toHaveLength(2)
  // Each has a line about its start.
  expect(logs[0].lines + logs[1].lines).toBe(calls.length + 2)
  expect(verified.code).toBe(0)
})

it('workers without a store that they share are refused, with what to change', async () => {
  const config = join(folder(), 'gateway.config.yaml')
  writeFileSync(config, 'workers: 2\nstore: memory\nupstreams: { one: "http://127.0.0.1:9/mcp" }\n')
  const checked = await runCommand(['check', '--config', config])
  expect(checked).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/:1:10 workers: .*set `store: .\/folder`/),
  })
  const served = await runCommandProcess(['serve', '--config', config])
  expect(served.code).toBe(1)
  expect(served.stderr.match(/set `store: .\/folder`/g)).toHaveLength(1)
  writeFileSync(config, 'workers: 2\nupstreams: { one: "http://127.0.0.1:9/mcp" }\n')
  const piped = await runCommand(['stdio', '--config', config])
  expect(piped).toMatchObject({ code: 1, stderr: expect.stringContaining('run gatehouse serve') })
})
