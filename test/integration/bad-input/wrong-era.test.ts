import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { open, post, usual, whole } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import {
  type Front,
  initialize,
  modern,
  modernFront,
  sessionFront,
  wellAnswered,
} from '../../support/fronts.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { structured } from '../../support/structured-error.ts'

let server: FakeServer
let gateway: GatewayProcess

beforeAll(async () => {
  server = await startFakeServer({ revision: '2026-07-28', transport: 'http' })
  gateway = await startGatewayProcess({ upstreams: { fake: server.url } })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

const meta = (key: string): string => `io.modelcontextprotocol/${key}`

/** A sound request of 2026-07-28 with something of its envelope or its headers changed. */
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
  { name: 'another version in the header', headers: { 'mcp-protocol-version': '2025-11-25' }, ...mismatch },
  { name: 'no Mcp-Method', headers: { 'mcp-method': undefined }, ...mismatch },
  { name: 'another Mcp-Method', headers: { 'mcp-method': 'tools/list' }, ...mismatch },
  { name: 'Mcp-Method in another case', headers: { 'mcp-method': 'Tools/Call' }, ...mismatch },
  { name: 'no Mcp-Name', headers: { 'mcp-name': undefined }, ...mismatch },
  { name: 'another Mcp-Name', headers: { 'mcp-name': 'delete_all' }, ...mismatch },
  { name: 'Mcp-Name in broken base64', headers: { 'mcp-name': '=?base64?ZWNo*?=' }, ...mismatch },
  { name: 'a mirrored argument without its header', params: regions, ...mismatch },
  {
    name: 'a mirrored argument unlike its header',
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
    name: 'no claim in the body',
    meta: { [meta('protocolVersion')]: undefined },
    headers: { 'mcp-protocol-version': '2026-07-28' },
    ...params,
  },
  { name: 'no capabilities', meta: { [meta('clientCapabilities')]: undefined }, ...params },
  { name: 'capabilities that are a list', meta: { [meta('clientCapabilities')]: [] }, ...params },
  { name: 'client info that is text', meta: { [meta('clientInfo')]: 'me' }, ...params },
  { name: 'an unknown log level', meta: { [meta('logLevel')]: 'loud' }, ...params },
  {
    name: 'a version of the future',
    meta: { [meta('protocolVersion')]: '2031-01-01' },
    headers: { 'mcp-protocol-version': '2031-01-01' },
    ...version,
  },
  {
    name: 'a version with a handshake',
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
  { name: 'a method nobody has', method: 'no/such/method', params: {}, ...unknown },
  { name: 'a state that is a number', params: { name: 'echo', requestState: 7 }, ...state },
  { name: 'a forged state', params: { name: 'echo', requestState: 'AAAA'.repeat(30) }, ...state },
  { name: 'an empty state', params: { name: 'echo', requestState: '' }, ...state },
]

describe('a request of 2026-07-28 with', () => {
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

  test('an unsupported version is told which there are', async () => {
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

  test('a posted answer is refused', async () => {
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
  test.each(wrongTypes)('that sends %o is refused', async (headers) => {
    const front = await connect()
    const { status, text } = await front.send('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', headers)
    expectError(status, text, { status: 415, code: -32600, error: 'UNSUPPORTED_MEDIA_TYPE' })
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test.each(['text/html', 'application/xml, image/png'])(
    'that only accepts %s is refused',
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

describe('a client of an older revision', () => {
  const list = '{"jsonrpc":"2.0","id":3,"method":"tools/list"}'

  test.each<[string, HeaderMap, number, string]>([
    ['no session', {}, 400, 'SESSION_REQUIRED'],
    ['a session nobody has', { 'mcp-session-id': 'none' }, 404, 'SESSION_NOT_FOUND'],
    ['an empty session', { 'mcp-session-id': '' }, 404, 'SESSION_NOT_FOUND'],
    ['a session with odd bytes', { 'mcp-session-id': '\u00ff\u00fe' }, 404, 'SESSION_NOT_FOUND'],
    ['an enormous session', { 'mcp-session-id': 'x'.repeat(8000) }, 404, 'SESSION_NOT_FOUND'],
  ])('with %s is refused', async (_name, headers, status, error) => {
    const reply = await post(gateway.url, list, headers)
    expectError(reply.status, reply.text, { status, code: -32600, error })
  })

  test('does not reach a session through the URL of another server', async () => {
    const { session, close } = await sessionFront(gateway.url)
    const reply = await post(`${gateway.url}/fake`, list, session)
    expectError(reply.status, reply.text, { status: 404, code: -32600, error: 'SESSION_NOT_FOUND' })
    await close()
  })

  test.each(['1999-01-01', 'latest', '2025-11-25 '.repeat(20)])(
    'with the version header %j is refused',
    async (header) => {
      const front = await sessionFront(gateway.url)
      const { status, text } = await front.send(list, { 'mcp-protocol-version': header })
      expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
      expect(await front.call()).toBe(wellAnswered)
      await front.close()
    },
  )

  test.each<[string, Json]>([
    ['no version', { capabilities: {} }],
    ['a version that is a number', { protocolVersion: 1, capabilities: {} }],
    ['no capabilities', { protocolVersion: '2025-11-25' }],
    ['capabilities that are null', { protocolVersion: '2025-11-25', capabilities: null }],
  ])('whose initialize has %s gets no session', async (_name, given) => {
    const reply = await post(gateway.url, JSON.stringify({ ...initialize(), params: given }))
    expect(reply.headers['mcp-session-id']).toBeUndefined()
    expectError(reply.status, reply.text, { status: 200, code: -32602, error: 'INVALID_INPUT' })
  })

  test.each(['server/discover', 'subscriptions/listen'])('does not know %s', async (method) => {
    const front = await sessionFront(gateway.url)
    const { status, text } = await front.send(JSON.stringify({ jsonrpc: '2.0', id: 3, method }))
    expectError(status, text, { status: 200, code: -32601, error: 'UNSUPPORTED_OPERATION' })
    await front.close()
  })

  test.each<[string, string]>([
    ['an empty batch', '[]'],
    ['a batch of too many', `[${Array.from({ length: 101 }, () => list).join(',')}]`],
    ['a batch with initialize', `[${list},${JSON.stringify(initialize('2025-03-26', 4))}]`],
    ['a batch of junk', '[1,{"jsonrpc":"2.0"}]'],
  ])('of 2025-03-26 that sends %s is refused', async (_name, batch) => {
    const front = await sessionFront(gateway.url, '2025-03-26')
    const { status, text } = await front.send(batch)
    expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test.each(['2025-06-18', '2025-11-25'])('of %s may send no batch', async (revision) => {
    const front = await sessionFront(gateway.url, revision)
    const { status, text } = await front.send(`[${list}]`)
    expectError(status, text, { status: 400, code: -32600, error: 'INVALID_REQUEST' })
    await front.close()
  })

  test.each(['tools/call', 'initialize', 'server/discover', 'no/such'])(
    'that makes a notification of %s reaches no server',
    async (method) => {
      const front = await sessionFront(gateway.url)
      const before = server.seen.length
      const body = {
        jsonrpc: '2.0',
        method,
        params: { name: 'echo', protocolVersion: '2025-11-25', capabilities: {} },
      }
      for (const headers of [{}, { 'mcp-protocol-version': '2026-07-28' }]) {
        expect(await front.send(JSON.stringify(body), headers)).toMatchObject({ status: 202, text: '' })
      }
      expect(await front.call()).toBe(wellAnswered)
      const passed = server.seen.slice(before).flatMap(({ message }) => (message ? [message] : []))
      expect(passed.filter((each) => each['id'] === undefined)).toEqual([])
      const isCall = method === 'tools/call'
      expect(passed.filter((each) => each['method'] === method)).toHaveLength(isCall ? 1 : 0)
      await front.close()
    },
  )

  test('with a stream id nobody gave gets the stream of its session', async () => {
    const { session, close } = await sessionFront(gateway.url)
    for (const lastEventId of ['nonsense', '99-99', '0-999999999999999999999', '-']) {
      const headers = { ...usual, ...session, 'last-event-id': lastEventId }
      const stream = await open(gateway.url, { method: 'GET', headers })
      expect(stream.status).toBe(200)
      stream.destroy()
    }
    await close()
  })
})

function expectError(
  status: number | undefined,
  text: string,
  expected: { readonly status: number; readonly code: number; readonly error: string },
): void {
  const message = parse(text)
  expect([status, message], text).toMatchObject([
    expected.status,
    { jsonrpc: '2.0', error: { code: expected.code } },
  ])
  const error = isObject(message) && isObject(message['error']) ? message['error'] : {}
  // A server's own refusal of a method is relayed as it came.
  if (expected.error !== 'UPSTREAM' && isObject(error['data'])) expect(structured(error)).toBe(expected.error)
}
