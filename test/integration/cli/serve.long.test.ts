import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { textOf } from '../../support/client/options.ts'
import { post } from '../../support/client/raw.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type Command, runCommand, startCommand } from '../../support/gateway.ts'
import { clientOf, folder, httpServer, stdioServer } from '../../support/journey.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import type { Json } from '../../support/server/json.ts'

const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
const line = [command, ...args]

function config(value: Json): string {
  const at = folder()
  writeFileSync(join(at, 'gateway.config.yaml'), JSON.stringify(value))
  return at
}

function start(words: readonly string[], cwd = folder()): Command {
  const process = startCommand(words, { cwd })
  onTestFinished(() => process.close())
  return process
}

function address(process: Command): Promise<string> {
  return until(() => /^Gatehouse serves (\S+)$/m.exec(process.stdout())?.[1], 'the address')
}

describe('gatehouse serve', () => {
  test('prints its URL, each server, and a snippet for clients', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer(), other: stdioServer() } })
    const process = start(['serve'], cwd)
    const url = await address(process)
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/)
    await until(() => process.stdout().includes('\n}\n'), 'the rest')
    expect(process.stdout()).toContain(`\n  one    ${url}/one\n  other  ${url}/other\n`)
    const snippet: unknown = JSON.parse(process.stdout().slice(process.stdout().indexOf('{')))
    expect(snippet).toEqual({ mcpServers: { gatehouse: { type: 'http', url } } })
    const client = await clientOf({ url })
    expect((await client.request('tools/list')).result).toBeDefined()
  })

  test('prints the page URL, a client command, and the servers that are down', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer(), gone: '/nowhere/at-all' } })
    const process = start(['serve'], cwd)
    const url = await address(process)
    await until(() => process.stdout().includes('Unavailable: 1 of 2 servers'), 'the servers that are down')
    const text = process.stdout()
    expect(text).toContain(`Web page: ${url.replace(/mcp$/, '')}\n`)
    expect(text).toContain(`In Claude Code: claude mcp add --transport http gatehouse ${url}\n`)
    expect(text).toMatch(
      /^ {2}gone {2}the command "\/nowhere\/at-all" could not be started: the program does not exist/m,
    )
  })

  test('serves the page for people to a browser at the endpoint', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer() } })
    const url = await address(start(['serve'], cwd))
    for (const at of [url, `${url}/`, `${url}/one`]) {
      const page = await fetch(at, { headers: { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' } })
      expect([page.status, page.url]).toEqual([200, url.replace(/mcp$/, '')])
      expect(page.headers.get('content-type')).toContain('text/html')
    }
    for (const accept of ['text/event-stream', 'text/event-stream, text/html', '*/*'])
      expect((await fetch(url, { headers: { accept } })).status).toBe(405)
  })

  test('reports liveness and readiness to gatehouse health', async () => {
    const cwd = config({
      listen: { port: 0 },
      upstreams: { one: stdioServer({}, { env: { X: '${UNSET_NAME}' } }) },
    })
    expect((await runCommand(['health', 'http://127.0.0.1:9'], { cwd })).code).toBe(1)
    expect((await runCommand(['health', 'nowhere'], { cwd })).code).toBe(2)
    const process = startCommand(['serve'], { cwd, env: { UNSET_NAME: 'x' } })
    onTestFinished(() => process.close())
    const { origin, port } = new URL(await address(process))
    // The file needs a variable that this command does not have.
    const asked = await runCommand(['health', '--port', port], { cwd })
    expect(asked).toMatchObject({ code: 0, stdout: `${origin}/health: ok\n`, stderr: '' })
    await until(
      async () => (await runCommand(['health', `${origin}/mcp`, '--ready'], { cwd })).code === 0,
      'the gateway to be ready',
    )
  })

  test('is the default command of gatehouse', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer() } })
    const client = await clientOf({ url: await address(start([], cwd)) })
    expect(textOf(await client.request('tools/call', { name: 'echo' }))).toBe('{}')
  })

  test('continues when nothing reads its output any more', async () => {
    const [program = '', ...first] = gatewayProgram()
    const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
    const gateway = spawn(program, [...first, 'serve', '--port', '0', '--', command, ...args])
    onTestFinished(() => void gateway.kill())
    gateway.stdout.destroy()
    let log = ''
    gateway.stderr.on('data', (chunk: Buffer) => void (log += chunk.toString()))
    await until(() => log.includes('upstream.ready') || gateway.exitCode !== null, 'the server')
    expect([gateway.exitCode, log]).toEqual([null, expect.not.stringContaining('EPIPE')])
  })

  test('serves a command', async () => {
    const client = await clientOf({ url: await address(start(['serve', '--port', '0', '--', ...line])) })
    expect(textOf(await client.request('tools/call', { name: 'echo' }))).toBe('{}')
  })

  test('serves a URL, with or without the word serve', async () => {
    const server = await httpServer()
    for (const words of [
      ['serve', server.url, '--port', '0'],
      [server.url, '--port', '0'],
    ]) {
      const client = await clientOf({ url: await address(start(words)) })
      expect(textOf(await client.request('tools/call', { name: 'echo' }))).toBe('{}')
    }
  })

  test('prefers address and port of the command line to those of the file', async () => {
    const cwd = config({ listen: { port: 1, host: '127.0.0.2' }, upstreams: { one: stdioServer() } })
    expect(await address(start(['serve', '--host', '127.0.0.1', '-p', '0'], cwd))).toMatch(
      /^http:\/\/127\.0\.0\.1:/,
    )
  })

  test('logs only to stderr, as JSON lines without a terminal, from the requested level', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer(), bad: '/nowhere/at-all' } })
    const loud = start(['serve'], cwd)
    await until(
      () => loud.stderr().includes('upstream.unavailable') && loud.stderr().includes('upstream.ready'),
      'the log',
    )
    for (const text of loud.stderr().trim().split('\n'))
      expect(JSON.parse(text)).toMatchObject({ level: expect.any(String) })
    expect(loud.stdout()).not.toContain('"level"')
    const quiet = start(['serve', '--log-level', 'warn'], cwd)
    await until(() => quiet.stderr().includes('upstream.unavailable'), 'the log')
    quiet.stop()
    expect((await quiet.ended).stderr).not.toContain('"level":"info"')
  })

  test('puts each request id into the response and the log line of its call', async () => {
    const process = start(['serve'], config({ listen: { port: 0 }, upstreams: { one: stdioServer() } }))
    const url = await address(process)
    const session = await openSession(url, '2025-11-25')
    const call = toolCall(1, 'echo', { n: 1 })
    const made = await session.post(call)
    const given = await post(url, JSON.stringify(call), { ...session.headers, 'x-request-id': 'mine-7' })
    expect(given.headers['x-request-id']).toBe('mine-7')
    for (const id of ['mine-7', made.headers['x-request-id']]) {
      const logged = await until(
        () =>
          process
            .stderr()
            .split('\n')
            .find((each) => each.includes(`"request_id":"${id}"`)),
        'the line of the call',
      )
      expect(JSON.parse(logged)).toMatchObject({
        event: 'call',
        method: 'tools/call',
        name: 'echo',
        outcome: 'ok',
      })
    }
  })

  test('exits with 1 if its port is in use, even while it waits for a store', async () => {
    const port = await taken()
    // No server listens there: the gateway would try to connect repeatedly.
    const config = { store: 'redis://127.0.0.1:1', upstreams: { one: { command: line } } }
    const path = join(folder(), 'gateway.config.yaml')
    writeFileSync(path, JSON.stringify(config))
    const { code } = await runCommand(['serve', '--port', `${port}`, '--config', path])
    expect(code).toBe(1)
  })

  test('reports that its port is in use, and exits with 1', async () => {
    const port = await taken()
    const { code, stdout, stderr } = await runCommand(['serve', '--port', `${port}`, '--', ...line])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toBe(
      `gatehouse: 127.0.0.1:${port} is in use by another program. Choose another port with --port.\n`,
    )
  })

  test('reports an address that is not local, and exits with 1', async () => {
    const cwd = config({ auth: 'none', listen: { port: 0, host: '192.0.2.1' }, upstreams: { one: 'echo' } })
    const { code, stderr } = await runCommand(['serve'], { cwd })
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining('192.0.2.1 is not an address of this machine'),
    ])
  })

  test('refuses to listen on a non-loopback address without authentication settings', async () => {
    const { code, stdout, stderr } = await runCommand([
      'serve',
      '--host',
      '0.0.0.0',
      '--port',
      '0',
      '--',
      ...line,
    ])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toContain('everyone who can reach this address')
  })

  test('prints an address that can be opened if it listens on all interfaces', async () => {
    const listen = { host: '0.0.0.0', port: 0 }
    const cwd = config({ auth: 'none', listen, upstreams: { one: stdioServer() } })
    const url = await address(start(['serve'], cwd))
    expect(new URL(url).hostname).toBe('localhost')
    expect((await fetch(new URL('/health', url))).status).toBe(200)
  })

  test('starts while a server is unreachable, and reports it at /ready', async () => {
    const cwd = config({ listen: { port: 0 }, upstreams: { one: stdioServer(), bad: '/nowhere/at-all' } })
    const url = await address(start(['serve'], cwd))
    const ready = await until(async () => {
      const response = await fetch(new URL('/ready', url))
      const body = (await response.json()) as { checks: { upstreams: Json } }
      return response.status === 200 && body
    }, 'it to be ready')
    expect(ready.checks.upstreams).toEqual({ one: 'ok', bad: 'failing' })
    expect((await fetch(new URL('/health', url))).status).toBe(200)
  })
})

describe('gatehouse stdio', () => {
  test.each(['2025-11-25', '2026-07-28'] as const)(
    'is a stdio server in front of the configured servers, at %s',
    async (revision) => {
      const cwd = config({ upstreams: { one: stdioServer(), two: stdioServer() } })
      const [program = '', ...first] = gatewayProgram()
      const client = await clientOf(
        { url: '' },
        { transport: 'stdio', revision, command: program, args: [...first, 'stdio'], cwd },
      )
      expect(textOf(await client.request('tools/call', { name: 'two_echo' }))).toBe('{}')
      expect(client.violations).toEqual([])
    },
  )

  test('accepts a command', async () => {
    const [program = '', ...first] = gatewayProgram()
    const words = [...first, 'stdio', '--', ...line]
    const client = await clientOf({ url: '' }, { transport: 'stdio', command: program, args: words })
    expect(textOf(await client.request('tools/call', { name: 'echo' }))).toBe('{}')
    expect(client.violations).toEqual([])
  })

  test('exits with 0 at the end of its input', async () => {
    expect(await runCommand(['stdio', '--', ...line])).toMatchObject({ code: 0, stdout: '' })
  })
})

async function taken(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => new Promise((resolve) => server.close(() => resolve())))
  const at = server.address()
  return typeof at === 'object' && at ? at.port : 0
}
