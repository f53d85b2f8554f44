import type { ServerResponse } from 'node:http'
import { setTimeout as after } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { until } from '../../../support/condition.ts'
import { connectTo, listOf, sessionServer, shortDelays } from '../../../support/session-server.ts'

/** The number of attempts that fail in succession before the stream is given up. */
const ATTEMPTS = 9

type Answer = (response: ServerResponse) => unknown

const status =
  (code: number, type = 'application/json'): Answer =>
  (response) =>
    response.writeHead(code, { 'content-type': type }).end('{}')
const late =
  (answer: Answer): Answer =>
  (response) =>
    after(15).then(() => answer(response))
const html: Answer = status(200, 'text/html')
const emptyStream: Answer = (response) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end()
const comment: Answer = (response) =>
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': nothing\n\n')
const event =
  (text: string): Answer =>
  (response) =>
    response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`${text}\n\n`)
const endlessRedirect: Answer = (response) => response.writeHead(307, { location: '/mcp' }).end()
const cut: Answer = (response) => response.destroy()

/** What a server without the stream answers to GET, and how often it gets one. */
const refusals: Readonly<Record<string, readonly [Answer, number]>> = {
  '400': [status(400), 1],
  '401': [status(401), 1],
  '403': [status(403), 1],
  '404': [status(404), 1],
  '404 late': [late(status(404)), 1],
  '404 as HTML, late': [late(status(404, 'text/html')), 1],
  '400 late': [late(status(400)), 1],
  '405': [status(405), 1],
  '405 late': [late(status(405)), 1],
  '406': [status(406), 1],
  '410': [status(410), 1],
  '501': [status(501), 1],
  '204': [(response) => response.writeHead(204).end(), 1],
  '200 with JSON': [status(200), 1],
  '200 with HTML': [html, 1],
  '200 with HTML, late': [late(html), 1],
  '302': [(response) => response.writeHead(302, { location: 'https://login.example/' }).end(), 1],
  'redirects to itself': [endlessRedirect, 6],
  '408': [status(408), ATTEMPTS],
  '409': [status(409), ATTEMPTS],
  '429': [status(429), ATTEMPTS],
  '500': [status(500), ATTEMPTS],
  '503 late': [late(status(503)), ATTEMPTS],
  'a stream that ends at once': [emptyStream, ATTEMPTS],
  'a stream that ends after a comment': [comment, ATTEMPTS],
  'a stream that ends after an empty event': [event('data:'), ATTEMPTS],
  'a stream that ends after text': [event('data: ready'), ATTEMPTS],
  'a closed connection': [cut, ATTEMPTS],
}

describe.each(Object.entries(refusals))('a server that answers GET with %s', (_name, [get, gets]) => {
  test.each([true, false])(
    'gets one handshake, and calls pass (without a session: %s)',
    async (hasNoSession) => {
      const delays = shortDelays()
      const { url, counts } = await sessionServer({ get, hasNoSession })
      const connection = await connectTo(url)
      expect(await listOf(connection)).toHaveLength(1)
      await until(() => counts['GET'] === gets, `${gets} requests for the stream`)
      for (let call = 0; call < 3; call++) expect(await listOf(connection)).toHaveLength(1)
      expect(counts).toMatchObject({ initialize: 1, GET: gets, 'tools/list': 4 })
      expect(counts['ping'] ?? 0).toBeLessThanOrEqual(1)
      expect(delays.filter((delay) => delay > 30_000)).toEqual([])
      if (gets === ATTEMPTS)
        expect(delays).toEqual(
          [2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000, 30_000].slice(0, delays.length),
        )
    },
  )
})

test.each([404, 400])('a session that posts and GET refuse with %i is begun again', async (code) => {
  shortDelays()
  let stream: ServerResponse | undefined
  let known = ''
  const { url, counts } = await sessionServer({
    get: (response, { headers }) => {
      if (headers['mcp-session-id'] !== known) return void response.writeHead(code).end()
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      stream.write('data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n')
    },
    post: ({ method }, response, { headers }) => {
      if (method === 'initialize') known = `session-${counts['initialize'] ?? 0}`
      else if (headers['mcp-session-id'] !== known) return !!response.writeHead(code).end('no such session')
      return false
    },
  })
  const connection = await connectTo(url)
  await until(() => stream, 'the stream')
  known = 'none'
  stream?.end()
  await until(() => counts['initialize'] === 2, 'another handshake')
  expect(await listOf(connection)).toHaveLength(1)
  expect(counts).toMatchObject({ initialize: 2 })
})

test('a server that loses each session is left alone after some handshakes, each later than the one before', async () => {
  const delays = shortDelays()
  const { url, counts } = await sessionServer({
    get: status(404),
    post: ({ method }, response) => method === 'ping' && !!response.writeHead(404).end(),
  })
  const connection = await connectTo(url)
  await until(() => counts['GET'] === ATTEMPTS, 'the last attempt')
  for (let call = 0; call < 3; call++) expect(await listOf(connection)).toHaveLength(1)
  expect(counts).toMatchObject({ initialize: ATTEMPTS, GET: ATTEMPTS })
  expect(delays).toEqual([4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000])
})

test('a ping that the server does not know shows that it knows the session', async () => {
  const unknown = '{"jsonrpc":"2.0","id":"ping","error":{"code":-32601,"message":"Method not found"}}'
  const { url, counts } = await sessionServer({
    get: status(404),
    post: ({ method }, response) => method === 'ping' && !!response.writeHead(404).end(unknown),
  })
  const connection = await connectTo(url)
  await until(() => counts['ping'] === 1, 'a ping')
  expect(await listOf(connection)).toHaveLength(1)
  expect(counts).toMatchObject({ initialize: 1, GET: 1 })
})

test('an error that a server sends with 404 is the answer, and not a lost session', async () => {
  const { url, counts } = await sessionServer({
    post: ({ id, method }, response) => {
      if (method !== 'tools/list') return false
      const error = { code: -32602, message: 'Unknown cursor' }
      return !!response.writeHead(404).end(JSON.stringify({ jsonrpc: '2.0', id, error }))
    },
  })
  const connection = await connectTo(url)
  expect(await listOf(connection)).toBe('UPSTREAM_ERROR')
  expect(counts).toMatchObject({ initialize: 1, 'tools/list': 1 })
})

test.each([
  ['id: 1\nretry: 1000\ndata:', [1000, 2000, 4000, 5000, 5000]],
  ['id: 1\nretry: 0\ndata:', [1600, 3200, 5000, 5000]],
  ['retry: 0\ndata: {"jsonrpc":"2.0","method":"notifications/x"}', [1600, 3200, 5000, 5000]],
  ['id: 1\nretry: 9000\ndata:', [9000, 9000, 9000]],
])('a stream that the server ends after %j is opened again, later each time', async (text, expected) => {
  const delays = shortDelays()
  const { url, counts } = await sessionServer({ get: event(text) })
  await connectTo(url)
  await until(() => (counts['GET'] ?? 0) > 3 * ATTEMPTS, 'many requests for the stream')
  expect(counts).toMatchObject({ initialize: 1 })
  expect(delays.slice(0, expected.length)).toEqual(expected)
})
