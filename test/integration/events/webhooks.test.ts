import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterEach, describe, expect, onTestFinished, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { until } from '../../support/condition.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.ts'

const TOKEN = 'token-of-the-writer'
const CREATED = 'create_entities.succeeded'

const running: RunningGateway[] = []
afterEach(async () => {
  await Promise.all(running.splice(0).map((gateway) => gateway.close()))
})

/** A store and a receiver, and gateways on them in front of the published memory server. */
async function world() {
  const receiver = await startWebhookReceiver()
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-webhooks-'))
  onTestFinished(() => {
    receiver.close()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const config = (upstream: Json = {}): Json => ({
    store: folder,
    auth: {
      opaque: { tokens: [{ hash: tokenHash(TOKEN), id: 'writer', scopes: ['read:memory', 'write:memory'] }] },
    },
    features: { events: { webhooks: { allow: [receiver.origin] } } },
    upstreams: {
      memory: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(folder, 'memory.json') },
        ...upstream,
      },
    },
  })
  const start = async (): Promise<RunningGateway> => {
    const gateway = await startGateway(config())
    running.push(gateway)
    return gateway
  }
  const startProcess = async (): Promise<GatewayProcess> => {
    const gateway = await startGatewayProcess(config())
    running.push(gateway)
    return gateway
  }
  return { receiver, config, start, startProcess }
}

function eventsOf(gateway: RunningGateway): StatelessClient {
  return new StatelessClient({ url: `${gateway.url}/memory`, token: TOKEN })
}

function subscription({ url, secret }: WebhookReceiver, given: Json = {}): Json {
  return { name: CREATED, arguments: {}, delivery: { mode: 'webhook', url, secret }, ...given }
}

/** Creates an entity with a client of the official SDK, which knows nothing of events. */
async function create(gateway: RunningGateway, name: string): Promise<void> {
  const client = new Client({ name: 'writer', version: '1.0.0' })
  const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${gateway.url}/memory`), { requestInit }))
  const entities = [{ name, entityType: 'thing', observations: [] }]
  const result = await client.callTool({ name: 'create_entities', arguments: { entities } })
  expect(result.isError).not.toBe(true)
  await client.close()
}

function nameIn(body: Json | undefined): unknown {
  const data = body?.['data'] as { readonly arguments?: { readonly entities?: readonly Json[] } } | undefined
  return data?.arguments?.entities?.[0]?.['name']
}

/** The names of the entities whose creation was accepted. */
function namesAt(receiver: WebhookReceiver): readonly unknown[] {
  return receiver.accepted().map(nameIn)
}

describe('webhooks of a gateway', () => {
  test('a receiver with the published library gets what a client subscribed to, and nothing after it unsubscribed', async () => {
    const { receiver, start } = await world()
    const gateway = await start()
    const warning = await gateway.logged(({ event }) => event === 'events.webhooks_allow')
    expect(warning).toMatchObject({ level: 'warn', origin: receiver.origin })
    const client = eventsOf(gateway)
    const { fields: listed } = await client.send('events/list', {})
    expect(listed['events']).toContainEqual(
      expect.objectContaining({ name: CREATED, delivery: ['poll', 'push', 'webhook'] }),
    )
    const { fields } = await client.send('events/subscribe', subscription(receiver))
    expect(fields).toMatchObject({ resultType: 'complete', truncated: false })
    expect(receiver.challenges).toHaveLength(1)

    await create(gateway, 'one')
    await until(() => receiver.received.length > 0, 'the event')
    const [received] = receiver.received
    expect(received?.id).toBe(received?.body['eventId'])
    expect(received?.subscription).toBe(fields['id'])
    expect(nameIn(received?.body)).toBe('one')
    expect(receiver.unsigned()).toBe(0)
    const metrics = await fetch(`${gateway.origin}/metrics`, {
      headers: { authorization: `Bearer ${TOKEN}` },
    })
    const text = await metrics.text()
    expect(text).toMatch(/^gatehouse_event_deliveries_total\{outcome="delivered"\} 1$/m)
    expect(text).toMatch(/^gatehouse_event_lag_seconds_count\{\} 1$/m)
    expect(text).toMatch(/^gatehouse_event_dead_letters 0$/m)

    const ended = await client.send('events/unsubscribe', subscription(receiver))
    expect(ended.error).toBeUndefined()
    const again = await client.send('events/unsubscribe', subscription(receiver))
    expect(again.error).toMatchObject({ code: -32023, data: { kind: 'subscription' } })
    await create(gateway, 'two')
    const { fields: later } = await client.send('events/subscribe', subscription(receiver))
    expect(later['id']).toBe(fields['id'])
    await create(gateway, 'three')
    await until(() => receiver.received.length > 1, 'the event after the second subscription')
    expect(namesAt(receiver)).toEqual(['one', 'three'])
    expect(gateway.stderr()).not.toContain(receiver.secret.slice(6))
  })

  test('E5 E8 callers without a token, other origins and closed ports are refused with the codes of the extension', async () => {
    const { receiver, start } = await world()
    const gateway = await start()
    const client = eventsOf(gateway)
    const at = async (url: string) => {
      const delivery = { mode: 'webhook', url, secret: receiver.secret }
      return (await client.send('events/subscribe', { name: CREATED, delivery })).error
    }
    const advice = (origin: string) => ({
      suggestion: `Ask the operator of the gateway to add ${origin} to features.events.webhooks.allow.`,
    })
    expect(await at('http://127.0.0.1:9/hook')).toMatchObject({
      code: -32602,
      data: advice('http://127.0.0.1:9'),
    })
    expect(await at('https://127.0.0.1:9/hook')).toMatchObject({ data: advice('https://127.0.0.1:9') })
    expect(await at('https://127.0.0.1:9/hook')).toMatchObject({
      code: -32027,
      data: { reason: 'connection_refused' },
    })
    expect(receiver.challenges).toEqual([])
    const open = await startGateway({
      features: { events: 'on' },
      upstreams: { memory: { command: publishedServer('@modelcontextprotocol/server-memory') } },
    })
    running.push(open)
    const anonymous = new StatelessClient({ url: `${open.url}/memory` })
    const { error } = await anonymous.send('events/subscribe', subscription(receiver))
    expect(error).toMatchObject({ code: -32024, data: { reason: 'authentication_required' } })
  })

  test('E7 events that are not accepted survive a crash, and arrive under the same id', async () => {
    const { receiver, start, startProcess } = await world()
    const first = await startProcess()
    const { fields } = await eventsOf(first).send('events/subscribe', subscription(receiver, { ttlMs: null }))
    expect(fields['refreshBefore']).toBeNull()
    await create(first, 'before')
    await until(() => namesAt(receiver).includes('before'), 'the first event')
    receiver.answer(503)
    await create(first, 'during')
    await until(() => receiver.received.some(({ status }) => status === 503), 'a failed attempt')
    first.signal('SIGKILL')
    await first.ended
    receiver.answer(204)
    const second = await start()
    await until(() => namesAt(receiver).includes('during'), 'the event after the crash')
    const ids = receiver.received.filter(({ body }) => nameIn(body) === 'during').map(({ id }) => id)
    expect(new Set(ids).size).toBe(1)
    expect(receiver.challenges).toHaveLength(1)
    const renewed = await eventsOf(second).send('events/subscribe', subscription(receiver))
    expect(renewed.fields).toMatchObject({ id: fields['id'], deliveryStatus: { active: true } })
  })

  test('a restart and a reload go on at once, and a rule that takes the right away terminates the subscription', async () => {
    const { receiver, config, start } = await world()
    const first = await start()
    const { fields } = await eventsOf(first).send('events/subscribe', subscription(receiver))
    await create(first, 'one')
    await until(() => namesAt(receiver).length === 1, 'the first event')
    first.stop()
    await first.ended
    const second = await start()
    await create(second, 'two')
    await until(() => namesAt(receiver).length === 2, 'the event after the restart')
    second.configure(config({ idle: '20m' }))
    await second.logged(({ event }) => event === 'config.reloaded')
    await create(second, 'three')
    await until(() => namesAt(receiver).length === 3, 'the event after the reload')
    expect(namesAt(receiver)).toEqual(['one', 'two', 'three'])
    second.configure(config({ deny: { create_entities: true } }))
    await until(() => receiver.accepted().length === 4, 'the last message')
    expect(receiver.accepted().at(-1)).toMatchObject({
      type: 'terminated',
      error: { code: -32024, data: { reason: 'revoked' } },
    })
    expect(receiver.received.at(-1)?.subscription).toBe(fields['id'])
    expect(receiver.unsigned()).toBe(0)
  })
})
