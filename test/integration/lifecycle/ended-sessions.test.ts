import { PassThrough } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { codeOf, httpServer } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { serveStdio } from '../../../src/downstream/stdio.ts'
import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'
import type { Revision } from '../../support/server/revisions.ts'
import { silentLog } from '../../support/silent-log.ts'

async function gatewayToOne(): Promise<LocalGateway> {
  const { url } = await httpServer()
  const upstreams = { one: { url, revision: '2025-11-25' } }
  return localGateway({ features: { confirm: 'off' }, listen: { legacy_sse: true }, upstreams })
}

async function clientTo(gateway: LocalGateway, transport: 'http' | 'sse', revision: Revision) {
  const url = transport === 'sse' ? `${gateway.origin}/sse` : gateway.url
  const client = await connect({ transport, url, revision })
  onTestFinished(() => client.close().catch(() => undefined))
  return client
}

/** A call pending at the server; `isStreamed` if its response has begun. */
async function hanging(client: FakeClient, isStreamed = false) {
  const begun = Promise.withResolvers<void>()
  const { reply } = isStreamed
    ? client.start(
        'tools/call',
        { name: 'slow', arguments: { ms: 60_000, steps: 1000 } },
        {
          onProgress: () => begun.resolve(),
        },
      )
    : client.start('tools/call', { name: 'hang' })
  reply.catch(() => undefined)
  await (isStreamed ? begun.promise : client.request('tools/call', { name: 'echo' }))
  return { reply }
}

test.each([
  ['http', '2025-06-18', false],
  ['http', '2025-06-18', true],
  ['http', '2025-11-25', false],
  ['http', '2026-07-28', false],
  ['sse', '2024-11-05', false],
] as const)('when the gateway shuts down, a call over %s of %s is answered (begun: %s)', async (...kind) => {
  const [transport, revision, isStreamed] = kind
  const gateway = await gatewayToOne()
  const client = await clientTo(gateway, transport, revision)
  const { reply } = await hanging(client, isStreamed)
  await gateway.close()
  const answer = await reply
  expect(answer.result).toMatchObject({ isError: true })
  expect(codeOf(answer)).toBe('OUTCOME_UNKNOWN')
  expect(client.violations).toEqual([])
})

test.each([false, true])('a call of a deleted session is answered (begun: %s)', async (isStreamed) => {
  const gateway = await gatewayToOne()
  onTestFinished(() => gateway.close())
  const client = await clientTo(gateway, 'http', '2025-06-18')
  const { reply } = await hanging(client, isStreamed)
  const listing = client.request('tools/list')
  const session = String(Reflect.get(Object(client.link), 'session'))
  expect((await listing).result).toHaveProperty('tools')
  const deleted = await fetch(gateway.url, { method: 'DELETE', headers: { 'mcp-session-id': session } })
  expect(deleted.status).toBe(204)
  expect(codeOf(await reply)).toBe('OUTCOME_UNKNOWN')
})

test('when a stdio gateway shuts down, a pending call is answered and a cancelled call is not', async () => {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const closing = new AbortController()
  const served = serveStdio(input, output, {
    handle: async ({ method, signal }) => {
      if (method === 'server/discover') return { kind: 'result', result: Payload.of({ capabilities: {} }) }
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    },
    seal: createRequestStateCodec(Date.now),
    principal: anonymous,
    limit: 10_000,
    closing: closing.signal,
    log: silentLog,
  })
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } }
  const messages = [
    { id: 0, method: 'initialize', params },
    { id: 1, method: 'prompts/get', params: { name: 'a' } },
    { id: 2, method: 'prompts/get', params: { name: 'b' } },
    { method: 'notifications/cancelled', params: { requestId: 1 } },
  ]
  const answers: unknown[] = []
  output.on('data', (line: Buffer) => answers.push(JSON.parse(String(line))))
  for (const each of messages) {
    input.write(`${JSON.stringify({ jsonrpc: '2.0', ...each })}\n`)
    await new Promise((resolve) => setImmediate(resolve))
  }
  closing.abort(new GatewayError('CANCELLED', 'The gateway ends.'))
  await expect.poll(() => answers.length).toBe(2)
  input.end()
  await served
  expect(answers[1]).toMatchObject({ id: 2, error: { data: { code: 'OUTCOME_UNKNOWN' } } })
})
