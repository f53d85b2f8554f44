import { setTimeout as pause } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import { doorTo } from '../../support/door.ts'
import { callsOf, clientOf, codeOf, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import { objectAt } from '../../support/server/json.ts'

it('a call that could not be sent is retried once the server is up, only if the tool is idempotent', async () => {
  const server = await httpServer({ revision: '2026-07-28' })
  const door = await doorTo(server.url)
  const tools = { echo: { idempotent: true, retry: 4 }, big: { op: 'write', idempotent: false } }
  const gateway = await gatewayProcessTo({
    one: { url: door.url, revision: '2026-07-28', reconnect: '0s', tools },
  })
  const client = await clientOf(gateway)
  expect(textOf(await client.request('tools/call', { name: 'echo', arguments: { first: 1 } }))).toContain(
    'first',
  )
  await door.shut()
  expect(codeOf(await client.request('tools/call', { name: 'big', arguments: {} }))).toBe(
    'SERVER_UNAVAILABLE',
  )
  const again = client.request('tools/call', { name: 'echo', arguments: { second: 2 } })
  await pause(50)
  await door.open()
  expect(textOf(await again)).toContain('second')
  expect(callsOf(server, 'echo')).toBe(2)
  expect(callsOf(server, 'big')).toBe(0)
})

it('a call that may have run is never retried', async () => {
  const server = await httpServer({ revision: '2026-07-28' })
  const tools = { crash: { idempotent: true, retry: 5 } }
  const gateway = await gatewayProcessTo({ one: { url: server.url, revision: '2026-07-28', tools } })
  const client = await clientOf(gateway)
  const reply = await client.request('tools/call', { name: 'crash', arguments: {} })
  expect(JSON.stringify(reply)).toContain('OUTCOME_UNKNOWN')
  expect(callsOf(server, 'crash')).toBe(1)
})

it('the circuit breaker opens for a server that only fails, and closes after it recovers', async () => {
  const server = await httpServer({ revision: '2026-07-28' })
  const settings = { url: server.url, revision: '2026-07-28' }
  const features = { breaker: { failures: 3, pause: '1s' } }
  const gateway = await gatewayProcessTo({ one: settings }, { config: { features } })
  const client = await clientOf(gateway)
  const call = () => client.request('tools/call', { name: 'slow', arguments: { ms: 1, steps: 1 } })
  expect(textOf(await call())).toBe('took 1 steps')
  server.refuse(503)
  for (let failure = 0; failure < 3; failure++) expect(codeOf(await call())).toBe('SERVER_UNAVAILABLE')
  const refused = await call()
  expect(objectAt(refused.error, 'data')).toMatchObject({
    code: 'SERVER_UNAVAILABLE',
    retry_after_seconds: 1,
  })
  expect(objectAt(refused.error, 'data')['message']).toContain('it will be tried again in 1 s')
  server.refuse(undefined)
  await until(async () => textOf(await call()) === 'took 1 steps', 'the server to be called again')
  await gateway.logged(({ event }) => event === 'upstream.circuit_open')
  await gateway.logged(({ event }) => event === 'upstream.circuit_closed')
})
