import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { toolList, welcome } from '../../support/faults.ts'
import { type FaultyServer, startFaultyServer } from '../../support/faulty-server.ts'
import { clientOf, codeOf, gatewayTo } from '../../support/journey.ts'
import { bodyOf } from '../../support/server/http-reply.ts'
import type { Json } from '../../support/server/json.ts'

const page = '<html><body><h1>502</h1> at main (/srv/app/main.js:1:2) db.internal</body></html>'

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a server that fails with an HTTP error, for a client of %s,',
  (revision) => {
    let server: FaultyServer

    beforeAll(async () => {
      const answering =
        (status: number, headers: Record<string, string> = {}) =>
        (response: ServerResponse) =>
          void response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(page)
      const saying = (status: number, type: string, body: string) => (response: ServerResponse) =>
        void response.writeHead(status, { 'content-type': type }).end(body)
      server = await startFaultyServer({
        bad_gateway_page: answering(502),
        slow_down: answering(429, { 'retry-after': '17' }),
        not_here: answering(404),
        unfit: answering(422),
        spent: saying(429, 'text/plain', 'Quota exceeded for key k-1; db.internal'),
        spent_json: saying(403, 'application/json', '{"error":"quota_exceeded: quota exceeded"}'),
        spent_late: saying(429, 'text/plain', `${'x'.repeat(5000)} quota exceeded`),
      })
    })
    afterAll(() => server.close())

    async function replyTo(name: string, settings: Json = {}) {
      const gateway = await gatewayTo({ one: { url: server.url, revision: '2025-11-25', ...settings } })
      const client = await clientOf(gateway, { revision, handshake: revision === '2025-11-25' })
      return client.request('tools/call', { name })
    }

    test('C045 C181 has its HTML page converted to a JSON-RPC error', async () => {
      const reply = await replyTo('bad_gateway_page')
      expect(reply.error).toMatchObject({
        code: -32006,
        data: { code: 'SERVER_UNAVAILABLE', category: 'transient' },
      })
      expect(reply.text).not.toMatch(/html|main\.js|internal/)
    })

    test('C187 has its Retry-After respected', async () => {
      const { error } = await replyTo('slow_down')
      expect(error).toMatchObject({
        code: -32003,
        data: {
          code: 'RATE_LIMIT_EXCEEDED',
          category: 'rate_limited',
          retry_after_seconds: 17,
          retryAfter: 17,
          requestId: expect.stringMatching(/./),
        },
      })
    })

    test.each([
      ['spent', 'QUOTA_EXHAUSTED'],
      ['spent_json', 'QUOTA_EXHAUSTED'],
      // Only the beginning is matched.
      ['spent_late', 'RATE_LIMIT_EXCEEDED'],
    ])('has its error text matched against its error rules, and not forwarded: %s', async (name, code) => {
      const errors = [
        { match: 'quota exceeded', code: 'QUOTA_EXHAUSTED', suggestion: 'Wait for the next hour.' },
      ]
      const reply = await replyTo(name, { errors })
      expect(codeOf(reply)).toBe(code)
      expect(reply.text).not.toMatch(/k-1|internal|quota.exceeded/i)
      expect(codeOf(await replyTo(name))).not.toBe('QUOTA_EXHAUSTED')
    })

    test('C146 has its status mapped to an error code', async () => {
      expect(codeOf(await replyTo('unfit'))).toBe('INVALID_INPUT')
    })
  },
)

test.each([429, 403])(
  'the error text of an HTTP+SSE server with HTTP %s is matched against its error rules too',
  async (status) => {
    const errors = [{ match: 'quota exceeded', code: 'QUOTA_EXHAUSTED' }]
    const gateway = await gatewayTo({ one: { url: await sseServer(status), transport: 'sse', errors } })
    const reply = await (await clientOf(gateway)).request('tools/call', { name: 'spent' })
    expect(codeOf(reply)).toBe('QUOTA_EXHAUSTED')
    expect(reply.text).not.toMatch(/internal|quota exceeded/i)
  },
)

/** A server over HTTP+SSE that refuses calls with this status. */
async function sseServer(status: number): Promise<string> {
  let stream: ServerResponse | undefined
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      stream = response.writeHead(200, { 'content-type': 'text/event-stream' })
      stream.write('event: endpoint\ndata: /messages\n\n')
      return
    }
    void bodyOf(request).then((text) => {
      const { id, method } = JSON.parse(text)
      if (method === 'tools/call') return response.writeHead(status).end('Quota exceeded; db.internal')
      const tools = { jsonrpc: '2.0', id, result: { tools: toolList(['spent']) } }
      if (id !== undefined)
        stream?.write(`data: ${JSON.stringify(method === 'initialize' ? welcome(id) : tools)}\n\n`)
      return response.writeHead(202).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/sse`
}
