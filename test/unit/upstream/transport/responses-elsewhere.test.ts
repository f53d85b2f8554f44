import type { ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { until } from '../../../support/condition.ts'
import {
  answerTo,
  connectTo,
  listOf,
  type Posted,
  sessionServer,
  shortDelays,
} from '../../../support/session-server.ts'

const EVENTS = { 'content-type': 'text/event-stream' }

/** A server whose responses to lists come on its GET stream, however it answers the posts of them. */
function onStream(answer: (response: ServerResponse, message: Posted) => void, isEarly = false) {
  let stream: ServerResponse | undefined
  return sessionServer({
    get: (response) => {
      stream = response.writeHead(200, EVENTS)
      stream.flushHeaders()
    },
    post: (message, response) => {
      if (message.method !== 'tools/list') return false
      const send = (): unknown => stream?.write(`data: ${answerTo(message)}\n\n`)
      if (isEarly) send()
      answer(response, message)
      if (!isEarly) setTimeout(send, 5)
      return true
    },
  })
}

const answers: Readonly<Record<string, (response: ServerResponse) => void>> = {
  '202': (response) => response.writeHead(202).end(),
  '202 with a text': (response) => response.writeHead(202, { 'content-type': 'text/plain' }).end('Accepted'),
  '202 with JSON that is no response': (response) =>
    response.writeHead(202, { 'content-type': 'application/json' }).end('null'),
  'a stream that ends at once': (response) => response.writeHead(200, EVENTS).end(),
  'a stream that ends after a notification': (response) =>
    response
      .writeHead(200, EVENTS)
      .end('data: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\n\n'),
  'a stream that stays open': (response) => response.writeHead(200, EVENTS).flushHeaders(),
}

describe.each(Object.entries(answers))('a request that is answered with %s', (_name, answer) => {
  test.each([false, true])('gets the response that comes on the GET stream (before: %s)', async (isEarly) => {
    const { url } = await onStream(answer, isEarly)
    const connection = await connectTo(url)
    for (let call = 0; call < 3; call++) expect(await listOf(connection)).toHaveLength(1)
    expect(await Promise.all([1, 2, 3].map(() => listOf(connection)))).toHaveLength(3)
  })
})

test('a response on the GET stream is awaited while the stream is opened again', async () => {
  shortDelays()
  const waiting: Posted[] = []
  let first: ServerResponse | undefined
  const { url, counts } = await sessionServer({
    get: (response) => {
      response.writeHead(200, EVENTS).flushHeaders()
      if (first) response.write(waiting.map((each) => `data: ${answerTo(each)}\n\n`).join(''))
      else first = response
    },
    post: (message, response) => {
      if (message.method !== 'tools/list') return false
      waiting.push(message)
      response.writeHead(202).end()
      return true
    },
  })
  const listed = listOf(await connectTo(url))
  await until(() => waiting.length === 1, 'the request')
  first?.end()
  expect(await listed).toHaveLength(1)
  expect(counts).toMatchObject({ initialize: 1, GET: 2, 'tools/list': 1 })
})

describe.each([405, 404, 501])('a server that answers GET with %i', (code) => {
  test('fails a request that it answers with 202 at once', async () => {
    const { url } = await sessionServer({
      get: (response) => void response.writeHead(code).end(),
      post: ({ method }, response) => method === 'tools/list' && !!response.writeHead(202).end(),
    })
    expect(await listOf(await connectTo(url))).toBe('UPSTREAM_ERROR')
  })

  test('fails a request that waits for the GET stream when it refuses that', async () => {
    let refuse = (): void => undefined
    const { url, counts } = await sessionServer({
      get: (response) => void (refuse = () => void response.writeHead(code).end()),
      post: ({ method }, response) => method === 'tools/list' && !!response.writeHead(202).end(),
    })
    const listed = listOf(await connectTo(url))
    await until(() => counts['tools/list'] === 1, 'the request')
    refuse()
    expect(await listed).toBe('UPSTREAM_ERROR')
  })
})

test('a stream that breaks without an event id fails its request at once', async () => {
  const { url } = await sessionServer({
    get: (response) => response.writeHead(200, EVENTS).flushHeaders(),
    post: ({ method }, response) => {
      if (method !== 'tools/list') return false
      response.writeHead(200, EVENTS).write(': open\n\n', () => response.destroy())
      return true
    },
  })
  expect(await listOf(await connectTo(url))).toBe('OUTCOME_UNKNOWN')
})

test('a request whose stream ended early does not wait long for its response elsewhere', async () => {
  const delays = shortDelays()
  const { url } = await sessionServer({
    get: (response) => response.writeHead(200, EVENTS).flushHeaders(),
    post: ({ method }, response) => method === 'tools/list' && !!response.writeHead(200, EVENTS).end(),
  })
  expect(await listOf(await connectTo(url))).toBe('OUTCOME_UNKNOWN')
  expect(delays).toEqual([5000])
})

test('initialize that is answered with 202 fails at once, since there is no other stream yet', async () => {
  const { url } = await sessionServer({
    post: (_message, response) => !!response.writeHead(202).end(),
  })
  await expect(connectTo(url)).rejects.toMatchObject({ code: 'UPSTREAM_ERROR' })
})

test('a caller that gives up does not wait for the GET stream', async () => {
  const { url, counts } = await sessionServer({
    get: (response) => response.writeHead(200, EVENTS).flushHeaders(),
    post: ({ method }, response) => method === 'tools/list' && !!response.writeHead(202).end(),
  })
  const connection = await connectTo(url)
  const controller = new AbortController()
  const listed = listOf(connection, controller.signal)
  await until(() => counts['tools/list'] === 1, 'the request')
  controller.abort()
  expect(await listed).toBe('CANCELLED')
  expect(connection.isBusy).toBe(false)
})

test.each([true, false])(
  'a response may come on the open stream of another request (after 202: %s)',
  async (isAfter) => {
    const streams: ServerResponse[] = []
    const { url } = await sessionServer({
      get: (response) => response.writeHead(200, EVENTS).flushHeaders(),
      post: (message, response) => {
        if (message.method !== 'tools/list') return false
        const [stream] = streams
        if (!stream) {
          response.writeHead(200, EVENTS).flushHeaders()
          return streams.push(response) > 0
        }
        const send = (): unknown => stream.write(`data: ${answerTo(message)}\n\n`)
        if (isAfter) setTimeout(send, 5)
        else send()
        response.writeHead(202).end()
        return true
      },
    })
    const connection = await connectTo(url)
    const [first, controller] = [streams, new AbortController()]
    const held = listOf(connection, controller.signal)
    await until(() => first.length === 1, 'the open stream')
    expect(await listOf(connection)).toHaveLength(1)
    controller.abort()
    expect(await held).toBe('CANCELLED')
  },
)

test('over HTTP+SSE, the response comes on the stream however posts are answered', async () => {
  for (const code of [200, 202, 204]) {
    let stream: ServerResponse | undefined
    const { url } = await sessionServer({
      get: (response) => {
        stream = response.writeHead(200, EVENTS)
        stream.write('event: endpoint\ndata: /messages\n\n')
      },
      post: (message, response) => {
        response.writeHead(code).end(code === 200 ? 'ok' : undefined)
        if (message.id !== undefined) stream?.write(`event: message\ndata: ${answerTo(message)}\n\n`)
        return true
      },
    })
    expect(await listOf(await connectTo(url, 'sse'))).toHaveLength(1)
  }
})
