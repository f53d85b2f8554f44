import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type FaultyServer, startFaultyServer } from '../../support/faulty-server.ts'
import { clientOf, codeOf, gatewayTo } from '../../support/journey.ts'

const page = '<html><body><h1>502</h1> at main (/srv/app/main.js:1:2) db.internal</body></html>'

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a server that answers in HTTP, for a client of %s,',
  (revision) => {
    let server: FaultyServer

    beforeAll(async () => {
      const answering =
        (status: number, headers: Record<string, string> = {}) =>
        (response: ServerResponse) =>
          void response.writeHead(status, { 'content-type': 'text/html', ...headers }).end(page)
      server = await startFaultyServer({
        bad_gateway_page: answering(502),
        slow_down: answering(429, { 'retry-after': '17' }),
        not_here: answering(404),
        unfit: answering(422),
      })
    })
    afterAll(() => server.close())

    async function replyTo(name: string) {
      const gateway = await gatewayTo({ one: { url: server.url, revision: '2025-11-25' } })
      const client = await clientOf(gateway, { revision, handshake: revision === '2025-11-25' })
      return client.request('tools/call', { name })
    }

    test('C045 C181 has its page turned into an error of JSON-RPC', async () => {
      const reply = await replyTo('bad_gateway_page')
      expect(reply.error).toMatchObject({
        code: -32006,
        data: { code: 'SERVER_UNAVAILABLE', category: 'transient' },
      })
      expect(reply.text).not.toMatch(/html|main\.js|internal/)
    })

    test('C187 is heard when it says how long to wait', async () => {
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

    test('C146 is told by its status what it means', async () => {
      expect(codeOf(await replyTo('unfit'))).toBe('INVALID_INPUT')
    })
  },
)
