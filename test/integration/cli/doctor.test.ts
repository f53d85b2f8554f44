import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { forwardProxy } from '../../support/forward-proxy.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder, stdioServer } from '../../support/journey.ts'
import { selfSigned } from '../../support/self-signed.ts'
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
      fix: expect.stringMatching(/answers with a web page: check that it is the address of MCP, or open/),
    })
  })

  test.each([
    [302, 'write the URL that it redirects to; or open the URL in a browser'],
    [503, 'what is in front of the server does not reach it (503): start the server'],
  ])('says what %i in place of an answer means', async (status, fix) => {
    const url = await answering((_request, response) =>
      response.writeHead(status, { location: 'https://login.example.com/in?secret=1' }).end(),
    )
    const { failed, steps } = await examined({ url })
    expect(failed).toMatchObject({ step: 'version', fix: expect.stringContaining(fix) })
    expect(JSON.stringify(steps)).not.toContain('secret')
  })

  describe('behind a proxy', () => {
    test.each([
      ['https', 407, 'tls', /requires a user and a password: write them into `proxy`/],
      ['https', 403, 'tls', /does not allow tools\.test: ask its administrator.*NO_PROXY/],
      ['https', 502, 'tls', /cannot reach tools\.test, whose name it looks up itself/],
      ['https', 504, 'tls', /cannot reach tools\.test/],
      ['https', 405, 'tls', /`proxy` is the address of a proxy that tunnels/],
      ['http', 407, 'auth', /requires a user and a password/],
      ['http', 502, 'version', /or the proxy http:\/\/127\.0\.0\.1:\d+ does not \(502\)/],
    ])('of an %s URL that answers %i it fails at %s', async (scheme, refusal, step, fix) => {
      const { url: proxy } = await forwardProxy(9, { refusal })
      const { failed } = await examined({ url: `${scheme}://tools.test/mcp`, proxy })
      expect(failed).toMatchObject({ step, fix: expect.stringMatching(fix) })
    })

    test('names the setting whose password is refused, without printing it', async () => {
      const { port } = await forwardProxy(9, { authorization: 'Basic other' })
      const HTTPS_PROXY = `http://me:very-secret@127.0.0.1:${port}`
      const { failed, steps } = await examined({ url: 'https://tools.test/mcp' }, { HTTPS_PROXY })
      expect(failed?.fix).toBe('the proxy refuses the user or the password that HTTPS_PROXY has')
      expect(JSON.stringify(steps)).not.toContain('very-secret')
    })

    test('says that the name of the proxy, or the proxy itself, is not there', async () => {
      const url = 'https://tools.test/mcp'
      const absent = await examined({ url, proxy: 'http://no.such.proxy.invalid:3128' })
      expect(absent.failed).toMatchObject({ step: 'name', fix: expect.stringContaining('correct `proxy`') })
      const down = await examined({ url, proxy: 'http://127.0.0.1:9' })
      expect(down.failed).toMatchObject({ step: 'tcp', fix: expect.stringContaining('start the proxy') })
      const text = await answering((_request, response) => void response.socket?.end('nonsense'))
      const other = await examined({ url, proxy: text.replace('/mcp', '') })
      expect(other.failed).toMatchObject({ step: 'tls', fix: expect.stringContaining('of an HTTP proxy') })
    })

    test('names who issued a certificate that is not accepted, through the proxy and without it', async () => {
      const server = createTlsServer(selfSigned, (_request, response) => response.end()).listen(
        0,
        '127.0.0.1',
      )
      await new Promise((done) => server.once('listening', done))
      onTestFinished(() => void server.close())
      const { port } = server.address() as AddressInfo
      const { url: proxy } = await forwardProxy(port)
      for (const settings of [
        { url: 'https://hooks.test/mcp', proxy },
        { url: `https://127.0.0.1:${port}/mcp` },
      ])
        expect((await examined(settings)).failed).toMatchObject({
          step: 'tls',
          note: expect.stringContaining('by hooks.test is not accepted (DEPTH_ZERO_SELF_SIGNED_CERT)'),
          fix: 'set NODE_EXTRA_CA_CERTS to its certificate',
        })
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
