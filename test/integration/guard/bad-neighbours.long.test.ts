// Calls beside a harmful server, with default settings: each fault has the documented outcome, and the other servers are
// served meanwhile.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { clientOf, stdioServer } from '../../support/journey.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import type { Json } from '../../support/server/json.ts'

const program = join(import.meta.dirname, '../../fixtures/hostile-server/main.ts')

/** Settings that reach a hostile server; an HTTP server runs until the end of the test. */
async function hostile(mode: string, transport: 'stdio' | 'http'): Promise<Json> {
  const command = [process.execPath, program, mode, transport]
  if (transport === 'stdio') return { command }
  const [executable = '', ...args] = command
  const child = spawn(executable, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill())
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { url: line.toString().trim() }
}

interface World {
  readonly gateway: RunningGateway
  /** A client of the aggregate endpoint, and one of the hostile server alone. */
  readonly all: FakeClient
  bad(): Promise<FakeClient>
}

async function world(mode: string, transport: 'stdio' | 'http', settings: Json = {}): Promise<World> {
  const good = stdioServer()
  const bad = { ...(await hostile(mode, transport)), ...settings }
  const gateway = await startGateway({ upstreams: { bad, good } }, { warm: false })
  onTestFinished(() => gateway.close())
  const all = await clientOf(gateway)
  return { gateway, all, bad: () => clientOf({ url: `${gateway.url}/bad` }) }
}

/** The good server responds, to each call within a client's timeout. */
async function expectServed(client: FakeClient): Promise<void> {
  for (let made = 0; made < 20; made++) {
    const { text } = await client.request('tools/call', {
      name: 'good_echo',
      arguments: { text: `n${made}` },
    })
    expect(text).toContain(`n${made}`)
  }
}

describe.each(['stdio', 'http'] as const)('beside a server over %s', (transport) => {
  test('that is unresponsive, others are served, and its own calls fail as unavailable', async () => {
    const { gateway, all } = await world('silent', transport, { start_timeout: '2s' })
    await expectServed(all)
    const { text } = await all.request('tools/call', { name: 'bad_get_own', arguments: {} })
    expect(text).toContain('SERVER_UNAVAILABLE')
    await gateway.logged(({ event, upstream }) => event === 'upstream.unavailable' && upstream === 'bad')
    await expectServed(all)
  })

  test('that never answers a call, others are served, and the call ends at its timeout', async () => {
    const { all, bad } = await world('deaf', transport, { limits: { timeout: '2s' } })
    const client = await bad()
    const calls = [1, 2, 3].map(() => client.request('tools/call', { name: 'get_own', arguments: {} }))
    await expectServed(all)
    for (const { text } of await Promise.all(calls)) expect(text).toContain('OPERATION_TIMEOUT')
  })

  test('that lists 100,000 tools, others are served, and its list is truncated with a log line', async () => {
    const { gateway, all, bad } = await world('endless', transport)
    await expectServed(all)
    const line = await gateway.logged(({ event }) => event === 'upstream.list_cut')
    expect(line).toMatchObject({ upstream: 'bad', left_out: 98_000 })
    const client = await bad()
    expect((await client.request('tools/list', {})).text.length).toBeLessThan(2_000_000)
    await expectServed(all)
  })

  test('that forges metadata of the gateway, no client receives it, and the log reports it', async () => {
    const { gateway, all, bad } = await world('forging', transport)
    const client = await bad()
    const forged = 'forged by the server'
    expect(JSON.stringify(client.initialized)).not.toContain(forged)
    expect((await client.request('tools/list')).text).not.toContain(forged)
    const { text } = await client.request('tools/call', { name: 'get_own', arguments: {} })
    expect(text).toContain('from the hostile server')
    expect(text).not.toContain(forged)
    await gateway.logged(({ event, upstream }) => event === 'upstream.reserved_members' && upstream === 'bad')
    await expectServed(all)
  })

  test('that lists a tool name of another server, calls of that name reach the original server', async () => {
    const good = stdioServer()
    const taking = await hostile('taking', transport)
    const gateway = await startGateway({ upstreams: { bad: taking, 'bad-good': good } }, { warm: false })
    onTestFinished(() => gateway.close())
    const client = await clientOf(gateway)
    // It lists the name after its first list request.
    for (let listed = 0; listed < 5; listed++) await client.request('tools/list')
    const { text } = await client.request('tools/call', {
      name: 'bad_good_echo',
      arguments: { text: 'mine' },
    })
    expect(text).toContain('mine')
    const taken = await client.request('tools/call', { name: 'bad_good_get_own', arguments: {} })
    expect(taken.text).not.toContain('from the hostile server')
    expect(taken.text).toContain('UNKNOWN_TOOL')
    await gateway.logged(({ message }) =>
      String(message).startsWith('bad_good_get_own of bad is available at /mcp/bad only'),
    )
  })
})
