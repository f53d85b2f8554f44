import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as zlib from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { MAX_MESSAGE_BYTES } from '../../../../src/core/spool.ts'
import type { HttpAnswer } from '../../../../src/upstream/transport/auth-retry.ts'
import {
  baseHeaders,
  createHttpClient,
  exchangeHttp,
} from '../../../../src/upstream/transport/http-client.ts'
import { until } from '../../../support/condition.ts'

const MESSAGE = JSON.stringify({ jsonrpc: '2.0', id: 1, result: { text: 'grüße 山川 😀 '.repeat(20) } })
const BYTES = Buffer.from(MESSAGE)
const EVENT = Buffer.from(`event: message\ndata: ${MESSAGE}\n\n`)
const MARK = Buffer.from([0xef, 0xbb, 0xbf])

/** A body in a coding, by its `Content-Encoding`. */
const codings: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  gzip: zlib.gzipSync,
  'x-gzip': zlib.gzipSync,
  GZip: zlib.gzipSync,
  deflate: zlib.deflateSync,
  br: zlib.brotliCompressSync,
  zstd: zlib.zstdCompressSync,
  identity: (body) => body,
  'identity, gzip': zlib.gzipSync,
  'gzip, br': (body) => zlib.brotliCompressSync(zlib.gzipSync(body)),
  'deflate,gzip ,zstd': (body) => zlib.zstdCompressSync(zlib.gzipSync(zlib.deflateSync(body))),
  'gzip,gzip,gzip,gzip,gzip': (body) =>
    Array.from({ length: 5 }).reduce<Buffer>((at) => zlib.gzipSync(at), body),
  // What `fetch` reads although it is not what the header says.
  ' deflate': zlib.deflateRawSync,
  'gzip ': (body) => zlib.gzipSync(body).subarray(0, -8),
  'UTF-8': (body) => body,
  'utf-8, gzip': (body) => body,
  '': (body) => body,
}

async function serverOf(listener: RequestListener): Promise<URL> {
  const server = createServer(listener)
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`)
}

interface Got extends HttpAnswer {
  readonly events: readonly string[]
}

/** What one request to a server gets. */
async function got(listener: RequestListener): Promise<Got> {
  const client = createHttpClient(await serverOf(listener), {})
  onTestFinished(() => void client.connections.destroy())
  const events: string[] = []
  const answer = await exchangeHttp(client, {
    method: 'POST',
    headers: baseHeaders(client, 'POST'),
    body: '{}',
    onEvent: ({ data }) => void events.push(data),
  })
  return Object.assign(answer, { events })
}

/** A response with headers and a body. */
function responding(
  body: Buffer,
  coding: string | string[],
  type = 'application/json',
  status = 200,
): RequestListener {
  return (_request, response) => {
    if (coding !== '') response.setHeader('content-encoding', coding)
    response.writeHead(status, { 'content-type': type }).end(body)
  }
}

describe.each(Object.entries(codings))('a body with Content-Encoding "%s"', (coding, encode) => {
  test('is decoded in JSON', async () => {
    expect((await got(responding(encode(BYTES), coding))).body).toBe(MESSAGE)
  })

  test('is decoded in an event stream', async () => {
    expect((await got(responding(encode(EVENT), coding, 'text/event-stream'))).events).toEqual([MESSAGE])
  })

  test('is decoded in a refusal', async () => {
    expect((await got(responding(encode(BYTES), coding, 'application/json', 400))).body).toBe(MESSAGE)
  })

  // Node.js does not decode a list with `identity`.
  test.skipIf(coding.includes('identity,'))('is what fetch reads', async () => {
    const url = await serverOf(responding(encode(BYTES), coding))
    expect(await (await fetch(url)).text()).toBe(MESSAGE)
  })
})

test('several Content-Encoding lines are one list', async () => {
  const body = zlib.brotliCompressSync(zlib.gzipSync(BYTES))
  expect((await got(responding(body, ['gzip', 'br']))).body).toBe(MESSAGE)
})

test.each(['gzip', 'br', 'deflate', 'zstd'])('a response without a body may say %s', async (coding) => {
  const answer = await got(responding(Buffer.alloc(0), coding, 'application/json', 202))
  expect(answer).toMatchObject({ status: 202, body: '' })
})

test.each(['utf-8', 'utf-16', 'ISO-8859-1', 'nonsense'])(
  'JSON is UTF-8, also with charset=%s',
  async (charset) => {
    const answer = await got(responding(BYTES, '', `application/json; charset=${charset}`))
    expect(answer.body).toBe(MESSAGE)
  },
)

test.each(['', 'gzip'])('a byte order mark is no part of JSON or of events (%s)', async (coding) => {
  const encode = codings[coding] ?? ((body) => body)
  const json = await got(responding(encode(Buffer.concat([MARK, BYTES])), coding))
  const stream = await got(responding(encode(Buffer.concat([MARK, EVENT])), coding, 'text/event-stream'))
  expect([json.body, stream.events]).toEqual([MESSAGE, [MESSAGE]])
})

test.each(['gzip', 'deflate', 'br', 'zstd', 'gzip, br'])(
  'plain JSON that says %s is refused with the reason',
  async (coding) => {
    const answer = got(responding(BYTES, coding))
    await expect(answer).rejects.toMatchObject({
      code: 'UPSTREAM_ERROR',
      message: expect.stringContaining(`(${coding})`),
    })
  },
)

test.each(['application/json', 'text/event-stream'])(
  'a small body that becomes a large one is refused (%s)',
  async (type) => {
    const large = Buffer.concat([Buffer.from('data: '), Buffer.alloc(MAX_MESSAGE_BYTES + 100_000, 'x')])
    const answer = got(responding(zlib.gzipSync(large), 'gzip', type))
    await expect(answer).rejects.toThrow('too large')
  },
  20_000,
)

test('events are delivered while an encoded stream is open, also if it breaks', async () => {
  const coder = zlib.createGzip({ flush: zlib.constants.Z_SYNC_FLUSH })
  const events: string[] = []
  let end = (): void => undefined
  const url = await serverOf((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' })
    coder.on('data', (chunk: Buffer) => response.write(chunk))
    coder.write(EVENT)
    end = () => {
      coder.write(EVENT)
      coder.flush(() => setImmediate(() => response.destroy()))
    }
  })
  const client = createHttpClient(url, {})
  onTestFinished(() => void client.connections.destroy())
  const answer = exchangeHttp(client, {
    method: 'GET',
    headers: baseHeaders(client, 'GET'),
    onEvent: ({ data }) => void events.push(data),
  })
  await until(() => events.length === 1, 'the first event')
  end()
  expect(await answer).toMatchObject({ isEventStream: true, isComplete: false })
  expect(events).toEqual([MESSAGE, MESSAGE])
})

test('a request for an encoded stream can be cancelled', async () => {
  const url = await serverOf((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'br' })
    response.flushHeaders()
  })
  const client = createHttpClient(url, {})
  onTestFinished(() => void client.connections.destroy())
  let abort = (): void => undefined
  const answer = exchangeHttp(client, {
    method: 'GET',
    headers: baseHeaders(client, 'GET'),
    onAbortable: (given) => void (abort = given),
    onHead: () => abort(),
  })
  await expect(answer).rejects.toMatchObject({ code: 'CANCELLED' })
})
