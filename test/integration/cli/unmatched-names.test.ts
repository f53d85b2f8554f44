import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { runCommand, startCommand } from '../../support/gateway.ts'
import { clientOf, folder, gatewayTo, httpServer } from '../../support/journey.ts'
import { steadyPort } from '../../support/steady-port.ts'

const misspelt = { deny: { echoo: 'on' } }
const problem = 'one lists no matching tool, prompt or resource; did you mean echo?'

function file(config: object): string {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify(config, null, 2))
  return path
}

test('a deny rule that matches no tool keeps serve and stdio from starting, and check reports it', async () => {
  const { url } = await httpServer()
  const path = file({ upstreams: { one: { url, ...misspelt } } })
  const runs = await Promise.all([
    runCommand(['check', '--config', path]),
    runCommand(['serve', '--config', path, '--port', '0']),
  ])
  for (const { code, stderr } of runs) {
    expect(code).toBe(1)
    expect(stderr).toContain(`${path}:6:9 upstreams.one.deny.echoo: ${problem}`)
  }
  const stdio = startCommand(['stdio', '--config', path])
  expect(await stdio.ended).toMatchObject({ code: 1 })
  expect(stdio.stderr()).toContain(problem)
  await stdio.close()
})

test('a setting that matches no tool and affects only confirmation is a logged warning, and check reports it', async () => {
  const { url } = await httpServer()
  const upstreams = { one: { url, tools: { echoo: { pivot: true } } } }
  const checked = await runCommand(['check', '--config', file({ upstreams })])
  expect([checked.code, checked.stderr]).toEqual([1, expect.stringContaining('did you mean echo?')])
  const gateway = await gatewayTo(upstreams)
  const line = await gateway.logged(({ event }) => event === 'config.problem')
  expect(line).toMatchObject({ level: 'warn', key: 'upstreams.one.tools.echoo' })
})

test('a running gateway applies the rest of a changed file, and logs the problem', async () => {
  const { url } = await httpServer()
  const gateway = await gatewayTo({ one: { url } })
  gateway.configure({ upstreams: { one: { url, ...misspelt } } })
  const line = await gateway.logged(({ event }) => event === 'config.problem')
  expect(line).toMatchObject({ level: 'error', key: 'upstreams.one.deny.echoo', problem })
  const client = await clientOf(gateway)
  expect((await client.request('tools/list')).result).toBeDefined()
})

test('a server that is down at startup is checked once it is up', async () => {
  const port = await steadyPort()
  const url = `http://127.0.0.1:${port}/mcp`
  const gateway = await gatewayTo({ one: { url, ...misspelt } }, { warm: false })
  await gateway.logged(({ event }) => event === 'config.unchecked')
  await httpServer({ port })
  await gateway.logged(({ event, key }) => event === 'config.problem' && key === 'upstreams.one.deny.echoo')
})

test('an issuer whose keys cannot be fetched is a configuration problem', async () => {
  const { url } = await httpServer()
  const auth = { jwt: { issuer: 'http://127.0.0.1:9/', audience: 'x' } }
  const { code, stderr } = await runCommand(['check', '--config', file({ auth, upstreams: { one: url } })])
  expect(code).toBe(1)
  expect(stderr).toContain('auth.jwt.issuer: the keys of this issuer cannot be fetched')
})
