import type { Socket } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { open, post, type RawReply, usual, whole } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { modern, modernFront, sseFront, wellAnswered } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { postHead, readSocket, tcp } from '../../support/raw-socket.ts'
import { alone } from '../../support/scattered.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { parse } from '../../support/server/json.ts'

const limit = 64 * 1024
let server: FakeServer
let gateway: RunningGateway
const sockets: Socket[] = []

alone('it is about the bytes of a connection, which a front of several gateways reads itself')

beforeAll(async () => {
  server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await startGateway({
    listen: { legacy_sse: true, origins: ['https://agents.example.com'] },
    limits: { body: '64KB' },
    upstreams: { fake: server.url },
  })
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await gateway.close()
  await server.close()
})

async function goesOn(): Promise<void> {
  expect(await modernFront(gateway.url).call()).toBe(wellAnswered)
}

const evilHosts = [
  'evil.example',
  'evil.example:80',
  '127.0.0.1.evil.example',
  'localhost.evil.example',
  '[::2]',
  '10.0.0.1',
  'a b',
]
const evilOrigins = [
  'https://evil.example',
  'http://127.0.0.1.evil.example',
  'null',
  'file://',
  'https://agents.example.com.evil.example',
  'garbage',
  'javascript://127.0.0.1',
  'ws://localhost',
  'chrome-extension://127.0.0.1',
]
const paths = ['/mcp', '/mcp/fake', '/sse', '/messages?session_id=x']

describe('a request with', () => {
  test.each(evilHosts)('the Host %j is refused on every path', async (host) => {
    for (const path of paths) {
      const reply = await ask(path, { host }, path === '/sse' ? 'GET' : 'POST')
      expect([400, 403]).toContain(reply.status)
    }
    await goesOn()
  })

  test.each(evilOrigins)(
    'C059 the Origin %j is refused on every path, and no page can read the response',
    async (origin) => {
      for (const path of paths) {
        const reply = await ask(path, { origin }, path === '/sse' ? 'GET' : 'POST')
        expect(reply.status).toBe(403)
        expect(reply.headers['access-control-allow-origin']).toBeUndefined()
      }
      expect((await ask('/mcp', { origin, 'access-control-request-method': 'POST' }, 'OPTIONS')).status).toBe(
        403,
      )
    },
  )

  test.each(['https://agents.example.com', 'http://localhost:3000', 'http://127.0.0.1:6274'])(
    'the Origin %s is accepted',
    async (origin) => {
      const { message, headers } = modern('tools/list')
      const reply = await post(gateway.url, JSON.stringify(message), { ...headers, origin })
      expect(reply.status).toBe(200)
      expect(reply.headers['access-control-allow-origin']).toBe(origin)
      expect(reply.headers['access-control-expose-headers']?.toLowerCase()).toContain('mcp-session-id')
    },
  )
})

test('C057 a preflight request allows every header of the protocol and any mirrored argument', async () => {
  const asked = [
    'authorization',
    'content-type',
    'last-event-id',
    'mcp-method',
    'mcp-name',
    'mcp-protocol-version',
  ]
  const mirrored = ['Mcp-Param-Region', 'mcp-param-x_y']
  const reply = await ask(
    '/mcp',
    {
      origin: 'https://agents.example.com',
      'access-control-request-method': 'POST',
      'access-control-request-headers': [
        ...asked,
        'mcp-session-id',
        ...mirrored,
        'x-evil',
        'mcp-param-a b',
      ].join(', '),
    },
    'OPTIONS',
  )
  expect(reply.status).toBe(204)
  expect(reply.text).toBe('')
  const allowed = (reply.headers['access-control-allow-headers'] ?? '').split(', ')
  expect(allowed).toEqual(
    expect.arrayContaining([...asked, 'mcp-session-id', 'mcp-param-region', 'mcp-param-x_y']),
  )
  expect(allowed).not.toContain('x-evil')
  expect(allowed.filter((each) => each.includes(' '))).toEqual([])
  expect(reply.headers['access-control-allow-methods']).toBe('GET, POST, DELETE')
})

describe('a body with the content type', () => {
  const types: readonly (readonly [string, boolean])[] = [
    ['application/json', true],
    ['Application/JSON; charset=UTF-8', true],
    ['application/json;charset=utf8', true],
    ['application/json; charset="utf-8"; profile=x', true],
    ['application/json; profile="charset=utf-16"', true],
    ['application/json; charset=utf-16', false],
    ['application/json; charset=utf-16le', false],
    ['application/json;CHARSET=ISO-8859-1', false],
    ['application/json; profile=x; charset="us-ascii"', false],
    ['application/json; charset=', false],
    ['application/json; charset=utf-8; charset=utf-16', false],
    ['application/json-patch+json', false],
    ['text/plain', false],
    ['', false],
  ]
  test.each(types)('%j is accepted: %s', async (type, isTaken) => {
    const { message, headers } = modern('tools/list')
    const sent = JSON.stringify(message)
    const reply = await post(gateway.url, sent, { ...headers, 'content-type': type })
    expect(reply.status).toBe(isTaken ? 200 : 415)
    if (!isTaken)
      expect(parse(reply.text)).toMatchObject({ error: { data: { code: 'UNSUPPORTED_MEDIA_TYPE' } } })
    const front = await sseFront(gateway.origin)
    const answer = await front.send(JSON.stringify(message), { 'content-type': type })
    if (!isTaken) expect(answer.status).toBe(415)
    await front.close()
  })
})

describe('a body over the limit', () => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping', params: { text: 'x'.repeat(limit) } })

  test.each(['/mcp', '/mcp/fake'])('is refused at %s by its Content-Length', async (path) => {
    const reply = await post(gateway.origin + path, body, { 'mcp-protocol-version': '2026-07-28' })
    expect([reply.status, parse(reply.text)]).toMatchObject([
      413,
      { error: { code: -32005, data: { code: 'PAYLOAD_TOO_LARGE' } } },
    ])
    await goesOn()
  })

  test('is refused over HTTP+SSE', async () => {
    const front = await sseFront(gateway.origin)
    expect(await front.send(body)).toMatchObject({ status: 413, message: { error: { code: -32005 } } })
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test('is refused while it is being received, without a Content-Length', async () => {
    const socket = await connection()
    socket.write(postHead({ 'transfer-encoding': 'chunked', ...usual }))
    const chunk = 'x'.repeat(4096)
    // The end never arrives: the response must not wait for it.
    for (let sent = 0; sent <= limit; sent += chunk.length) socket.write(`1000\r\n${chunk}\r\n`)
    expect(await readSocket(socket, '}')).toMatch(/^HTTP\/1\.1 413 /)
    await goesOn()
  })

  test('is refused even if the client continues to send', async () => {
    const reply = await post(gateway.url, 'x'.repeat(20 * 1024 * 1024))
    expect(reply.status).toBe(413)
    await goesOn()
  })
})

test.each(['/health', '/ready'])('a probe of %s with HTTP/1.0 needs no Host', async (path) => {
  const socket = await connection()
  socket.write(`GET ${path} HTTP/1.0\r\n\r\n`)
  expect(await readSocket(socket)).toMatch(/^HTTP\/1\.1 200 /)
})

describe('a malformed HTTP request', () => {
  const broken: readonly (readonly [string, string])[] = [
    ['text that is not HTTP', 'HELLO\r\n\r\n'],
    ['a TLS handshake', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['another protocol version', 'POST /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n'],
    ['no Host', 'POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n'],
    ['an empty Host', 'POST /mcp HTTP/1.1\r\nHost:\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'],
    ['a header without a name', postHead({}).replace('Host', '')],
    ['a line break in a header', postHead({ 'x-a': 'b\r\n c\n: d' })],
    [
      'Content-Length and Transfer-Encoding',
      postHead({ 'content-length': '4', 'transfer-encoding': 'chunked' }),
    ],
    [
      'two Content-Length headers',
      postHead({ 'content-length': '4' }).replace('\r\n\r\n', '\r\ncontent-length: 5\r\n\r\n'),
    ],
    ['an invalid Content-Length', postHead({ 'content-length': '-1' })],
    ['an invalid chunk', `${postHead({ 'transfer-encoding': 'chunked', ...usual })}zz\r\n`],
  ]
  test.each(broken)('with %s is refused', async (_name, bytes) => {
    const socket = await connection()
    socket.write(Buffer.from(bytes, 'latin1'))
    const answer = await readSocket(socket)
    expect(answer).toMatch(/^HTTP\/1\.1 4\d\d /)
    await goesOn()
  })

  test.each([
    ['one header', { 'x-long': 'x'.repeat(100_000) }],
    [
      'many headers',
      Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`x-${index}`, 'x'.repeat(20)])),
    ],
  ])('with %s over the limit is refused', async (_name, headers) => {
    const socket = await connection()
    socket.write(postHead(headers))
    expect(await readSocket(socket)).toMatch(/^HTTP\/1\.1 431 /)
    await goesOn()
  })

  test.each([
    '/mcp/%ff',
    '/mcp/%',
    '/mcp/..%2f..',
    '/mcp/__proto__',
    '/mcp/constructor',
    '/mcp/fake/extra',
    '/MCP',
    '/%00',
    `/${'x'.repeat(8000)}`,
  ])('for the unknown path %s is answered with 404', async (path) => {
    const reply = await ask(path, {})
    expect(reply.status).toBe(404)
    await goesOn()
  })
})

describe('a client that is slow or disconnects', () => {
  test('in the middle of its body leaks nothing, however many do so', async () => {
    const slow = await Promise.all(Array.from({ length: 100 }, () => connection()))
    for (const socket of slow) socket.write(`${postHead({ 'content-length': '1000', ...usual })}{"jsonrpc"`)
    await goesOn()
    for (const socket of slow) socket.resetAndDestroy()
    await goesOn()
    const { message, headers } = modern('com.example/last')
    await post(gateway.url, JSON.stringify(message), headers)
    await gateway.logged(({ method }) => method === 'com.example/last')
    expect(gateway.log().filter(({ level }) => level === 'error')).toEqual([])
  })

  test('and sends its body in single bytes is served', async () => {
    const { message, headers } = modern('tools/list')
    const body = JSON.stringify(message)
    const socket = await connection()
    socket.write(postHead({ ...usual, ...headers, 'content-length': String(body.length) }))
    for (const byte of body) socket.write(byte)
    expect(await readSocket(socket, '"tools"')).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('before it receives the response has its call cancelled', async () => {
    const { message, headers } = modern('tools/call', { name: 'hang' })
    const controller = new AbortController()
    const call = open(gateway.url, {
      method: 'POST',
      headers: { ...usual, ...headers },
      body: JSON.stringify(message),
      signal: controller.signal,
    }).catch(() => undefined)
    await server.until(({ message: seen }) => JSON.stringify(seen ?? {}).includes('"hang"'))
    controller.abort()
    await call
    await server.until(({ message: seen }) => seen?.['method'] === 'notifications/cancelled')
    await goesOn()
  })
})

async function connection(): Promise<Socket> {
  const socket = await tcp(gateway.origin)
  sockets.push(socket)
  return socket
}

async function ask(path: string, headers: HeaderMap, method = 'POST'): Promise<RawReply> {
  const body = method === 'POST' ? '{}' : ''
  return whole(await open(gateway.origin + path, { method, headers: { ...usual, ...headers }, body }))
}
