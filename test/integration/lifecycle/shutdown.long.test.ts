import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { textOf } from '../../support/client/options.ts'
import {
  clientOf,
  codeOf,
  gatewayProcessTo,
  httpServer,
  shellServer,
  stdioServer,
} from '../../support/journey.ts'
import { startCommandProcess } from '../../support/gateway-process.ts'
import { descendants, hasProcessTree, isRunning } from '../../support/process-tree.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'

describe('a gateway that is stopped', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'by %s lets in-flight calls end, and exits with 0',
    async (signal) => {
      const gateway = await gatewayProcessTo({ one: stdioServer() })
      const old = await clientOf(gateway)
      const modern = await clientOf(gateway, { revision: '2026-07-28' })
      const calls = [old, modern].map((client) => {
        const begun = Promise.withResolvers<void>()
        const call = { name: 'slow', arguments: { ms: 1500, steps: 5 } }
        const reply = client.request('tools/call', call, { onProgress: () => begun.resolve() })
        return { begun: begun.promise, reply }
      })
      await Promise.all(calls.map(({ begun }) => begun))
      gateway.signal(signal)
      for (const { reply } of calls) expect(textOf(await reply)).toBe('took 5 steps')
      expect(await gateway.ended).toMatchObject({ code: 0, signal: null })
      expect([...old.violations, ...modern.violations]).toEqual([])
    },
  )

  test('ends subscriptions with a result', async () => {
    const server = await httpServer({ revision: '2026-07-28' })
    const gateway = await gatewayProcessTo({ one: stdioServer(), two: { url: server.url } })
    const all = await clientOf(gateway, { revision: '2026-07-28' })
    const each = await Promise.all(
      ['one', 'two'].map((name) => clientOf({ url: `${gateway.url}/${name}` }, { revision: '2026-07-28' })),
    )
    const listening = [all, ...each].map((client) => client.listen({ toolsListChanged: true }))
    await Promise.all(listening.map(({ acknowledged }) => acknowledged))
    gateway.signal('SIGTERM')
    for (const { ended } of listening) expect((await ended).result).toMatchObject({ resultType: 'complete' })
    expect((await gateway.ended).code).toBe(0)
    expect([all, ...each].flatMap(({ violations }) => violations)).toEqual([])
  })

  test('reports that it is not ready, and accepts no new connections', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const client = await clientOf(gateway)
    const begun = Promise.withResolvers<void>()
    const call = { name: 'slow', arguments: { ms: 1500, steps: 5 } }
    const reply = client.request('tools/call', call, { onProgress: () => begun.resolve() })
    await begun.promise
    gateway.signal('SIGTERM')
    await until(
      () =>
        fetch(`${gateway.origin}/health`).then(
          () => false,
          () => true,
        ),
      'new connections to be refused',
    )
    expect(textOf(await reply)).toBe('took 5 steps')
  })

  test('twice exits at once', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const client = await clientOf(gateway)
    const { reply } = client.start('tools/call', { name: 'hang' })
    const failed = reply.then(() => undefined, String)
    await client.request('tools/call', { name: 'echo' })
    gateway.signal('SIGTERM')
    await gateway.logged(({ event }) => event === 'stopping')
    gateway.signal('SIGTERM')
    // At the end of the grace period it would exit with 0.
    expect((await gateway.ended).code).toBe(1)
    expect(await failed).toMatch(/aborted|hang up|reset|closed|ended/)
  })

  test('while a server hangs exits after a grace period', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer() })
    const client = await clientOf(gateway)
    const { reply } = client.start('tools/call', { name: 'hang' })
    const failed = reply.then(
      (answer) => answer.error ?? codeOf(answer),
      (error: unknown) => error,
    )
    await client.request('tools/call', { name: 'echo' })
    gateway.signal('SIGTERM')
    expect((await gateway.ended).code).toBe(0)
    expect(await failed).toBeDefined()
    expect(await failed).toBe('OUTCOME_UNKNOWN')
  })

  test.each([
    ['a command', { command: 'sleep 600' }],
    ['a command of a known revision', { command: 'sleep 600', revision: '2025-11-25' }],
    ['a URL', {}],
    ['an event stream', { transport: 'sse' }],
  ])('does not wait for %s that is unresponsive', async (_what, settings) => {
    const silent = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void silent.close())
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const met = 'command' in settings ? undefined : once(silent, 'connection')
    // It would be given longer to start than this test may take.
    const one = { url: met && `http://127.0.0.1:${port}/`, start_timeout: '10m', ...settings }
    const gateway = await gatewayProcessTo({ one }, { warm: false })
    await (met ?? until(() => descendants(gateway.pid).length > 0, 'the server to be started'))
    gateway.signal('SIGTERM')
    expect((await gateway.ended).code).toBe(0)
  })
})

describe('a gateway that is stopped after its file changed', () => {
  test('while a call hangs at a removed server, answers the call', async () => {
    const gateway = await gatewayProcessTo({ one: stdioServer(), two: stdioServer() })
    const client = await clientOf({ url: `${gateway.url}/two` }, { revision: '2026-07-28' })
    const { reply } = client.start('tools/call', { name: 'hang' })
    await client.request('tools/call', { name: 'echo' })
    gateway.configure({ upstreams: { one: stdioServer() } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    gateway.signal('SIGTERM')
    expect(codeOf(await reply)).toBe('OUTCOME_UNKNOWN')
    expect((await gateway.ended).code).toBe(0)
  })

  test.skipIf(!hasProcessTree)('leaves no process of servers that were just added', async () => {
    const one = stdioServer()
    const gateway = await gatewayProcessTo({ one })
    gateway.configure({ upstreams: { one, two: stdioServer({ stubborn: true }) } })
    await gateway.logged(({ event }) => event === 'config.reloaded')
    await until(() => descendants(gateway.pid).length > 1, 'the other server to be started')
    const started = descendants(gateway.pid)
    gateway.signal('SIGTERM')
    expect((await gateway.ended).code).toBe(0)
    expect(started.filter(isRunning)).toEqual([])
  })

  test('while its new store is still being opened, does not switch to it', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void silent.close())
    await once(silent, 'listening')
    const { port } = silent.address() as AddressInfo
    const one = stdioServer()
    const gateway = await gatewayProcessTo({ one })
    const asked = once(silent, 'connection')
    gateway.configure({ upstreams: { one, two: stdioServer() }, store: `redis://127.0.0.1:${port}` })
    await asked
    gateway.signal('SIGTERM')
    expect((await gateway.ended).code).toBe(0)
    expect(gateway.log()).toContainEqual(expect.objectContaining({ event: 'config.rejected' }))
    expect(gateway.log()).not.toContainEqual(
      expect.objectContaining({ event: 'upstream.ready', upstream: 'two' }),
    )
  })
})

describe.skipIf(!hasProcessTree)('no child process of a gateway is left', () => {
  test('after SIGTERM, including grandchildren and servers that ignore the signal', async () => {
    const gateway = await gatewayProcessTo({
      one: shellServer('sleep 600 &'),
      two: stdioServer({ stubborn: true }),
    })
    const started = descendants(gateway.pid)
    expect(started.length).toBeGreaterThanOrEqual(3)
    gateway.signal('SIGTERM')
    expect((await gateway.ended).code).toBe(0)
    expect(started.filter(isRunning)).toEqual([])
  })

  test('after a second signal', async () => {
    const gateway = await gatewayProcessTo({
      one: shellServer('sleep 600 &'),
      two: stdioServer({ stubborn: true }),
    })
    const started = descendants(gateway.pid)
    gateway.signal('SIGTERM')
    await gateway.logged(({ event }) => event === 'stopping')
    gateway.signal('SIGTERM')
    await gateway.ended
    await until(() => !started.some(isRunning), 'all to be gone')
  })

  test('after SIGKILL, of servers that end with their input', async () => {
    const gateway = await gatewayProcessTo({
      one: stdioServer(),
      two: stdioServer({ revision: '2026-07-28' }),
    })
    const started = descendants(gateway.pid)
    expect(started).toHaveLength(2)
    gateway.signal('SIGKILL')
    await gateway.ended
    await until(() => !started.some(isRunning), 'all to be gone')
  })

  test('after the client of a stdio gateway closes its side', async () => {
    const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
    const gateway = startCommandProcess(['stdio', '--', command, ...args])
    onTestFinished(() => gateway.close())
    await until(() => descendants(gateway.pid).length > 0, 'the server to be started')
    const started = descendants(gateway.pid)
    gateway.stdin.end()
    expect((await gateway.ended).code).toBe(0)
    expect(started.filter(isRunning)).toEqual([])
  })

  test.each(['SIGTERM', 'SIGHUP'] as const)(
    'after %s to a stdio gateway whose servers have not started yet',
    async (signal) => {
      const gateway = startCommandProcess(['stdio', '--', 'sh', '-c', 'trap "" TERM; sleep 600 & sleep 600'])
      onTestFinished(() => gateway.close())
      await until(() => descendants(gateway.pid).length >= 3, 'the server to be started')
      const started = descendants(gateway.pid)
      gateway.signal(signal)
      expect(await gateway.ended).toMatchObject({ code: 0, signal: null })
      await until(() => !started.some(isRunning), 'all to be gone')
    },
  )
})
