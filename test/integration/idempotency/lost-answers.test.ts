// Answers that clients do not get, and what becomes of the calls that they repeat.
import { expect, it, onTestFinished } from 'vitest'
import { answeringServer } from '../../support/answering-server.ts'
import { textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { configFile } from '../../support/gateway-with.ts'
import { callsOf, clientOf, codeOf, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { chargingField, meantTwice, storm, stormClients, tokenOf } from '../../support/retry-storm.ts'
import { alone } from '../../support/scattered.ts'
import { type Json, RawJson } from '../../support/server/json.ts'

alone('each gateway keeps the lost answers of calls without a key')

const kinds = Object.keys(stormClients) as (keyof typeof stormClients)[]

it.each(kinds)('%s that repeats what it got no answer to has each call run once', async (kind) => {
  const field = await chargingField(['anna'])
  onTestFinished(() => field.close())
  const calls = 4
  expect(await storm(field, { kind, caller: 'anna', calls })).toBeGreaterThan(0)
  expect(field.effects.size).toBe(calls)
  expect([...field.effects].filter(([, times]) => times !== 1)).toEqual([])
})

it('equal calls that are meant twice all run, at the same time and one after the other', async () => {
  const field = await chargingField(['anna', 'ben'])
  onTestFinished(() => field.close())
  const calls = 6
  await Promise.all([
    meantTwice(field, { kind: 'SDK 1.x', caller: 'anna', calls, together: calls }),
    meantTwice(field, { kind: 'SDK 2.x', caller: 'ben', calls, together: 1 }),
  ])
  expect(Object.fromEntries(field.effects)).toEqual({ anna: calls, ben: calls })
})

/** Makes a call, and cancels it once its server has it. */
async function cancelled(client: FakeClient, params: Json, isThere: () => boolean): Promise<void> {
  const { id, reply } = client.start('tools/call', params)
  reply.catch(() => undefined)
  await until(isThere, 'the call at the server')
  await client.cancel(id)
}

it('a client of 2024-11-05 over HTTP+SSE gets the outcome of the call that it cancelled', async () => {
  const field = await chargingField([])
  onTestFinished(() => field.close())
  const url = `${field.gateway.origin}/sse/one`
  const client = await clientOf({ url }, { revision: '2024-11-05', transport: 'sse' })
  const params = { name: 'charge', arguments: { id: 'sse' } }
  const after = Promise.withResolvers<void>()
  field.held.set('sse', { after })
  await cancelled(client, params, () => field.effects.has('sse'))
  const repeated = client.request('tools/call', params)
  after.resolve()
  const reply = await repeated
  expect(textOf(reply)).toMatch(/^charged sse/)
  expect(JSON.stringify(reply.result)).toContain('was not run again')
  expect(field.effects.get('sse')).toBe(1)
})

it('without authentication, only the same session counts as the same caller', async () => {
  const field = await chargingField([])
  onTestFinished(() => field.close())
  const gateway = { url: `${field.gateway.url}/one` }
  const [one, other] = [await clientOf(gateway), await clientOf(gateway)]
  const params = { name: 'charge', arguments: { id: 'both' } }
  const after = Promise.withResolvers<void>()
  field.held.set('both', { after })
  await cancelled(one, params, () => field.effects.has('both'))
  after.resolve()
  await other.request('tools/call', params)
  expect(field.effects.get('both')).toBe(2)
  await one.request('tools/call', params)
  expect(field.effects.get('both')).toBe(2)
})

it('numbers beyond 2^53 are compared with all digits', async () => {
  const field = await chargingField(['anna'])
  onTestFinished(() => field.close())
  const headers = { authorization: `Bearer ${tokenOf('anna')}` }
  const client = await clientOf({ url: `${field.gateway.url}/one` }, { headers })
  const call = (digits: string): Json => ({ name: 'charge', arguments: { id: new RawJson(digits) } })
  const [one, other] = ['725653563933458433', '725653563933458434'] as const
  const after = Promise.withResolvers<void>()
  field.held.set(one, { after })
  await cancelled(client, call(one), () => field.effects.has(one))
  after.resolve()
  await client.request('tools/call', call(one))
  await client.request('tools/call', call(other))
  expect(Object.fromEntries(field.effects)).toEqual({ [one]: 1, [other]: 1 })
})

it('a server that never answers leaves the outcome unknown, and gets no second call', async () => {
  let calls = 0
  const server = await answeringServer((method) => {
    if (method === 'initialize')
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 's', version: '1' },
      }
    if (method === 'tools/list') return { tools: [{ name: 'charge', inputSchema: { type: 'object' } }] }
    if (method !== 'tools/call') return undefined
    calls++
    return new Promise(() => undefined)
  })
  onTestFinished(() => server.close())
  const gateway = await localGateway({
    limits: { timeout: '300ms' },
    features: { confirm: 'off' },
    upstreams: { one: { url: server.url, revision: '2025-11-25' } },
  })
  onTestFinished(() => gateway.close())
  const client = await clientOf({ url: `${gateway.url}/one` })
  const params = { name: 'charge', arguments: {} }
  await cancelled(client, params, () => calls === 1)
  const codes = new Set<unknown>()
  await until(async () => {
    codes.add(codeOf(await client.request('tools/call', params)))
    return codes.has('OUTCOME_UNKNOWN')
  }, 'the end of the wait for the server')
  expect([...codes].filter((code) => code !== 'IDEMPOTENCY_IN_PROGRESS')).toEqual(['OUTCOME_UNKNOWN'])
  expect(calls).toBe(1)
})

it('a cancelled call of a tool that reads is cancelled at its server, and runs again', async () => {
  const server = await httpServer()
  const gateway = await localGateway({
    features: { confirm: 'off' },
    upstreams: { one: { url: server.url, revision: '2025-11-25', tools: { hang: { op: 'read' } } } },
  })
  onTestFinished(() => gateway.close())
  const client = await clientOf({ url: `${gateway.url}/one` })
  for (const count of [1, 2]) {
    await cancelled(client, { name: 'hang', arguments: {} }, () => callsOf(server, 'hang') === count)
    await until(() => server.received('notifications/cancelled').length === count, 'the cancellation')
  }
})

it('a model that only writes arguments says that it means a call twice', async () => {
  const server = await httpServer()
  const gateway = await localGateway({
    inject_arguments: 'on',
    features: { confirm: 'off' },
    upstreams: {
      one: {
        url: server.url,
        revision: '2025-11-25',
        tools: { slow: { op: 'write', idempotent: false, confirm: 'never' } },
      },
    },
  })
  onTestFinished(() => gateway.close())
  const client = await clientOf({ url: `${gateway.url}/one` })
  const listed = JSON.stringify((await client.request('tools/list')).result)
  expect(listed).toContain('"_run_again"')
  const args = { ms: 60, steps: 1 }
  await cancelled(client, { name: 'slow', arguments: args }, () => callsOf(server, 'slow') === 1)
  const repeated = await client.request('tools/call', { name: 'slow', arguments: args })
  expect(JSON.stringify(repeated.result)).toContain('the argument _run_again: true')
  expect(repeated.result?.['_meta']).toMatchObject({
    'dev.gatehouse/idempotency': { was_replay: true },
    'dev.gatehouse/lost_answer': { run_again: 'dev.gatehouse/run_again' },
  })
  const meant = await client.request('tools/call', { name: 'slow', arguments: { ...args, _run_again: true } })
  expect(textOf(meant)).toBe('took 1 steps')
  expect(meant.result).not.toHaveProperty('_meta')
  expect(callsOf(server, 'slow')).toBe(2)
  expect(server.received('tools/call')[1]?.text).not.toContain('run_again')
})

it('clients on stdio, of both eras, get the outcome of the call that they cancelled', async () => {
  const server = await httpServer()
  const once = { op: 'write', idempotent: false, confirm: 'never' }
  const one = { url: server.url, revision: '2025-11-25', tools: { slow: once } }
  const file = await configFile({ store: 'memory', upstreams: { one } })
  onTestFinished(() => file.remove())
  const [command = '', ...first] = gatewayProgram()
  const args = [...first, 'stdio', '--config', file.path]
  const repeat = async (revision: '2025-11-25' | '2026-07-28'): Promise<void> => {
    const client = await clientOf({ url: '' }, { revision, transport: 'stdio', command, args })
    const params = { name: 'slow', arguments: { ms: 100, steps: 1, revision } }
    const calls = (): number =>
      server.received('tools/call').filter(({ text }) => text.includes(`"revision":"${revision}"`)).length
    await cancelled(client, params, () => calls() === 1)
    const repeated = await client.request('tools/call', params)
    expect(JSON.stringify(repeated.result)).toContain('was not run again')
    expect(calls()).toBe(1)
  }
  await Promise.all([repeat('2025-11-25'), repeat('2026-07-28')])
})
