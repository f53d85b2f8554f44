import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { type FakeServer, fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import {
  type Front,
  modern,
  modernFront,
  sessionFront,
  sseFront,
  wellAnswered,
} from '../../support/fronts.ts'
import { type Command, type RunningGateway, startCommand, startGateway } from '../../support/gateway.ts'
import { anyText, mutated } from '../../support/mutations.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { repetitions, seedOf } from '../../support/soak.ts'

let server: FakeServer
let gateway: RunningGateway
let stdio: Command

beforeAll(async () => {
  server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await startGateway({ listen: { legacy_sse: true }, upstreams: { fake: server.url } })
  const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
  stdio = startCommand(['stdio', '--', command, ...args])
})
afterAll(async () => {
  await stdio.close()
  await gateway.close()
  await server.close()
})

const echo = { name: 'echo', arguments: { text: 'x' }, _meta: { progressToken: 't' } }
const call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: echo }
const messages = fc.oneof(
  anyText,
  mutated(call),
  mutated(modern('tools/call', echo, 7).message),
  mutated({
    jsonrpc: '2.0',
    id: 7,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {} },
  }),
  mutated({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }),
  mutated({ jsonrpc: '2.0', id: 7, result: { action: 'accept', content: {} } }),
  mutated({
    jsonrpc: '2.0',
    id: 7,
    method: 'completion/complete',
    params: { ref: { type: 'ref/prompt', name: 'p' } },
  }),
)
/** A failure prints the seed of its run, which `FUZZ_SEED` repeats. */
const runs = { numRuns: repetitions(50, 1500), seed: seedOf('FUZZ_SEED', Date.now() | 0), endOnFailure: true }
const statuses = [200, 202, 400, 404]

function codeIn(message: Json | undefined): unknown {
  const error = message?.['error']
  return isObject(error) ? error['code'] : undefined
}

const fronts: readonly (readonly [string, () => Promise<Front>])[] = [
  ['2026-07-28', () => Promise.resolve(modernFront(gateway.url))],
  ['2025-11-25', () => sessionFront(gateway.url)],
  ['2025-03-26', () => sessionFront(gateway.url, '2025-03-26')],
]

describe.each(fronts)('over HTTP as %s', (_revision, connect) => {
  test('any text gets a valid protocol response, and the next call works', async () => {
    const front = await connect()
    const property = fc.asyncProperty(messages, async (text) => {
      const { status, message } = await front.send(text)
      const isRefused = status !== 200 && status !== 202
      expect(statuses).toContain(status)
      expect(isRefused ? codeIn(message) : 0).toEqual(expect.any(Number))
    })
    await fc.assert(property, runs)
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })

  test('any bytes are refused, and the next call works', async () => {
    const front = await connect()
    const property = fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (bytes) => {
      const { status, message } = await front.send(Buffer.from(bytes))
      expect([status, message]).toMatchObject([400, { error: { code: expect.any(Number) } }])
    })
    await fc.assert(property, runs)
    expect(await front.call()).toBe(wellAnswered)
    await front.close()
  })
})

test('any headers get a valid protocol response, and the next call works', async () => {
  const value = fc.oneof(
    fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)) }),
    fc.constantFrom(
      '2026-07-28',
      '2025-11-25',
      '=?base64?',
      '=?base64?YQ==?=',
      'tools/call',
      'echo',
      '\u00ff',
      '9'.repeat(400),
    ),
  )
  const names = [
    'mcp-protocol-version',
    'mcp-method',
    'mcp-name',
    'mcp-session-id',
    'mcp-param-x',
    'last-event-id',
    'accept',
    'x-request-id',
    'traceparent',
  ]
  const { message, headers } = modern('tools/call', echo)
  const property = fc.asyncProperty(fc.dictionary(fc.constantFrom(...names), value), async (odd) => {
    const { status } = await post(gateway.url, JSON.stringify(message), { ...headers, ...odd })
    expect([200, 400, 404, 406]).toContain(status)
  })
  await fc.assert(property, runs)
  expect(await modernFront(gateway.url).call()).toBe(wellAnswered)
})

test('over HTTP+SSE any text is accepted or refused, and the next call works', async () => {
  const front = await sseFront(gateway.origin)
  // A POST is answered at once; the call at the end has to get through the rest of the stream.
  const property = fc.asyncProperty(mutated(call), async (text) => {
    const { status } = await front.send(text)
    expect([202, 400]).toContain(status)
  })
  await fc.assert(property, { ...runs, numRuns: repetitions(25, 600) })
  expect(await front.call()).toBe(wellAnswered)
  await front.close()
})

test('over stdio any lines get valid messages in response, and the next call works', async () => {
  let round = 0
  const property = fc.asyncProperty(
    fc.array(fc.oneof(messages, fc.uint8Array({ maxLength: 100 })), { maxLength: 20 }),
    async (given) => {
      const from = stdio.stdout().length
      const id = `sync-${++round}`
      const lines = given.map((each) => Buffer.concat([Buffer.from(each), Buffer.from('\n')]))
      stdio.stdin.write(
        Buffer.concat([...lines, Buffer.from(`{"jsonrpc":"2.0","id":"${id}","method":"ping"}\n`)]),
      )
      const output = await until(() => {
        const text = stdio.stdout().slice(from)
        return text.includes(`"${id}"`) && text.endsWith('\n') && text
      }, 'the answer to a ping')
      expect(
        output
          .split('\n')
          .slice(0, -1)
          .filter((line) => !isObject(parse(line))),
      ).toEqual([])
    },
  )
  stdio.stdin.write(
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}\n',
  )
  await until(() => stdio.stdout().includes('"id":1'), 'the handshake')
  await fc.assert(property, { ...runs, numRuns: repetitions(25, 600) })
  expect(stdio.stderr()).not.toContain('"level":"error"')
})

test('the gateway logs no error for random input', async () => {
  const { message, headers } = modern('com.example/last')
  await post(gateway.url, JSON.stringify(message), headers)
  await gateway.logged(({ method }) => method === 'com.example/last')
  expect(gateway.log().filter(({ level }) => level === 'error')).toEqual([])
})
