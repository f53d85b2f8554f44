import { createHmac } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { fileSchema } from '../../../src/config/schema.ts'
import { features } from '../../../src/features/index.ts'
import { Canaries } from '../../support/canary.ts'
import { canaryConfig, filledSlots, issuerName, secretSlots } from '../../support/canary-config.ts'
import { canaryCommand, type CanaryServer, startCanaryServer } from '../../support/canary-server.ts'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { open, usual, whole } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { type RunningGateway, startCommand, startGateway } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { traceCollector } from '../../support/trace-collector.ts'

const elsewhere = {
  legacy: 'http://127.0.0.1:9/mcp',
  modern: 'http://127.0.0.1:9/mcp',
  broken: 'http://127.0.0.1:9/mcp',
  child: ['true'],
  issuer: 'http://127.0.0.1:9',
  collector: 'http://127.0.0.1:9',
  audit: 'audit.jsonl',
}

it('every secret field of the configuration has a recognisable canary', () => {
  const canaries = new Canaries()
  const config = canaryConfig(canaries, elsewhere)
  const slots = secretSlots(fileSchema(features))
  expect(slots).toContain('.upstreams.*.env.*')
  expect(slots).toContain('.auth.opaque.tokens[].hash')
  expect(filledSlots(config, slots, canaries)).toEqual(slots)
})

it('C063 C182 C205 C211 no secret leaves the gateway in any scenario', async () => {
  const canaries = new Canaries()
  const parts = await surroundings(canaries)
  const config = canaryConfig(canaries, parts.around)
  const gateway = await startGateway(config, { args: ['--log-level', 'debug'], warm: false })
  onTestFinished(() => gateway.close())
  const told = new Told(canaries)
  const visitor = visiting(gateway, told)

  await refusals(visitor, canaries)
  await pages(visitor, canaries)
  await everyTool(visitor, canaries, parts.servers)
  await otherRequests(visitor, canaries)

  gateway.configure({ ...config, upstreams: withNewKeys(config, canaries) })
  await gateway.logged(({ event }) => event === 'config.reloaded')
  await visitor.tool('child', 'tool_error')
  await visitor.tool('header', 'tool_error')
  gateway.configure(brokenText(canaries))
  await gateway.logged(({ event }) => event === 'config.rejected')
  await visitor.tool('child', 'crash')
  // The former child writes a last line, and spans are exported each second.
  await until(() => gateway.stderr().includes('bye, '), 'the last word of the child')
  await until(() => parts.collector.text().includes('crash'), 'the last span')
  const metrics = await visitor.send('/metrics', { headers: { authorization: parts.basic } })
  expect(metrics.status).toBe(200)
  gateway.stop()
  await gateway.ended

  expect(gateway.stderr()).toContain('The key *** is not valid')
  told.hear('the log', gateway.stderr())
  told.hear('stdout', gateway.stdout())
  told.hear('the audit log', readFileSync(parts.around.audit, 'utf8'))
  told.hear('traces', parts.collector.text())
  expect(gateway.log().filter(({ level }) => level === 'debug')).not.toEqual([])
  await commands(config, told, canaries)
  expect(told.leaks).toEqual([])
})

/** What was sent to which recipient, and which secrets it contained. */
class Told {
  readonly leaks: string[] = []
  readonly #canaries: Canaries

  constructor(canaries: Canaries) {
    this.#canaries = canaries
  }

  /** `sent` may be returned to its sender. */
  hear(who: string, text: string, sent = ''): void {
    const own = this.#canaries.in(sent)
    for (const line of text.split('\n')) {
      const found = this.#canaries.in(line).filter((slot) => !own.includes(slot))
      if (found.length > 0) this.leaks.push(`${who} tells ${found.join(', ')}: ${line.slice(0, 1500)}`)
    }
  }
}

interface Request {
  readonly method?: string
  readonly headers?: HeaderMap
  readonly body?: string
  /** Gives up waiting for an event stream to end. */
  readonly isStream?: boolean
}

interface Visitor {
  send(path: string, request?: Request): Promise<{ status: number; headers: HeaderMap; text: string }>
  /** A request of 2026-07-28. */
  modern(path: string, method: string, params?: Json, headers?: HeaderMap): Promise<Json>
  /** A request of 2025-11-25. */
  legacy(path: string, method: string, params?: Json): Promise<Json>
  /** Calls a tool of a server as both eras do. */
  tool(server: string, name: string, args?: Json): Promise<void>
  /** Uses another token. */
  become(token: string): void
}

function visiting(gateway: RunningGateway, told: Told): Visitor {
  let token = ''
  let id = 0
  const sessions = new Map<string, string>()
  const send: Visitor['send'] = async (path, { method = 'GET', headers = {}, body = '' } = {}) => {
    const reply = await whole(await open(gateway.origin + path, { method, headers, body }))
    // Credentials are returned to no caller, not even to the one that sent them.
    told.hear(
      `${method} ${path} ${body.slice(0, 200)}`,
      `${JSON.stringify(reply.headers)}\n${reply.text}`,
      path + body,
    )
    return reply
  }
  const post = (path: string, message: Json, headers: HeaderMap) => {
    const all = { ...usual, authorization: `Bearer ${token}`, ...headers }
    return send(path, { method: 'POST', headers: all, body: JSON.stringify(message) })
  }
  const visitor: Visitor = {
    send,
    modern: async (path, method, params = {}, headers = {}) => {
      const all = enveloped(params, '2026-07-28', {}, 'debug')
      const reply = await post(
        path,
        { jsonrpc: '2.0', id: ++id, method, params: all },
        { ...mirrorHeaders(method, all, new Map()), ...headers },
      )
      return asObject(reply.text)
    },
    legacy: async (path, method, params = {}) => {
      const known = sessions.get(path + token) ?? (await initialize(path))
      const headers = { 'mcp-session-id': known, 'mcp-protocol-version': '2025-11-25' }
      return asObject((await post(path, { jsonrpc: '2.0', id: ++id, method, params }, headers)).text)
    },
    tool: async (server, name, args = {}) => {
      await visitor.modern(`/mcp/${server}`, 'tools/call', { name, arguments: args })
      await visitor.legacy(`/mcp/${server}`, 'tools/call', { name, arguments: args })
    },
    become: (next) => {
      token = next
    },
  }
  const initialize = async (path: string): Promise<string> => {
    const clientInfo = { name: 'visitor', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    const { headers } = await post(path, { jsonrpc: '2.0', id: ++id, method: 'initialize', params }, {})
    const session = headers['mcp-session-id'] ?? ''
    sessions.set(path + token, session)
    await post(path, { jsonrpc: '2.0', method: 'notifications/initialized' }, { 'mcp-session-id': session })
    return session
  }
  return visitor
}

/** The peers of the gateway, with their own secrets. */
async function surroundings(canaries: Canaries) {
  const own = (slot: string) => ({ own: canaries.of(slot) })
  const legacy = await startCanaryServer(own('legacy-own'))
  const modern = await startCanaryServer(own('modern-own'))
  const broken = await startCanaryServer({ ...own('broken-own'), isBroken: true })
  const servers = [legacy, modern, broken]
  onTestFinished(async () => void (await Promise.all(servers.map((each) => each.close()))))
  const collector = await traceCollector()
  const around = {
    legacy: legacy.url,
    modern: modern.url,
    broken: broken.url,
    child: canaryCommand(canaries.of('child-own')),
    issuer: await talkingIssuer(),
    collector: collector.url,
    audit: join(folder(), 'audit.jsonl'),
  }
  const basic = `Basic ${Buffer.from(`prometheus:${canaries.of('password')}`).toString('base64')}`
  return { servers, collector, around, basic }
}

/** An authorization server that echoes everything it receives, and issues nothing. */
async function talkingIssuer(): Promise<string> {
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part: string) => (body += part))
    request.on('end', () => {
      const { authorization = '' } = request.headers
      const basic = Buffer.from(authorization.replace(/^Basic /, ''), 'base64').toString()
      const words = `${decodeURIComponent(body)} ${authorization} ${decodeURIComponent(basic)}`
      // The response of the issuer is not JSON, and parser errors quote their input.
      if (request.url === '/introspect') return response.end(new URLSearchParams(body).get('token') ?? '')
      response.writeHead(400, {
        'content-type': 'application/json',
        'www-authenticate': `Basic realm="${basic}"`,
      })
      return response.end(
        JSON.stringify({ error: 'invalid_client', error_description: words, error_uri: words }),
      )
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  server.unref()
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

function asObject(text: string): Json {
  const last = text.startsWith('{')
    ? text
    : (/^data: (\{.*)$/m.exec(text.slice(text.lastIndexOf('data: ')))?.[1] ?? '')
  const value = parse(last)
  return isObject(value) ? value : {}
}

function signed(claims: Json, secret: string): string {
  const part = (value: Json): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${text}.${createHmac('sha256', secret).update(text).digest('base64url')}`
}

/** Requests that are refused, with secrets in every part. */
async function refusals(visitor: Visitor, canaries: Canaries): Promise<void> {
  const now = Math.floor(Date.now() / 1000)
  const usualClaims = { iss: issuerName, aud: 'gateway', sub: 'someone', iat: now, exp: now + 3600 }
  const secret = canaries.of('jwt-secret')
  const bad = {
    expired: signed({ ...usualClaims, exp: now - 3600 }, secret),
    forged: signed(usualClaims, 'x'.repeat(40)),
    elsewhere: signed({ ...usualClaims, aud: 'other' }, secret),
    unknown: canaries.of('unknown-token'),
  }
  for (const [slot, token] of Object.entries(bad)) {
    visitor.become(slot === 'unknown' ? token : canaries.add(`${slot}-token`, token))
    await visitor.modern('/mcp', 'tools/list')
    await visitor.send('/metrics', { headers: { authorization: `Bearer ${token}` } })
  }
  const headers = {
    ...usual,
    cookie: `sid=${canaries.of('cookie')}`,
    'x-api-key': canaries.of('client-api-key'),
    'x-mcp-session-token': canaries.of('bad-session-token'),
  }
  for (const authorization of [
    `Basic ${Buffer.from(`prometheus:${canaries.of('wrong-password')}`).toString('base64')}`,
    `Digest ${canaries.of('digest')}`,
    `Bearer ${canaries.of('spaced')} ${canaries.of('spaced')}`,
  ]) {
    for (const path of ['/mcp', '/metrics', '/permissions', '/sse'])
      await visitor.send(path, {
        method: path === '/mcp' ? 'POST' : 'GET',
        headers: { ...headers, authorization },
        body: '{}',
      })
  }
  for (const name of ['token', 'access_token', 'sid', 'x'])
    for (const path of ['/mcp', '/mcp/header', '/sse', '/metrics', '/', '/ready', '/nowhere'])
      await visitor.send(`${path}?${name}=${canaries.of(`query-${name}`)}`, { headers })
  visitor.become(canaries.add('signed-token', signed(usualClaims, secret)))
  await visitor.modern('/mcp', 'tools/list')
  await visitor.tool('header', 'fine', { password: canaries.of('refused-argument') })
  visitor.become(canaries.of('opaque-token'))
}

/** The public pages and documents. */
async function pages(visitor: Visitor, canaries: Canaries): Promise<void> {
  const headers = { cookie: `sid=${canaries.of('cookie')}`, 'x-api-key': canaries.of('client-api-key') }
  const documents = ['', '/mcp', '/mcp/header', '/mcp/broken'].map(
    (path) => `/.well-known/oauth-protected-resource${path}`,
  )
  // The page shows why servers cannot be reached.
  await until(
    async () => (await visitor.send('/')).text.includes('unavailable</span>'),
    'the page to tell of failures',
  )
  for (const path of [
    '/',
    '/health',
    '/ready',
    '/metrics',
    '/nowhere',
    '/confirm',
    '/sign-in/callback?code=a&state=b',
    ...documents,
  ])
    await visitor.send(path, { headers })
}

/** Every tool of every server, as both eras. */
async function everyTool(
  visitor: Visitor,
  canaries: Canaries,
  servers: readonly CanaryServer[],
): Promise<void> {
  for (const server of ['header', 'token', 'child']) {
    const { result } = await visitor.modern(`/mcp/${server}`, 'tools/list')
    const tools = isObject(result) && Array.isArray(result['tools']) ? result['tools'].filter(isObject) : []
    expect(tools.length).toBeGreaterThan(10)
    for (const { name } of tools)
      await visitor.tool(server, String(name), { password: canaries.of('argument') })
  }
  for (const server of ['broken', 'away', 'granted', 'missing']) await visitor.tool(server, 'fine')
  await visitor.legacy('/mcp', 'tools/list')
  expect(servers[0]?.calls).toContain('rpc_error')
  expect(servers[1]?.calls).toContain('rpc_error')
}

/** Other ways in which a caller sends its own secrets. */
async function otherRequests(visitor: Visitor, canaries: Canaries): Promise<void> {
  const uri = `db://app:${canaries.of('uri-password')}@host/table?token=${canaries.of('uri-query')}`
  await visitor.modern('/mcp/header', 'resources/read', { uri })
  await visitor.legacy('/mcp/child', 'resources/read', { uri })
  await visitor.modern('/mcp/header', 'prompts/get', {
    name: 'p',
    arguments: { token: canaries.of('prompt-argument') },
  })
  await visitor.tool('header', 'fine', { deep: [{ api_key: canaries.of('argument') }] })
  const session = { 'x-mcp-session-token': canaries.of('session-token') }
  await visitor.modern('/mcp/header', 'tools/call', { name: 'fine', arguments: {} }, session)
  await visitor.modern('/mcp/header', 'permissions/negotiate', { requested: [canaries.of('argument')] })
  await visitor.modern('/mcp/header', 'tools/call', {
    name: 'no such tool',
    arguments: { key: canaries.of('argument') },
  })
  await visitor.modern('/mcp/header', 'tools/call', { name: 'fine', arguments: canaries.of('argument') })
  await visitor.modern('/mcp/header', 'no/such/method', { key: canaries.of('argument') })
}

function withNewKeys({ upstreams }: Json, canaries: Canaries): Json {
  const all = isObject(upstreams) ? upstreams : {}
  const { child, header } = all
  return {
    ...all,
    child: { ...(isObject(child) && child), env: { API_KEY: canaries.of('next-child-env') } },
    header: { ...(isObject(header) && header), headers: { 'x-api-key': canaries.of('next-header') } },
  }
}

/** A file that cannot be parsed, with secrets where the parser fails. */
function brokenText(canaries: Canaries): string {
  return `upstreams:\n  child: { command: "true, env: { API_KEY: ${canaries.of('broken-file')} }\n   - ${canaries.of('broken-file')}: [`
}

/** The commands that read the same files. */
async function commands(config: Json, hearer: Told, canaries: Canaries): Promise<void> {
  const place = folder()
  const file = join(place, 'gateway.config.yaml')
  const run = async (words: readonly string[]): Promise<void> => {
    const env = { SECRET: canaries.of('environment') }
    const command = startCommand([...words, '--config', file], { env })
    command.stdin.end()
    let isOver = false
    void command.ended.then(() => (isOver = true))
    // A command that serves anyway is stopped.
    await until(() => isOver || command.stdout().includes('Gatehouse serves'), 'the end of it')
    await command.close()
    const told = { stdout: command.stdout(), stderr: command.stderr() }
    expect(told).not.toEqual({ stdout: '', stderr: '' })
    for (const [stream, text] of Object.entries(told))
      hearer.hear(`gatehouse ${words.join(' ')}, ${stream},`, text)
  }
  writeFileSync(file, brokenText(canaries))
  await run(['serve', '--port', '0'])
  writeFileSync(file, JSON.stringify(config))
  for (const words of [
    ['check'],
    ['lint'],
    ['explain', 'header', 'tool_error'],
    ['explain', 'child'],
    ['explain', 'broken'],
  ])
    await run(words)
  for (const text of badFiles(config, canaries)) {
    writeFileSync(file, text)
    await run(['check'])
  }
}

/** Files with a mistake next to a secret, or in it. */
function badFiles(config: Json, canaries: Canaries): string[] {
  const secret = canaries.of('misplaced')
  const auth = isObject(config['auth']) ? config['auth'] : {}
  const wrong: readonly Json[] = [
    { store: `postgres://gate:${secret}@db/0` },
    { store: `redis://gate:${secret}@[::bad/0` },
    { auth: { ...auth, jwt: { issuer: issuerName, secret: secret.slice(0, 31) } } },
    { auth: { ...auth, opaque: { tokens: [{ hash: `md5:${secret}`, id: 'x' }] } } },
    { auth: { ...auth, basic: { users: [{ name: 'x', password_hash: secret }] } } },
    { observe: { audit: { file: 'audit.jsonl', key: [secret] } } },
    { observe: { traces: { endpoint: `http://gate:${secret}@[bad`, headers: { 'x-key': secret } } } },
    { upstreams: { one: { command: ['true', '--token', secret, `--password=${secret}`] } } },
    { upstreams: { one: { url: `http://user:${secret}@127.0.0.1:9/mcp` } } },
    { upstreams: { one: { url: `http://127.0.0.1:99999/mcp?api_key=${secret}` } } },
    { upstreams: { one: { url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': `${secret}\nmore` } } } },
    { upstreams: { one: { url: 'http://127.0.0.1:9/mcp', tokn: secret } } },
    {
      upstreams: {
        one: { url: 'http://127.0.0.1:9/mcp', token: [secret], oauth: { client_secret: { secret } } },
      },
    },
    { upstreams: { one: { command: 'true', env: { KEY: `\${${secret}` } } } },
  ]
  return [...wrong.map((each) => JSON.stringify({ ...config, ...each })), brokenText(canaries)]
}
