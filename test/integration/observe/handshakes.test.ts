// The handshake of older clients, and long-lived subscriptions, in logs, metrics and traces.
import { expect, test } from 'vitest'
import { clientOf, gatewayTo, stdioServer } from '../../support/journey.ts'
import { traceCollector } from '../../support/trace-collector.ts'

test.each(['2024-11-05', '2025-11-25'] as const)(
  'a handshake of a client of %s is counted in the metrics',
  async (revision) => {
    const collector = await traceCollector()
    const config = { listen: { legacy_sse: true }, observe: { traces: { endpoint: collector.url } } }
    const gateway = await gatewayTo({ one: stdioServer() }, { config })
    const transport = revision === '2024-11-05' ? 'sse' : 'http'
    const url = transport === 'sse' ? new URL('/sse', gateway.url).href : gateway.url
    const client = await clientOf({ url }, { revision, transport })
    await client.request('tools/call', { name: 'echo' })
    const line = await gateway.logged(({ event, method }) => event === 'call' && method === 'initialize')
    expect(line).toMatchObject({ outcome: 'ok', revision })
    const span = await collector.span(({ name }) => name === 'initialize')
    expect(span.attributes).toMatchObject({ 'mcp.method.name': 'initialize' })
    const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
    expect(metrics).toMatch(/gatehouse_calls_total\{method="initialize"[^}]*\} 1/)
    expect(metrics).not.toContain('server/discover')
  },
)

test('a subscription is counted in the metrics, and its duration is not', async () => {
  const gateway = await gatewayTo({ one: stdioServer() })
  const client = await clientOf(gateway)
  await client.request('tools/call', { name: 'echo' })
  await client.close()
  await gateway.logged(({ event, method }) => event === 'call' && method === 'subscriptions/listen')
  const metrics = await (await fetch(new URL('/metrics', gateway.url))).text()
  expect(metrics).toMatch(/gatehouse_calls_total\{method="subscriptions\/listen"/)
  expect(metrics).toMatch(/gatehouse_call_duration_seconds_count\{method="tools\/call"/)
  expect(metrics).not.toMatch(
    /gatehouse_call_duration_seconds_count\{method="subscriptions\/listen"[^}]*\} [1-9]/,
  )
})
