/** Published clients of others that receive events: the AI SDK by webhooks, and the official SDK by its generic requests. */
import { join } from 'node:path'
import { experimental_createMCPClient as createMCPClient } from '@ai-sdk/mcp'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { aiSdkReceiver } from '../../support/ai-sdk-receiver.ts'
import { tokenHash } from '../../support/auth/token-hash.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { folder, gatewayTo } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const TOKEN = 'token-of-the-consumer'
const CREATED = 'create_entities.succeeded'
const headers = { authorization: `Bearer ${TOKEN}` }

/** A gateway in front of the published memory server, for callers with a token. */
function memoryGateway(allow: readonly string[] = []): Promise<RunningGateway> {
  const tokens = [
    { hash: tokenHash(TOKEN), id: 'consumer', scopes: ['memory', 'read:memory', 'write:memory'] },
  ]
  const command = publishedServer('@modelcontextprotocol/server-memory')
  const env = { MEMORY_FILE_PATH: join(folder(), 'memory.json') }
  // Methods of extensions are answered also where others are not.
  const config = {
    methods: 'off',
    auth: { opaque: { tokens } },
    features: { events: { webhooks: { allow } } },
  }
  return gatewayTo({ memory: { command, env } }, { config })
}

function entities(...names: readonly string[]) {
  return { entities: names.map((name) => ({ name, entityType: 'thing', observations: [] })) }
}

describe('the AI SDK', () => {
  test.each([
    ['2026-07-28', {}],
    ['2025-11-25', { protocolVersionDiscovery: false, capabilities: { events: {} } }],
  ])(
    'in %s receives what it subscribed to by its webhook, and nothing after it unsubscribed',
    async (revision, options) => {
      const receiver = await aiSdkReceiver()
      const { store } = receiver
      const gateway = await memoryGateway([receiver.origin])
      const client = await createMCPClient({
        transport: { type: 'http', url: `${gateway.url}/memory`, headers },
        experimental_events: { store },
        ...options,
      })
      onTestFinished(() => client.close())
      expect(client.initializeResult).toMatchObject({
        protocolVersion: revision,
        capabilities: { events: {} },
      })
      const delivery = { mode: 'webhook', url: receiver.url, allowInsecureLocalhost: true } as const
      const { id } = await client.experimental_events.subscribe({ name: CREATED, delivery })
      expect(receiver.statuses).toEqual([200])

      const { create_entities: create } = await client.tools()
      const call = async (name: string): Promise<unknown> =>
        create?.execute(entities(name), { toolCallId: name, messages: [], context: {} })
      await call('one')
      await expect
        .poll(() => receiver.received)
        .toMatchObject([{ name: CREATED, data: { tool: 'create_entities', arguments: entities('one') } }])
      expect((await client.experimental_events.refresh({ id })).id).toBe(id)
      await call('two')
      await expect.poll(() => receiver.received.length).toBe(2)
      expect(receiver.statuses).toEqual([200, 204, 204])

      await client.experimental_events.unsubscribe({ id })
      expect(store.byKey.size).toBe(0)
      await call('three')
      const again = await client.experimental_events.subscribe({ name: CREATED, delivery })
      await call('four')
      await expect.poll(() => receiver.received.length).toBe(3)
      expect(receiver.received.at(-1)).toMatchObject({ data: { arguments: entities('four') } })
      await client.experimental_events.unsubscribe({ id: again.id })
    },
  )
})

describe('the official SDK', () => {
  test('polls and streams events by requests that it has no functions for', async () => {
    const gateway = await memoryGateway()
    const client = new Client(
      { name: 'consumer', version: '1.0.0' },
      { versionNegotiation: { mode: { pin: '2026-07-28' } } },
    )
    const received: { method: string; params: unknown }[] = []
    client.fallbackNotificationHandler = async ({ method, params }) => void received.push({ method, params })
    const url = new URL(`${gateway.url}/memory`)
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
    onTestFinished(() => client.close())
    const batch = z.looseObject({ events: z.array(z.looseObject({})), cursor: z.string() })
    const poll = (cursor: string | null) =>
      client.request({ method: 'events/poll', params: { name: CREATED, cursor } }, batch)
    const closing = new AbortController()
    const stream = client.request({ method: 'events/stream', params: { name: CREATED } }, z.looseObject({}), {
      signal: closing.signal,
    })
    stream.catch(() => undefined)
    await expect.poll(() => received).toMatchObject([{ method: 'notifications/events/active' }])
    const { cursor } = await poll(null)
    await client.callTool({ name: 'create_entities', arguments: entities('one') })
    const occurrence = { name: CREATED, data: { arguments: entities('one') } }
    expect((await poll(cursor)).events).toMatchObject([occurrence])
    await expect
      .poll(() => received.slice(1))
      .toMatchObject([{ method: 'notifications/events/event', params: occurrence }])
    closing.abort()
    await expect(stream).rejects.toThrow('aborted')
    // A stream that the client closed takes nothing from the rest of the connection.
    expect((await poll(cursor)).events).toHaveLength(1)
  })
})

describe('an older client', () => {
  async function legacyClient(gateway: RunningGateway, name: string, capabilities: object) {
    const mode = 'legacy' as const
    const client = new Client({ name, version: '1.0.0' }, { capabilities, versionNegotiation: { mode } })
    const url = new URL(`${gateway.url}/memory`)
    // The client leaves out what it does not know: the answer to its first request has all capabilities.
    const answers: Response[] = []
    const keeping = async (at: string | URL, init?: RequestInit): Promise<Response> => {
      const answer = await fetch(at, init)
      answers.push(answer.clone())
      return answer
    }
    const options = { requestInit: { headers }, fetch: keeping }
    await client.connect(new StreamableHTTPClientTransport(url, options))
    onTestFinished(() => client.close())
    const declared = async (): Promise<string | undefined> => answers[0]?.text()
    const request = (method: string, params: Readonly<Record<string, unknown>> = {}) =>
      client.request({ method, params }, z.looseObject({}))
    return { declared, request }
  }

  test('with the name of ChatGPT has webhooks, with the codes and the idempotent end of the design sketch', async () => {
    const gateway = await memoryGateway()
    const { declared, request } = await legacyClient(gateway, 'openai-mcp', {})
    expect(await declared()).toContain('"events":{}')
    const listed = await request('events/list')
    expect(listed['events']).toContainEqual(expect.objectContaining({ name: CREATED, delivery: ['webhook'] }))
    const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
    const delivery = { mode: 'webhook', url: 'https://127.0.0.1:9/hook', secret }
    const subscribing = request('events/subscribe', { name: CREATED, delivery })
    await expect(subscribing).rejects.toMatchObject({ code: -32015, data: { reason: 'connection_refused' } })
    expect(await request('events/unsubscribe', { name: CREATED, delivery })).toEqual({})
    await expect(request('events/poll', { name: CREATED })).rejects.toMatchObject({ code: -32601 })
  })

  test('that does not know events has none of their methods', async () => {
    const gateway = await memoryGateway()
    const { declared, request } = await legacyClient(gateway, 'editor', { roots: {} })
    expect(await declared()).not.toContain('"events"')
    await expect(request('events/list')).rejects.toMatchObject({ code: -32601 })
    await expect(request('events/subscribe', { name: CREATED })).rejects.toMatchObject({ code: -32601 })
  })
})
