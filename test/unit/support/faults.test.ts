import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { type ConnectOptions, textOf } from '../../support/client/options.ts'
import { events, post } from '../../support/client/raw.ts'
import { StdioLink } from '../../support/client/stdio-link.ts'
import { connect } from '../../support/fake-client.ts'
import { fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import type { ServerOptions } from '../../support/server/options.ts'

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const answers = { 'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada' } }) }

async function web(options: Partial<ServerOptions> = {}, client: Partial<ConnectOptions> = {}) {
  const { revision = '2025-11-25', transport = 'http' } = options
  const server = await startFakeServer({ ...options, revision, transport })
  opened.push(() => server.close())
  const connected = await connect({ revision, transport, url: server.url, answers, ...client })
  opened.push(() => connected.close())
  return { server, client: connected }
}

async function piped(options: Partial<ServerOptions> = {}, more: Partial<ConnectOptions> = {}) {
  const { revision = '2025-11-25' } = options
  const client = await connect({
    revision,
    transport: 'stdio',
    answers,
    ...more,
    ...fakeServerCommand({ ...options, revision }),
  })
  opened.push(() => client.close())
  return client
}

const echo = { name: 'echo', arguments: { text: 'é\u2028😀' } }

describe('faults in framing', () => {
  const streams: Partial<ServerOptions>[] = [
    { chunk: 1 },
    { sseLineEnd: 'crlf', chunk: 3 },
    { sseLineEnd: 'cr' },
    { multilineData: true },
    { jsonOnly: true, chunk: 7 },
    { revision: '2024-11-05', transport: 'sse', chunk: 1, sseLineEnd: 'crlf' },
    { revision: '2026-07-28', sseOnly: true, chunk: 2, multilineData: true },
  ]

  test.each(streams)('an event stream with %o has the same content', async (options) => {
    const { client } = await web(options)
    expect(textOf(await client.request('tools/call', echo))).toBe(JSON.stringify(echo.arguments))
    expect(client.violations).toEqual([])
  })

  test('a line on stdout may be divided and end in CRLF', async () => {
    const client = await piped({ chunk: 1, framing: 'crlf' })
    expect(textOf(await client.request('tools/call', echo))).toBe(JSON.stringify(echo.arguments))
    expect(client.violations).toEqual([])
  })

  test('a banner on stdout is reported and harmless', async () => {
    const client = await piped({ banner: ['Welcome!'] })
    expect(client.violations).toEqual(['a line on stdout that is no message: Welcome!'])
  })
})

describe('faults during a call', () => {
  test('a call continues on another stream after the server closed the first', async () => {
    const { client, server } = await web({ resumable: true })
    const reply = await client.request('tools/call', { name: 'drop' }, { onProgress: () => {} })
    expect(textOf(reply)).toBe('resumed')
    expect(reply.notes).toHaveLength(2)
    expect([client.violations, server.violations]).toEqual([[], []])
  })

  test('a client that lost its streams resumes the call', async () => {
    const { client, server } = await web({ resumable: true })
    let stepped = () => {}
    const first = new Promise<void>((resolve) => (stepped = resolve))
    const { reply } = client.start(
      'tools/call',
      { name: 'slow', arguments: { ms: 200, steps: 2 } },
      { onProgress: stepped },
    )
    await first
    const last = client.dropStream()
    await server.until(({ kind }) => kind === 'disconnected')
    await client.resume(String(last))
    expect(textOf(await reply)).toBe('took 2 steps')
    expect([client.violations, server.violations]).toEqual([[], []])
  })

  test('a crash ends the connection', async () => {
    const { client } = await web()
    await expect(client.request('tools/call', { name: 'crash' })).rejects.toThrow('aborted')
    const other = await piped()
    await expect(other.request('tools/call', { name: 'crash' })).rejects.toThrow('exited')
  })

  test('responses arrive out of order', async () => {
    const client = await piped({ outOfOrder: true })
    const order: string[] = []
    const call = (name: string) => client.request('tools/call', { name }).then(() => order.push(name))
    await Promise.all([call('echo'), call('structured')])
    expect(order).toEqual(['structured', 'echo'])
  })

  test('ids returned as strings are reported', async () => {
    const { client } = await web({ coerceIds: true, revision: '2026-07-28' }, { handshake: false })
    await client.request('tools/list')
    expect(client.violations.join()).toContain('a reply to nothing')
  })

  test('server requests may arrive on the GET stream', async () => {
    const { client, server } = await web({ questions: 'get' })
    expect(textOf(await client.request('tools/call', { name: 'ask_form' }))).toContain('Ada')
    expect([client.violations, server.violations]).toEqual([[], []])
  })

  test('the server pings and requests roots after the handshake', async () => {
    const roots = () => ({ roots: [] })
    const { client, server } = await web(
      { pingClient: true, asksRoots: true },
      { answers: { 'roots/list': roots } },
    )
    await server.until(({ message }) => message?.['id'] === 2 && 'result' in message)
    expect(client.asked.map(({ method }) => method)).toEqual(['roots/list'])
  })

  test('an undeclared server request is refused', async () => {
    const { client } = await web({ revision: '2026-07-28' }, { capabilities: {} })
    const { status, error } = await client.request('tools/call', { name: 'ask_form' })
    expect([status, error?.['code']]).toEqual([400, -32021])
    const { client: older } = await web({}, { capabilities: {} })
    expect((await older.request('tools/call', { name: 'ask_form' })).result).toMatchObject({ isError: true })
  })

  test('a subscription that the server ends has a result', async () => {
    const { client, server } = await web({ revision: '2026-07-28' })
    const listening = client.listen({ toolsListChanged: true })
    await listening.acknowledged
    server.change('tools')
    await listening.until(({ method }) => method === 'notifications/tools/list_changed')
    server.endListening()
    expect((await listening.ended).result).toMatchObject({ resultType: 'complete' })
    expect(client.violations).toEqual([])
  })

  test('the stream of a cancelled call ends, or stays open if so configured', async () => {
    const cancelled = async (options: Partial<ServerOptions>) => {
      const { client, server } = await web(options)
      const { id, reply } = client.start('tools/call', { name: 'hang' })
      await server.until(({ message }) => message?.['id'] === id)
      const ended = Promise.allSettled([reply])
      await client.cancel(id)
      await ended
      await client.request('ping')
      return client.link
    }
    const ending = await cancelled({})
    await vi.waitFor(() => expect(ending.openStreams).toBe(1), 10_000)
    const keeping = await cancelled({ keepsCancelledStream: true })
    await vi.waitFor(() => expect(keeping.openStreams).toBe(2), 10_000)
  })

  test('a single round is visible if the client does not answer automatically', async () => {
    const { client } = await web({ revision: '2026-07-28' }, { auto: false })
    const { result } = await client.request('tools/call', { name: 'ask_form', arguments: { state: false } })
    expect(Object.keys(result ?? {})).not.toContain('requestState')
    const later = await client.request('tools/call', { name: 'ask_later' })
    const again = { name: 'ask_later', requestState: `${String(later.result?.['requestState'])}x` }
    expect((await client.request('tools/call', again)).error?.['code']).toBe(-32602)
  })

  test('parameters are mirrored in headers, and missing headers are refused', async () => {
    const { client, server } = await web({ revision: '2026-07-28' })
    const call = {
      name: 'headers',
      arguments: { region: 'zürich', count: 3, urgent: true, place: { city: ' x' } },
    }
    expect((await client.request('tools/call', call)).error?.['code']).toBe(-32020)
    await client.request('tools/list')
    expect((await client.request('tools/call', call)).error).toBeUndefined()
    expect(server.violations).toHaveLength(1)
  })
})

describe('faults in sessions and lists', () => {
  test('a batch is answered in 2025-03-26 and refused in other revisions', async () => {
    const batch = async (revision: '2025-03-26' | '2025-06-18') => {
      const { client, server } = await web({ revision })
      const session = String(server.received('notifications/initialized')[0]?.headers['mcp-session-id'])
      const list = [8, 9].map((id) => ({ jsonrpc: '2.0', id, method: 'ping' }))
      const headers = { 'Mcp-Session-Id': session, 'MCP-Protocol-Version': revision }
      const reply = await post(server.url, JSON.stringify(list), headers)
      expect(client.violations).toEqual([])
      return JSON.parse(reply.events[0]?.data ?? reply.text)
    }
    expect(await batch('2025-03-26')).toHaveLength(2)
    expect(await batch('2025-06-18')).toMatchObject({ error: { code: -32600 } })
  })

  test('a session is lost after some requests', async () => {
    const { client } = await web({ expireAfter: 1 })
    expect((await client.request('tools/list')).status).toBe(200)
    expect((await client.request('tools/list')).status).toBe(404)
    const other = await web({ expireAfter: 1, expiredStatus: 400 })
    await other.client.request('tools/list')
    expect((await other.client.request('tools/list')).status).toBe(400)
  })

  test('a server without sessions and streams responds', async () => {
    const { client, server } = await web({ sessions: false })
    expect((await client.request('tools/list')).result).toBeDefined()
    expect([client.violations, server.violations]).toEqual([[], []])
  })

  test('a list ends with an empty cursor', async () => {
    const { client } = await web({ emptyLastCursor: true, pageSize: 3 })
    const page = await client.request('prompts/list')
    expect(page.result?.['nextCursor']).toBe('')
  })

  test('removed capabilities are absent', async () => {
    const { client, server } = await web({ without: ['resources.subscribe', 'prompts'] })
    expect(client.initialized['capabilities']).toMatchObject({ resources: { subscribe: false } })
    expect((await client.request('prompts/list')).error?.['code']).toBe(-32601)
    await client.subscribe('fake://watched')
    expect(server.violations).toHaveLength(2)
  })

  test('invalid responses to notifications are reported', async () => {
    const { client } = await web({ notificationStatus: 200, notificationBody: 'null', deleteStatus: 405 })
    expect(client.violations).toEqual(['a notification or answer was answered 200 application/json null'])
  })
})

describe('faults in the handshake', () => {
  const probe = { jsonrpc: '2.0', id: 0, method: 'server/discover', params: {} }

  test('a legacy HTTP server refuses requests without a session', async () => {
    const server = await startFakeServer({ revision: '2025-06-18', transport: 'http' })
    opened.push(() => server.close())
    const probed = await post(server.url, JSON.stringify(probe))
    expect([probed.status, probed.text]).toEqual([400, expect.stringContaining('-32000')])
    expect(JSON.parse(probed.text)).toHaveProperty('id', null)
    expect(server.violations).toEqual([])
    const session = { 'Mcp-Session-Id': 'none' }
    const list = JSON.stringify({ ...probe, method: 'tools/list' })
    expect((await post(server.url, list, session)).status).toBe(404)
    expect((await post(server.url, list, { Accept: 'application/json' })).status).toBe(406)
    expect((await post(server.url, '[]')).status).toBe(400)
    expect((await post(server.url, '{')).text).toContain('-32700')
    expect((await post(server.url, list, { Origin: 'https://evil.example' })).status).toBe(403)
  })

  test('a legacy stdio server responds to the probe with -32601, not at all, or by exiting', async () => {
    const bare = { revision: '2025-11-25', transport: 'stdio', handshake: false } as const
    const ask = async (discover: 'answer' | 'silent' | 'exit') => {
      const client = await connect({ ...bare, ...fakeServerCommand({ revision: '2025-11-25', discover }) })
      opened.push(() => client.close())
      return client.request('server/discover', {}, { timeoutMs: discover === 'silent' ? 500 : 10_000 })
    }
    expect((await ask('answer')).error?.['code']).toBe(-32601)
    await expect(ask('silent')).rejects.toThrow('no reply')
    await expect(ask('exit')).rejects.toThrow('exited')
  })

  test('a 2026-07-28 server refuses initialize and names its revision', async () => {
    const server = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
    opened.push(() => server.close())
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'x', version: '1' },
    }
    const reply = await post(
      server.url,
      JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
    )
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.text).error).toMatchObject({ code: -32022, data: { supported: ['2026-07-28'] } })
    expect(
      (await post(server.url, JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'tools/list' }))).status,
    ).toBe(400)
  })

  test('an HTTP+SSE server first names the endpoint', async () => {
    const server = await startFakeServer({ revision: '2024-11-05', transport: 'sse' })
    opened.push(() => server.close())
    const stream = events(server.url)
    expect((await stream.next()).value).toMatchObject({ event: 'endpoint' })
    await stream.return(undefined)
    expect((await post(server.url, JSON.stringify(probe))).status).toBe(405)
  })

  test('a server that refuses everything does not reveal MCP', async () => {
    const server = await startFakeServer({ revision: '2025-11-25', transport: 'http', refuseStatus: 503 })
    opened.push(() => server.close())
    expect((await post(server.url, JSON.stringify(probe))).text).toBe('refused')
  })

  test('requests before the handshake are reported', async () => {
    const command = fakeServerCommand({ revision: '2024-11-05' })
    const client = await connect({ revision: '2024-11-05', transport: 'stdio', handshake: false, ...command })
    opened.push(() => client.close())
    expect((await client.request('tools/list')).error?.['code']).toBe(-32600)
    await client.open()
    const noticed = textOf(await client.request('tools/call', { name: 'violations' }))
    expect(JSON.parse(noticed)).toEqual(['tools/list before initialize'])
  })

  test('a server that ignores SIGTERM is killed', async () => {
    const client = await piped({ stubborn: true }, { graceMs: 50 })
    const { link } = client
    expect(link).toBeInstanceOf(StdioLink)
    await client.close()
    expect(link.openStreams).toBe(0)
  })
})

describe('violations in a response', () => {
  const cases: [string, unknown, string][] = [
    ['a missing resultType', { result: { tools: [], ttlMs: 0, cacheScope: 'private' } }, 'no resultType'],
    ['a missing ttlMs', { result: { resultType: 'complete', tools: [], cacheScope: 'private' } }, 'no ttlMs'],
    ['a wrong id', { id: '1', result: { resultType: 'complete' } }, 'reply 1 on the stream of 1'],
    ['a request instead of a response', { method: 'roots/list' }, 'roots/list requested from a client'],
    ['a removed error code', { error: { code: -32002, message: 'gone' } }, 'error -32002'],
  ]

  test.each(cases)('%s is reported', async (_name, body, complaint) => {
    const canned = createServer((_request, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id: 1, ...Object(body) }))
    })
    await new Promise<void>((resolve) => canned.listen(0, '127.0.0.1', resolve))
    opened.push(() => new Promise((resolve) => canned.close(resolve)))
    const { port } = canned.address() as AddressInfo
    const url = `http://127.0.0.1:${port}/`
    const client = await connect({ revision: '2026-07-28', transport: 'http', url, handshake: false })
    await client.request('tools/list')
    expect(client.violations.join()).toContain(complaint)
  })
})
