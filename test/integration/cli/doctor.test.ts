import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { folder, stdioServer } from '../../support/journey.ts'
import type { Json } from '../../support/server/json.ts'

interface Step {
  readonly step: string
  readonly state: string
  readonly note: string
  readonly fix?: string
}

/** What the doctor finds of one server. */
async function examined(server: Json, env: Readonly<Record<string, string>> = {}) {
  const file = join(folder(), 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify({ upstreams: { one: server } }))
  const { code, stdout, stderr } = await runCommand(['doctor', 'one', '--json', '--config', file], { env })
  expect(stderr).toBe('')
  const { ok, servers } = JSON.parse(stdout) as { ok: boolean; servers: { steps: Step[] }[] }
  const steps = servers.flatMap((each) => each.steps)
  expect({ ok, code }).toEqual({ ok: !steps.some(({ state }) => state === 'failed'), code: ok ? 0 : 1 })
  const failed = steps.find(({ state }) => state === 'failed')
  return { steps, states: Object.fromEntries(steps.map(({ step, state }) => [step, state])), failed }
}

/** The URL of a server that answers each request so. */
async function answering(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`
}

describe('gatehouse doctor', () => {
  test('goes through all steps of a server that works', async () => {
    const { states } = await examined(stdioServer())
    expect(states).toEqual({
      command: 'ok',
      version: 'ok',
      'first list': 'ok',
      'one read': expect.stringMatching(/ok|skipped/),
    })
  })

  test('names a program that is missing, and a folder', async () => {
    const { failed, states } = await examined({ command: 'no-such-program --now' })
    expect(failed).toMatchObject({
      step: 'command',
      note: expect.stringContaining('no-such-program is not in the PATH'),
    })
    expect(states).toMatchObject({ version: 'skipped', 'one read': 'skipped' })
  })

  test('repeats what a process wrote before it ended', async () => {
    const { failed } = await examined({
      command: 'node',
      args: ['-e', 'console.error("the key is missing");process.exit(3)'],
    })
    expect(failed).toMatchObject({
      step: 'version',
      note: expect.stringMatching(/code 3.*the key is missing/),
    })
  })

  test('gives up on a server that never answers', async () => {
    const { failed } = await examined({
      command: 'node',
      args: ['-e', 'setInterval(() => {}, 1000)'],
      start_timeout: '500ms',
    })
    expect(failed).toMatchObject({ step: 'version', fix: 'run its command in a terminal' })
  })

  test.each([
    ['http://no.such.host.invalid/mcp', 'name', /no\.such\.host\.invalid has no address/],
    ['http://127.0.0.1:9/mcp', 'tcp', /ECONNREFUSED/],
  ])('of %s fails at %s', async (url, step, note) => {
    expect((await examined({ url })).failed).toMatchObject({
      step,
      note: expect.stringMatching(note),
      fix: expect.any(String),
    })
  })

  test('tells a server without TLS at a URL that is https', async () => {
    const url = await answering((_request, response) => response.end('hello'))
    const { failed } = await examined({ url: url.replace('http:', 'https:') })
    expect(failed).toMatchObject({ step: 'tls', fix: 'check that the port is one for https' })
  })

  test('names the authorization servers, and a token that is missing or refused, without printing it', async () => {
    const url = await answering((request, response) => {
      if (request.url?.startsWith('/.well-known/oauth-protected-resource') === true)
        return response
          .setHeader('content-type', 'application/json')
          .end('{"authorization_servers":["https://idp.example.com"]}')
      return response.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end()
    })
    const missing = await examined({ url })
    expect(missing.steps).toContainEqual(
      expect.objectContaining({
        step: 'well-known',
        note: expect.stringContaining('https://idp.example.com'),
      }),
    )
    expect(missing.failed).toMatchObject({ step: 'auth', fix: 'set `token`, `headers` or `oauth`' })
    const refused = await examined({ url, token: '${TOKEN}' }, { TOKEN: 'very-secret-token-of-mine' })
    expect(refused.failed).toMatchObject({
      step: 'auth',
      note: expect.stringContaining('refuses authorization'),
    })
    expect(JSON.stringify(refused.steps)).not.toContain('very-secret')
  })

  test('tells a page that is no MCP server', async () => {
    const url = await answering((_request, response) =>
      response.setHeader('content-type', 'text/html').end('<h1>hi</h1>'),
    )
    expect((await examined({ url })).failed).toMatchObject({
      step: 'version',
      fix: 'check that the URL is the address of MCP',
    })
  })

  test('prints the steps of all servers as text', async () => {
    const file = join(folder(), 'gateway.config.yaml')
    writeFileSync(file, JSON.stringify({ upstreams: { a: 'no-such-program', b: 'http://127.0.0.1:9/mcp' } }))
    const { code, stdout } = await runCommand(['doctor', '--config', file])
    expect(code).toBe(1)
    expect(stdout).toMatch(/^a\n  FAILED +command .*\n +-> install no-such-program/)
    expect(stdout).toMatch(/\nb\n  ok +name +127\.0\.0\.1/)
  })
})
