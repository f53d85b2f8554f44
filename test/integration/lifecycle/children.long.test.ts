import { describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import type { GatewayProcess } from '../../support/gateway-process.ts'
import { clientOf, codeOf, gatewayProcessTo, shellServer, stdioServer } from '../../support/journey.ts'
import { objectAt } from '../../support/server/json.ts'
import { childrenRunning, descendants, hasProcessTree, isRunning } from '../../support/process-tree.ts'

const changed = 'notifications/tools/list_changed'

describe.skipIf(!hasProcessTree)('a child process that is killed', () => {
  test.each(['2025-11-25', '2026-07-28'] as const)(
    'fails its in-flight calls at once, at %s',
    async (revision) => {
      // They would be given up much later than this test waits for them.
      const config = { limits: { timeout: '10m', max_timeout: '10m' } }
      const gateway = await gatewayProcessTo({ one: stdioServer({ revision }) }, { config })
      const client = await clientOf(gateway, { revision })
      const calls = Array.from({ length: 10 }, () => client.request('tools/call', { name: 'hang' }))
      await client.request('tools/call', { name: 'echo' })
      process.kill(only(gateway), 'SIGKILL')
      for (const reply of await Promise.all(calls)) {
        expect(codeOf(reply)).toBe('OUTCOME_UNKNOWN')
        expect(reply.result).toMatchObject({
          isError: true,
          error: { suggestion: expect.any(String), category: 'permanent' },
        })
      }
      expect(client.violations).toEqual([])
    },
  )

  test('is restarted by the next call', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const client = await clientOf(gateway)
    const before = only(gateway)
    process.kill(before, 'SIGKILL')
    await until(() => !isRunning(before), 'the child to end')
    // A call in flight when the child ended is not repeated.
    await until(async () => textOf(await echo(client)) === '{}', 'an answer')
    expect(only(gateway)).not.toBe(before)
  })

  test('is resubscribed for listening clients, which are notified that lists may have changed', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const old = await clientOf(gateway)
    const modern = await clientOf(gateway, { revision: '2026-07-28' })
    const listening = modern.listen({ toolsListChanged: true })
    await listening.acknowledged
    process.kill(only(gateway), 'SIGKILL')
    await old.until(({ method }) => method === changed)
    await listening.until(({ method }) => method === changed)
    const told = { old: old.notes.length, modern: listening.notes.length }
    await old.request('tools/call', { name: 'change', arguments: { what: ['tools'] } })
    await until(() => old.notes.length > told.old && listening.notes.length > told.modern, 'the change')
    expect([...old.violations, ...modern.violations]).toEqual([])
  })

  test('takes its own children with it', async () => {
    const gateway = await gatewayProcessTo({ one: shellServer('sleep 600 &') })
    const client = await clientOf(gateway)
    await client.request('tools/call', { name: 'echo' })
    const started = childrenRunning(only(gateway), 'sleep 600')
    expect(started).toHaveLength(1)
    await client.request('tools/call', { name: 'crash' })
    await until(() => started.every((pid) => !isRunning(pid)), 'the grandchild to end')
  })
})

describe('a child process that exits repeatedly', () => {
  test('is not restarted for a while after five exits within a minute', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const codes: unknown[] = []
    for (let call = 0; call < 8; call++)
      codes.push(codeOf(await client.request('tools/call', { name: 'crash' })))
    const crashed = codes.filter((code) => code === 'OUTCOME_UNKNOWN')
    expect(crashed).toHaveLength(5)
    const refused = await client.request('tools/call', { name: 'echo' })
    expect(codeOf(refused)).toBe('SERVER_UNAVAILABLE')
    expect(refused.error?.['data']).toMatchObject({
      category: 'transient',
      retry_after_seconds: expect.any(Number),
    })
    expect(objectAt(refused.error, 'data')['retryAfter']).toBeGreaterThan(1)
  })

  test('does not affect other servers', async () => {
    const gateway = await gatewayProcessTo({ bad: stdioServer(), good: stdioServer() })
    const bad = await clientOf({ url: `${gateway.url}/bad` }, { revision: '2026-07-28' })
    const good = await clientOf({ url: `${gateway.url}/good` })
    for (let call = 0; call < 7; call++) await bad.request('tools/call', { name: 'crash' })
    expect(textOf(await echo(good))).toBe('{}')
  })
})

describe('a command that does not serve MCP', () => {
  test.each([
    ['does not exist', { command: '/nowhere/at-all' }],
    ['exits at once', { command: ['sh', '-c', 'exit 3'] }],
    ['is silent', { command: ['sleep', '600'], start_timeout: '1s' }],
    [
      'prints invalid messages',
      { command: ['sh', '-c', 'while echo words; do sleep 0.01; done'], start_timeout: '1s' },
    ],
  ])('because it %s is reported with that reason, in time', async (_why, settings) => {
    const gateway = await gatewayProcessTo(
      { broken: { revision: '2025-11-25', ...settings } },
      { warm: false },
    )
    const client = await clientOf(gateway, { revision: '2026-07-28', handshake: false })
    const reply = await client.request('tools/list')
    expect(['SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN']).toContain(codeOf(reply))
    await until(() => descendants(gateway.pid).length === 0, 'nothing to be left of it')
  })
})

describe.skipIf(!hasProcessTree)('a child process', () => {
  test('has its stderr logged line by line', async () => {
    const gateway = await gatewayProcessTo({ one: shellServer('printf "first\\nsecond\\033[31m\\n" >&2') })
    await gateway.logged(
      ({ event, line, upstream }) => event === 'upstream.stderr' && line === 'first' && upstream === 'one',
    )
    await gateway.logged(({ line }) => typeof line === 'string' && line.startsWith('second'))
  })

  test('ends when it is idle, and starts again on the next use', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer({}, { idle: '1s' }) })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    await until(() => children(gateway).length === 0, 'the child to be reaped')
    expect(textOf(await echo(client))).toBe('{}')
    expect(children(gateway)).toHaveLength(1)
  })

  test('is kept while it works or a client listens', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer({}, { idle: '1s' }) })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const listening = client.listen({ toolsListChanged: true })
    await listening.acknowledged
    const pid = only(gateway)
    await client.request('tools/call', { name: 'slow', arguments: { ms: 2500, steps: 1 } })
    expect(children(gateway)).toEqual([pid])
    await listening.close()
    await until(() => children(gateway).length === 0, 'the child to be reaped')
  })

  test('gets only the environment variables that every program needs', async () => {
    const gateway = await gatewayProcessTo(
      { one: shellServer('env >&2', {}, { env: { GIVEN: 'given' } }) },
      { env: { SECRET_TOKEN: 'do not tell', LANG: 'C' } },
    )
    await gateway.logged(({ line }) => line === 'GIVEN=given')
    await gateway.logged(({ line }) => line === 'LANG=C')
    await gateway.logged(({ event }) => event === 'upstream.ready')
    expect(gateway.stderr()).not.toContain('do not tell')
  })
})

function echo(client: FakeClient) {
  return client.request('tools/call', { name: 'echo' })
}

function children(gateway: GatewayProcess): number[] {
  return childrenRunning(gateway.pid, 'fake-server')
}

function only(gateway: GatewayProcess): number {
  const [pid = 0, ...others] = children(gateway)
  expect([pid > 0, others]).toEqual([true, []])
  return pid
}

test('a child process that has not responded yet is not ready', async () => {
  const mute = shellServer('sleep 60')
  const gateway = await gatewayProcessTo({ one: stdioServer(), mute }, { warm: false })
  const state = async (): Promise<unknown> => {
    const ready = await fetch(`${gateway.origin}/ready`)
    return objectAt(Object(await ready.json()).checks, 'upstreams')
  }
  const seen = await until(async () => {
    const found = await state()
    return Object(found).one === 'ok' ? Object(found) : undefined
  }, 'the other server to be ready')
  expect(seen).toEqual({ one: 'ok', mute: 'starting' })
})
