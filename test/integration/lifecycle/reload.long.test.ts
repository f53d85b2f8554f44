import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { type GatewayProcess, startCommandProcess } from '../../support/gateway-process.ts'
import { clientOf, codeOf, folder, gatewayProcessTo, stdioServer } from '../../support/journey.ts'
import { childrenRunning, hasProcessTree } from '../../support/process-tree.ts'

const one = stdioServer({}, { env: { NAME: 'one' } })
const two = stdioServer({}, { env: { NAME: 'two' } })
const otherTwo = stdioServer({ pageSize: 5 }, { env: { NAME: 'two' } })
const modern = { revision: '2026-07-28' } as const

describe.skipIf(!hasProcessTree)('a configuration change during fifty calls', () => {
  test('drops none of them, keeps what did not change and replaces what did', async () => {
    const gateway = await gatewayProcessTo({ one, two })
    const first = await clientOf({ url: `${gateway.url}/one` })
    const second = await clientOf({ url: `${gateway.url}/two` })
    const third = await clientOf({ url: `${gateway.url}/two` }, modern)
    const before = pids(gateway)
    const calls = [first, second, third].map((client, of) => begin(client, of === 0 ? 20 : 15))
    await Promise.all(calls.map(({ begun }) => begun))
    gateway.configure({ upstreams: { one, two: otherTwo } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    // Calls after the change go to the new one, while the old one finishes its work.
    const { result } = await third.request('tools/list')
    expect(result).toMatchObject({ nextCursor: expect.any(String) })
    expect(pids(gateway)).toHaveLength(3)
    for (const { replies } of calls)
      expect((await replies).map(textOf)).toEqual((await replies).map(() => 'took 5 steps'))
    await until(() => pids(gateway).length === 2, 'the replaced server to end')
    expect(pids(gateway).filter((pid) => before.includes(pid))).toHaveLength(1)
    expect(textOf(await first.request('tools/call', { name: 'echo' }))).toBe('{}')
    expect(textOf(await second.request('tools/call', { name: 'echo' }))).toBe('{}')
    expect([first, second, third].flatMap(({ violations }) => violations)).toEqual([])
  })

  test('lets the calls of a removed server end, and then does not serve it any more', async () => {
    const gateway = await gatewayProcessTo({ one, two })
    const old = await clientOf({ url: `${gateway.url}/two` })
    const recent = await clientOf({ url: `${gateway.url}/two` }, modern)
    const calls = [begin(old, 5), begin(recent, 5)]
    await Promise.all(calls.map(({ begun }) => begun))
    gateway.configure({ upstreams: { one } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    for (const client of [old, recent]) {
      const { status, error } = await client.request('tools/list')
      expect([status, error?.['code']]).toEqual([404, -32601])
    }
    for (const { replies } of calls)
      expect((await replies).map(textOf)).toEqual(Array(5).fill('took 5 steps'))
    await until(() => pids(gateway).length === 1, 'the removed server to end')
  })

  test('keeps a suspended call', async () => {
    const gateway = await gatewayProcessTo({ one, two })
    const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }
    const client = await clientOf({ url: `${gateway.url}/one` }, { ...modern, answers, auto: false })
    const asked = await client.request('tools/call', { name: 'ask_form', arguments: {} })
    gateway.configure({ upstreams: { one, two: otherTwo } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    const { requestState, inputRequests } = asked.result ?? {}
    const [key = ''] = Object.keys(inputRequests ?? {})
    const inputResponses = { [key]: answers['elicitation/create']() }
    const reply = await client.request('tools/call', {
      name: 'ask_form',
      arguments: {},
      inputResponses,
      requestState,
    })
    expect(textOf(reply)).toContain('Ada')
  })
})

test('a keyed call is recorded in the store it began in, even if another store replaces it', async () => {
  const [former, latter] = [join(folder(), 'store'), join(folder(), 'store')]
  const gateway = await gatewayProcessTo({ one }, { config: { store: former } })
  const client = await clientOf({ url: `${gateway.url}/one` }, modern)
  const progressed = Promise.withResolvers<void>()
  const params = {
    name: 'slow',
    // Longer than replaced features wait for their in-flight calls.
    arguments: { ms: 5000, steps: 10 },
    _meta: { 'dev.gatehouse/idempotency_key': 'once' },
  }
  const begun = client.request('tools/call', params, { onProgress: () => progressed.resolve() })
  await progressed.promise
  gateway.configure({ upstreams: { one }, store: latter })
  await gateway.logged(({ event }) => event === 'config.reloaded')
  expect(textOf(await begun)).toBe('took 10 steps')
  gateway.configure({ upstreams: { one }, store: former })
  const reloads = () => gateway.log().filter(({ event }) => event === 'config.reloaded').length
  await until(() => reloads() === 2, 'the change back')
  const { result } = await client.request('tools/call', params)
  expect(result?.['_meta']).toMatchObject({ 'dev.gatehouse/idempotency': { was_replay: true } })
})

describe('clients that listen while the configuration changes', () => {
  test.each(['', '/two'])('are notified that lists may have changed, at /mcp%s', async (path) => {
    const gateway = await gatewayProcessTo({ one, two })
    const old = await clientOf({ url: `${gateway.url}${path}` })
    gateway.configure({ upstreams: { one, two: otherTwo } })
    await old.until(({ method }) => method === 'notifications/tools/list_changed')
    // They continue to receive change notifications.
    const told = old.notes.length
    const name = path === '' ? 'two_change' : 'change'
    await old.request('tools/call', { name, arguments: { what: ['tools'] } })
    await until(() => old.notes.length > told, 'the change')
    expect(old.violations).toEqual([])
  })

  test('of 2026-07-28 have their subscription ended with a result, so that they listen again', async () => {
    const gateway = await gatewayProcessTo({ one, two })
    const client = await clientOf({ url: `${gateway.url}/two` }, modern)
    const kept = await clientOf({ url: `${gateway.url}/one` }, modern)
    const [ending, staying] = [client, kept].map((each) => each.listen({ toolsListChanged: true }))
    await Promise.all([ending?.acknowledged, staying?.acknowledged])
    gateway.configure({ upstreams: { one, two: otherTwo } })
    expect((await ending?.ended)?.result).toMatchObject({ resultType: 'complete' })
    await kept.request('tools/call', { name: 'change', arguments: { what: ['tools'] } })
    await staying?.until(({ method }) => method === 'notifications/tools/list_changed')
    expect([...client.violations, ...kept.violations]).toEqual([])
  })
})

describe('a file with mistakes', () => {
  test('about the store changes nothing: keyed calls continue', async () => {
    const gateway = await gatewayProcessTo({ one })
    const client = await clientOf(gateway)
    gateway.configure({ upstreams: { one: two }, store: '/proc/none/store' })
    const rejected = await gateway.logged(({ event }) => event === 'config.rejected')
    expect(String(rejected['reason'])).toMatch(/^store: /)
    const _meta = { 'dev.gatehouse/idempotency_key': 'goes-on' }
    const reply = await client.request('tools/call', { name: 'echo', arguments: {}, _meta })
    expect(reply.result).not.toHaveProperty('isError', true)
    expect((await fetch(`${gateway.origin}/ready`)).status).toBe(200)
  })

  test.each([
    ['invalid YAML', 'upstreams: [', 1],
    ['an unknown key', 'upstreams:\n  one: echo\nlisten:\n  prot: 1\n', 4],
    ['no servers', 'version: 1\n', 1],
  ])('(%s) changes nothing, and the log names the line', async (_what, text, line) => {
    const gateway = await gatewayProcessTo({ one })
    const client = await clientOf(gateway)
    gateway.configure(text)
    const rejected = await gateway.logged(({ event }) => event === 'config.rejected')
    expect(rejected['level']).toBe('error')
    expect(String(rejected['reason'])).toMatch(new RegExp(`gateway\\.config\\.yaml:${line}:\\d+ `))
    expect(textOf(await client.request('tools/call', { name: 'echo' }))).toBe('{}')
    gateway.configure({ upstreams: { one, two } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    expect(
      textOf(await (await clientOf({ url: `${gateway.url}/two` })).request('tools/call', { name: 'echo' })),
    ).toBe('{}')
  })
})

describe('a file that is replaced rather than written', () => {
  test('is read again if a link to its folder points elsewhere', async () => {
    const root = folder()
    const put = (name: string, upstreams: unknown): void => {
      mkdirSync(join(root, name))
      writeFileSync(join(root, name, 'gateway.config.yaml'), JSON.stringify({ upstreams }))
    }
    put('..first', { one })
    put('..second', { one, two })
    symlinkSync('..first', join(root, '..data'))
    symlinkSync(join('..data', 'gateway.config.yaml'), join(root, 'gateway.config.yaml'))
    const gateway = await served(join(root, 'gateway.config.yaml'))
    expect(await statusOf(`${gateway.origin}/mcp/two`)).toBe(404)
    symlinkSync('..second', join(root, '..swap'))
    renameSync(join(root, '..swap'), join(root, '..data'))
    await until(async () => (await statusOf(`${gateway.origin}/mcp/two`)) !== 404, 'the second server')
  })

  test('is read again if another file takes its name', async () => {
    const gateway = await gatewayProcessTo({ one })
    const next = `${gateway.configFile}.next`
    copyFileSync(gateway.configFile, next)
    writeFileSync(next, readFileSync(next, 'utf8').replace('"one"', '"two"'))
    renameSync(next, gateway.configFile)
    await until(async () => (await statusOf(`${gateway.url}/two`)) !== 404, 'the second server')
    const client = await clientOf({ url: `${gateway.url}/one` }, { ...modern, handshake: false })
    const reply = await client.request('tools/list')
    expect([reply.status, codeOf(reply)]).toEqual([404, 'UNSUPPORTED_OPERATION'])
  })
})

/** Starts calls and resolves when each has sent progress. */
function begin(client: FakeClient, count: number) {
  const begun: Promise<void>[] = []
  const replies = Array.from({ length: count }, () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    begun.push(promise)
    return client.request(
      'tools/call',
      { name: 'slow', arguments: { ms: 4000, steps: 5 } },
      { onProgress: () => resolve() },
    )
  })
  return { begun: Promise.all(begun), replies: Promise.all(replies) }
}

function pids(gateway: GatewayProcess): number[] {
  return childrenRunning(gateway.pid, 'fake-server')
}

async function served(file: string): Promise<{ readonly origin: string }> {
  const command = startCommandProcess(['serve', '--config', file, '--port', '0'])
  onTestFinished(() => command.close())
  const url = await until(() => /^Gatehouse serves (\S+)$/m.exec(command.stdout())?.[1], 'the address')
  return { origin: new URL(url).origin }
}

async function statusOf(url: string): Promise<number> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{}',
  })
  await response.body?.cancel()
  return response.status
}

describe('a configuration change that cannot be applied', () => {
  test('is logged: another address, an empty file and a missing file', async () => {
    const gateway = await gatewayProcessTo({ one })
    gateway.configure({ upstreams: { one }, listen: { host: 'localhost' } })
    const other = await gateway.logged(({ event }) => event === 'config.not_applied')
    expect(other).toMatchObject({
      key: 'listen.host',
      value: 'localhost',
      reason: expect.stringContaining('restart it'),
    })
    const file = String(other['file'])
    const reasons = [
      ['empty', () => writeFileSync(file, '')],
      ['no longer exists', () => rmSync(file)],
    ] as const
    for (const [word, change] of reasons) {
      change()
      const told = await gateway.logged(
        ({ event, reason }) => event === 'config.not_applied' && String(reason).includes(word),
      )
      expect(told['reason']).toContain('keeps its previous settings')
    }
    const client = await clientOf(gateway, modern)
    expect((await client.request('tools/list')).result).toBeDefined()
  })
})
