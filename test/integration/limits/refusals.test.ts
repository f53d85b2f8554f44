import { expect, it, onTestFinished } from 'vitest'
import { post } from '../../support/client/raw.ts'
import { enveloped, mirrorHeaders } from '../../support/client/modern-request.ts'
import { textOf } from '../../support/client/options.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { configFile } from '../../support/gateway-with.ts'
import { callsOf, clientOf, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { alone } from '../../support/scattered.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

function modernPost(url: string, id: number, name: string, args: Json = {}) {
  const params = enveloped({ name, arguments: args }, '2026-07-28', {})
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params })
  return post(url, body, mirrorHeaders('tools/call', params, new Map()))
}

function parsed(text: string): Json {
  const value: unknown = JSON.parse(text)
  if (!isObject(value)) throw new Error(`no object: ${text}`)
  return value
}

it('C195 C191 a rate-limited call is refused with 429, Retry-After and the limit, in both eras, before it reaches the server', async () => {
  alone('each gateway counts rates, with a store folder')
  const server = await httpServer()
  const gateway = await gatewayTo({ one: { url: server.url } }, { config: { limits: { rate: '3/minute' } } })
  const legacy = await openSession(gateway.url, '2025-11-25')
  const first = await legacy.post(toolCall(1, 'echo', { a: 1 }))
  expect(first.status).toBe(200)
  expect(first.headers['ratelimit-policy']).toBe('"principal-60s";q=3;w=60')
  expect(first.headers['ratelimit']).toMatch(/^"principal-60s";r=2;t=\d+$/)
  const [, reset] = /;t=(\d+)$/.exec(String(first.headers['ratelimit'])) ?? []
  const names = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset']
  expect(names.map((name) => first.headers[name])).toEqual(['3', '2', reset])
  const second = await modernPost(gateway.url, 2, 'echo')
  expect([second.status, second.headers['ratelimit']]).toEqual([200, expect.stringMatching(/;r=1;/)])
  const meta = objectAt(objectAt(parsed(second.text), 'result'), '_meta')
  expect(meta['dev.gatehouse/rate_limit']).toMatchObject({ limit: 3, remaining: 1 })
  // Another session of the same caller uses the same bucket.
  const other = await openSession(gateway.url, '2025-06-18')
  expect((await other.post(toolCall(1, 'echo'))).status).toBe(200)

  for (const refused of [
    await legacy.post(toolCall(4, 'echo')),
    await other.post(toolCall(5, 'echo')),
    await modernPost(gateway.url, 6, 'echo'),
  ]) {
    expect(refused.status).toBe(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(50)
    expect(refused.headers['ratelimit']).toMatch(/^"principal-60s";r=0;t=\d+$/)
    const error = objectAt(parsed(refused.text), 'error')
    expect(error['code']).toBe(-32003)
    expect(objectAt(error, 'data')).toMatchObject({
      code: 'RATE_LIMIT_EXCEEDED',
      category: 'rate_limited',
      retryAfter: Number(refused.headers['retry-after']),
      retry_after_seconds: Number(refused.headers['retry-after']),
      details: { limit: 3, window: 60, remaining: 0, scope: 'principal' },
    })
  }
  expect(callsOf(server, 'echo')).toBe(3)
})

it('a call that is refused before it reaches the server is not charged', async () => {
  const server = await httpServer()
  const one = {
    url: server.url,
    tools: { echo: { rate: '2/hour' } },
    optional: ['path'],
    deny: { echo: { path: 'secret*' } },
  }
  const gateway = await gatewayTo({ one })
  const session = await openSession(gateway.url, '2025-11-25')
  for (let id = 1; id <= 8; id++) {
    const { text } = await session.post(toolCall(id, 'echo', { path: 'secret' }))
    expect(text).toContain('PERMISSION_DENIED')
  }
  const { headers } = await session.post(toolCall(10, 'echo', { path: 'open' }))
  expect(headers['ratelimit']).toMatch(/;r=1;/)
  expect((await session.post(toolCall(11, 'echo', { path: 'open' }))).status).toBe(200)
  expect((await session.post(toolCall(12, 'echo', { path: 'open' }))).status).toBe(429)
  expect(callsOf(server, 'echo')).toBe(2)
})

it('C195 a rate-limited call on stdio is refused with the same error', async () => {
  const limits = { rate: '1/hour' }
  const file = await configFile({ upstreams: { one: stdioServer() }, limits })
  onTestFinished(() => file.remove())
  const [command = '', ...first] = gatewayProgram()
  const args = [...first, 'stdio', '--config', file.path]
  const client = await clientOf({ url: '' }, { transport: 'stdio', command, args })
  expect(textOf(await client.request('tools/call', { name: 'echo', arguments: {} }))).toBe('{}')
  const refused = await client.request('tools/call', { name: 'echo', arguments: {} })
  expect(refused.error).toMatchObject({ code: -32003, data: { code: 'RATE_LIMIT_EXCEEDED' } })
})

it('C192 calls beyond the concurrency limit are refused, and accepted once there is room', async () => {
  const server = await httpServer()
  const gateway = await gatewayTo({ one: { url: server.url } }, { config: { limits: { concurrency: 2 } } })
  const session = await openSession(gateway.url, '2025-11-25')
  const calls = await Promise.all([1, 2, 3, 4].map((id) => session.post(toolCall(id, 'slow', { ms: 300 }))))
  expect(calls.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([
    200, 200, 429, 429,
  ])
  const [refused] = calls.filter(({ status }) => status === 429)
  expect(refused?.headers['retry-after']).toBe('1')
  expect(objectAt(objectAt(parsed(refused?.text ?? ''), 'error'), 'data')['code']).toBe('OVERLOADED')
  expect((await session.post(toolCall(5, 'slow', { ms: 10 }))).status).toBe(200)
})

it('C194 C196 C190 a call that takes too long ends with -32004, and is cancelled at the server', async () => {
  const server = await httpServer()
  const settings = { url: server.url, tools: { hang: { timeout: '300ms' } } }
  const gateway = await gatewayTo({ one: settings })
  const client = await clientOf(gateway)
  const refused = await client.request('tools/call', { name: 'hang', arguments: {} })
  expect(refused.error).toMatchObject({ code: -32004, data: { code: 'OPERATION_TIMEOUT' } })
  await server.until(({ kind }) => kind === 'cancelled')
  expect(server.received('notifications/cancelled')).toHaveLength(1)
})

it('C188 C193 a body that is too large is refused with -32005 and 413', async () => {
  const gateway = await gatewayTo({ one: stdioServer() }, { config: { limits: { body: '10KB' } } })
  const session = await openSession(gateway.url, '2025-11-25')
  const refused = await session.post(toolCall(1, 'echo', { text: 'x'.repeat(20_000) }))
  expect(refused.status).toBe(413)
  expect(objectAt(parsed(refused.text), 'error')).toMatchObject({
    code: -32005,
    data: { code: 'PAYLOAD_TOO_LARGE' },
  })
})
