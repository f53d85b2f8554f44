import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { open, post, whole } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type Front, modern, modernFront, sessionFront, wellAnswered } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { type Json, parse } from '../../support/server/json.ts'
import { expectError } from '../../support/structured-error.ts'

let server: FakeServer
let gateway: RunningGateway

beforeAll(async () => {
  server = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
  gateway = await startGateway({ upstreams: { fake: server.url } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

const meta = (key: string): string => `io.modelcontextprotocol/${key}`

/** A valid 2026-07-28 request with a change to its metadata or headers. */
interface Change {
  readonly name: string
  readonly method?: string
  readonly params?: Json
  readonly meta?: Json
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly status: number
  readonly code: number
  readonly error: string
}

const mismatch = { status: 400, code: -32020, error: 'HEADER_MISMATCH' }
const params = { status: 400, code: -32602, error: 'INVALID_INPUT' }
const version = { status: 400, code: -32022, error: 'UNSUPPORTED_VERSION' }
const unknown = { status: 404, code: -32601, error: 'UNSUPPORTED_OPERATION' }
const state = { status: 400, code: -32602, error: 'STATE_INVALID' }
const regions = { name: 'headers', arguments: { region: 'eu' } }

const changes: readonly Change[] = [
  { name: 'no version header', headers: { 'mcp-protocol-version': undefined }, ...mismatch },
  {
    name: 'a different version in the header',
    headers: { 'mcp-protocol-version': '2025-11-25' },
    ...mismatch,
  },
  { name: 'no Mcp-Method', headers: { 'mcp-method': undefined }, ...mismatch },
  { name: 'a different Mcp-Method', headers: { 'mcp-method': 'tools/list' }, ...mismatch },
  { name: 'Mcp-Method in another case', headers: { 'mcp-method': 'Tools/Call' }, ...mismatch },
  { name: 'no Mcp-Name', headers: { 'mcp-name': undefined }, ...mismatch },
  { name: 'a different Mcp-Name', headers: { 'mcp-name': 'delete_all' }, ...mismatch },
  { name: 'Mcp-Name in broken base64', headers: { 'mcp-name': '=?base64?ZWNo*?=' }, ...mismatch },
  { name: 'a mirrored argument without its header', params: regions, ...mismatch },
  {
    name: 'a mirrored argument that differs from its header',
    params: regions,
    headers: { 'mcp-param-region': 'us' },
    ...mismatch,
  },
  {
    name: 'a header for an absent argument',
    params: { name: 'headers' },
    headers: { 'mcp-param-region': 'us' },
    ...mismatch,
  },
  {
    name: 'an empty header for an argument',
    params: regions,
    headers: { 'mcp-param-region': '' },
    ...mismatch,
  },
  { name: 'a version that is a number', meta: { [meta('protocolVersion')]: 20260728 }, ...params },
  { name: 'a version that is null', meta: { [meta('protocolVersion')]: null }, ...params },
  {
    name: 'no version in the body',
    meta: { [meta('protocolVersion')]: undefined },
    headers: { 'mcp-protocol-version': '2026-07-28' },
    ...params,
  },
  { name: 'no capabilities', meta: { [meta('clientCapabilities')]: undefined }, ...params },
  { name: 'capabilities that are a list', meta: { [meta('clientCapabilities')]: [] }, ...params },
  { name: 'client info that is text', meta: { [meta('clientInfo')]: 'me' }, ...params },
  { name: 'an unknown log level', meta: { [meta('logLevel')]: 'loud' }, ...params },
  {
    name: 'a future version',
    meta: { [meta('protocolVersion')]: '2031-01-01' },
    headers: { 'mcp-protocol-version': '2031-01-01' },
    ...version,
  },
  {
    name: 'a version that requires a handshake',
    meta: { [meta('protocolVersion')]: '2025-06-18' },
    headers: { 'mcp-protocol-version': '2025-06-18' },
    ...version,
  },
  ...[
    'initialize',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'resources/unsubscribe',
    'tasks/list',
  ].map((method) => ({
    name: `${method}, which is gone`,
    method,
    params: { uri: 'fake://static' },
    ...unknown,
  })),
  { name: 'an unknown method', method: 'no/such/method', params: {}, ...unknown },
  { name: 'a state that is a number', params: { name: 'echo', requestState: 7 }, ...state },
  { name: 'a forged state', params: { name: 'echo', requestState: 'AAAA'.repeat(30) }, ...state },
  { name: 'an empty state', params: { name: 'echo', requestState: '' }, ...state },
]

describe('a 2026-07-28 request with', () => {
  test.each(changes)('$name is refused', async (change) => {
    const { method = 'tools/call', params: given = { name: 'echo' } } = change
    const { message, headers } = modern(method, { ...given, _meta: change.meta ?? {} })
    const sent = Object.entries({ ...headers, ...change.headers }).filter(
      (each): each is [string, string] => each[1] !== undefined,
    )
    const named = method.startsWith('resources/') ? { 'mcp-name': 'fake://static' } : {}
    const reply = await post(gateway.url, JSON.stringify(message), { ...named, ...Object.fromEntries(sent) })
    expectError(reply.status, reply.text, change)
    expect(await modernFront(gateway.url).call()).toBe(wellAnswered)
  })

  test('an unsupported version receives the supported versions', async () => {
    const { message } = modern('tools/list', { _meta: { [meta('protocolVersion')]: '2031-01-01' } })
    const headers = { 'mcp-protocol-version': '2031-01-01', 'mcp-method': 'tools/list' }
    const { text } = await post(gateway.url, JSON.stringify(message), headers)
    expect(parse(text)).toMatchObject({
      error: { data: { supported: ['2026-07-28'], requested: '2031-01-01' } },
    })
  })

  test.each(['GET', 'DELETE', 'PUT', 'PATCH'])('the HTTP method %s is refused', async (method) => {
    const reply = await whole(await open(gateway.url, { method, headers: { accept: 'text/event-stream' } }))
    expect([reply.status, reply.headers['allow']]).toEqual([405, 'POST'])
    expect(parse(reply.text)).toMatchObject({ id: null, error: { data: { code: 'METHOD_NOT_ALLOWED' } } })
  })

  test('a posted response is refused', async () => {
    const { status, text } = await post(gateway.url, '{"jsonrpc":"2.0","id":1,"result":{}}', {
      'mcp-protocol-version': '2026-07-28',
    })
    expectError(status, text, { status: 400, code: -32600, error: 'SESSION_REQUIRED' })
  })

  test.each(['[]', '[1]', '[[]]'])('the array %s is refused', async (body) => {
    const { status, text } = await post(gateway.url, body, { 'mcp-protocol-version': '2026-07-28' })
    expect([status, parse(text)]).toMatchObject([400, { error: { code: -32600 } }])
  })
})

const wrongTypes = [
  { 'content-type': 'text/plain' },
  { 'content-type': 'application/x-www-form-urlencoded' },
  { 'content-type': 'application/jsonp' },
  { 'content-type': '' },
]
const fronts = [
  ['2026-07-28', (): Promise<Front> => Promise.resolve(modernFront(gateway.url))],
  ['2025-11-25', (): Promise<Front> => sessionFront(gateway.url)],
] as const

describe.each(fronts)('over HTTP a client of %s', (revision, connect) => {
  test.each(wrongTypes)('C040 that sends %o is refused', async (headers) => {
    const front = await connect()
    const { status, text } = await front.send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers)
    expectError(status, text, { status: 415, code: -32600, error: 'UNSUPPORTED_MEDIA_TYPE' })
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test.each(['text/html', 'application/xml, image/png'])(
    'C041 that accepts only %s is refused',
    async (accept) => {
      const front = await connect()
      const { message, headers } = modern('tools/list')
      const body = revision === '2026-07-28' ? message : { jsonrpc: '2.0', id: 1, method: 'tools/list' }
      const { status, text } = await front.send(JSON.stringify(body), {
        ...(revision === '2026-07-28' && headers),
        accept,
      })
      expectError(status, text, { status: 406, code: -32600, error: 'NOT_ACCEPTABLE' })
      await front.close()
    },
  )
})
