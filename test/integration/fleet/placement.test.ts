// A server on stdio that runs in one of the gateways with a store; the others have its calls made there.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema, LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { folder, journalIn } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type PlacedServer, placedServer } from '../../support/placed-server.ts'
import { hasRedis, startRedis } from '../../support/redis-server.ts'
import { sizeOfEach } from '../../support/scattered.ts'
import { scatteringFront } from '../../support/scattering-front.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const stores = hasRedis() ? (['folder', 'redis'] as const) : (['folder'] as const)

/** A store of a kind, and what removes it. */
async function openStore(
  kind: (typeof stores)[number],
): Promise<{ readonly store: string; remove(): void | Promise<void> }> {
  if (kind === 'redis') {
    const redis = await startRedis()
    return { store: redis.url, remove: () => redis.stop() }
  }
  const store = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  return { store, remove: () => rmSync(store, { recursive: true, force: true }) }
}

interface Pair {
  readonly gateways: readonly [LocalGateway, LocalGateway]
  readonly server: PlacedServer
  readonly journal: ReturnType<typeof journalIn>
  close(index: 0 | 1): Promise<void>
}

/** Two gateways with one server, which runs in the first of them. What is cancelled is not kept for an equal call. */
async function pairWith(home: string, store: string): Promise<Pair> {
  const journal = journalIn(home)
  const server = placedServer(home, { seenFile: journal.file })
  const features = { confirm: 'off', idempotency: 'off' }
  const config = { store, features, upstreams: { one: server.settings } }
  const gateways = [await localGateway(config), await localGateway(config)] as const
  const open = new Set<LocalGateway>(gateways)
  const close = async (index: 0 | 1): Promise<void> => {
    if (open.delete(gateways[index])) await gateways[index].close()
  }
  return { gateways, server, journal, close }
}

/** The same until the test is over. */
async function pair(): Promise<Pair> {
  const opened = await pairWith(folder(), folder())
  onTestFinished(async () => void (await Promise.all([opened.close(0), opened.close(1)])))
  return opened
}

function clientOf({ url }: LocalGateway, path = ''): StatelessClient {
  return new StatelessClient({ url: `${url}${path}` })
}

function eventsOf({ lines }: LocalGateway): readonly string[] {
  return lines.map(({ event }) => String(event)).filter((event) => event.startsWith('placement.'))
}

describe.each(stores)('a server that runs in one of two gateways with a store in %s', (kind) => {
  let opened: Pair
  let remove = (): void | Promise<void> => undefined
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  beforeAll(async () => {
    const place = await openStore(kind)
    remove = place.remove
    opened = await pairWith(home, place.store)
  })
  afterAll(async () => {
    await Promise.all([opened.close(0), opened.close(1)])
    await remove()
    rmSync(home, { recursive: true, force: true })
  })

  test('answers the calls and lists of both from its one process', async () => {
    const { gateways, server } = opened
    for (const gateway of gateways) {
      const { texts } = await clientOf(gateway).call('echo', { text: 'hi' })
      expect(texts.join('')).toContain('hi')
    }
    const [here, there] = await Promise.all(
      gateways.map((gateway) => clientOf(gateway, '/one').send('tools/list', {})),
    )
    expect(there?.fields['tools']).toEqual(here?.fields['tools'])
    expect(there?.meta).toEqual(here?.meta)
    expect(server.starts()).toHaveLength(1)
    // Each may be several.
    const others = Array.from({ length: sizeOfEach() }, () => 'placement.there')
    expect(gateways.map((gateway) => eventsOf(gateway).toSorted())).toEqual([
      ['placement.here', ...others.slice(1)],
      others,
    ])
  })

  test('notifies a client that can be asked of a call at any gateway', async () => {
    for (const gateway of opened.gateways) {
      const slow = { name: 'slow', arguments: {}, _meta: { progressToken: 'p' } }
      const { texts, notes } = await clientOf(gateway).send('tools/call', slow, { elicitation: {} })
      expect(texts).toEqual(['took 3 steps'])
      expect(notes.map((note) => objectAt(note, 'params')['progress'])).toEqual([1, 2, 3])
    }
  })

  test('asks and notifies a client of the SDK whose requests reach each gateway in turn', async () => {
    const { gateways } = opened
    const front = await scatteringFront(gateways)
    const client = new Client({ name: 'sdk', version: '1' }, { capabilities: { elicitation: {} } })
    const heard: string[] = []
    client.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      heard.push(`log ${params.level}`)
    })
    client.setRequestHandler(ElicitRequestSchema, async () => ({
      action: 'accept',
      content: { name: 'Ada' },
    }))
    await client.connect(new StreamableHTTPClientTransport(new URL(front.url)))
    onTestFinished(() => client.close())
    await client.setLoggingLevel('info')
    const { content } = await client.callTool({ name: 'ask_form', arguments: {} })
    expect(JSON.stringify(content)).toContain('Ada')
    const steps: number[] = []
    await client.callTool({ name: 'slow', arguments: {} }, undefined, {
      onprogress: ({ progress }) => void steps.push(progress),
    })
    expect(steps).toEqual([1, 2, 3])
    await client.callTool({ name: 'log', arguments: { level: 'warning' } })
    await expect.poll(() => heard).toContain('log warning')
    await client.callTool({ name: 'change', arguments: { what: ['tools'] } })
    await expect.poll(() => heard).toContain('notifications/tools/list_changed')
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('added_1')
  })

  test('has the same list at both once it changed, also for those who do not listen', async () => {
    const [here, there] = opened.gateways.map((gateway) => clientOf(gateway))
    await here?.call('change', { what: ['tools'] })
    await expect.poll(async () => (await there?.call('added_1'))?.texts).toEqual(['added'])
  })

  test('gets the cancellation of a call from any gateway', async () => {
    const { gateways, journal } = opened
    for (const [index, { url }] of gateways.entries()) {
      const client = new Client({ name: 'sdk', version: '1' })
      await client.connect(new StreamableHTTPClientTransport(new URL(url)))
      onTestFinished(() => client.close())
      const stop = new AbortController()
      const hanging = client.callTool({ name: 'hang', arguments: {} }, undefined, { signal: stop.signal })
      await expect.poll(() => journal.calls('hang')).toBe(index + 1)
      stop.abort('enough')
      await expect(hanging).rejects.toThrow('enough')
      await expect.poll(() => journal.received('notifications/cancelled')).toBe(index + 1)
    }
  })

  test('answers the same at both: errors, and what it asks for', async () => {
    const [here, there] = opened.gateways.map((gateway) => async (name: string, args: Json) => {
      const given = { name, arguments: args }
      const { fields, error } = await clientOf(gateway).send('tools/call', given, { elicitation: {} })
      const { requestState: _sealed, requestId: _id, _meta, ...rest } = fields
      return { rest, error: error?.code }
    })
    for (const [name, args] of [
      ['error', { code: -32042, message: 'no', data: { id: '12345678901234567890' } }],
      ['fail', {}],
      ['nothing_of_this_name', {}],
      ['ask_form', {}],
    ] as const)
      expect(await there?.(name, args)).toEqual(await here?.(name, args))
  })
})

test('a call that waits for input is continued at any of the gateways, once', async () => {
  const { gateways, server, journal, close } = await pair()
  const asked = { name: 'ask_form', arguments: {} }
  const capabilities = { elicitation: {} }
  const inputResponses = { q1: { action: 'accept', content: { name: 'Ada' } } }
  const first = await clientOf(gateways[1]).send('tools/call', asked, capabilities)
  expect(first.fields['resultType']).toBe('input_required')
  const answered = { ...asked, inputResponses, requestState: first.fields['requestState'] }
  const result = await clientOf(gateways[0]).send('tools/call', answered, capabilities)
  expect(result.texts.join('')).toContain('Ada')
  const again = await clientOf(gateways[1]).send('tools/call', answered, capabilities)
  expect(again.error?.data['code']).toBe('STATE_INVALID')
  // Neither is it begun again where it does not wait any more.
  const second = await clientOf(gateways[1]).send('tools/call', asked, capabilities)
  const ended = server.starts()
  const handshakes = journal.declared().length
  await close(0)
  const late = { ...asked, inputResponses, requestState: second.fields['requestState'] }
  const lost = await clientOf(gateways[1]).send('tools/call', late, capabilities)
  expect(lost.error?.data['code']).toBe('STATE_EXPIRED')
  expect(journal.calls('ask_form')).toBe(2)
  // One process for each set of capabilities: those of the client, or none where it was started before the call.
  const countSets = (): number =>
    new Set(
      journal
        .declared()
        .slice(handshakes)
        .map((set) => JSON.stringify(set)),
    ).size
  await expect.poll(() => server.running().length <= countSets()).toBe(true)
  expect(server.running()).not.toHaveLength(0)
  expect(server.running().filter((pid) => ended.includes(pid))).toEqual([])
})

test('it moves when its gateway ends, and calls that come meanwhile wait for it', async () => {
  const { gateways, server, close } = await pair()
  const [first] = server.starts()
  const closing = close(0)
  const calls = Array.from({ length: 5 }, (_, index) =>
    clientOf(gateways[1]).call('echo', { text: `call ${index}` }),
  )
  for (const [index, { texts }] of (await Promise.all(calls)).entries())
    expect(texts.join('')).toContain(`call ${index}`)
  await closing
  expect(server.starts()).toHaveLength(2)
  expect(server.running()).toEqual([server.starts()[1]])
  expect(server.running()).not.toContain(first)
})

test('it moves without a call, and listeners at the other gateway hear of its changes', async () => {
  const { gateways, server, close } = await pair()
  const client = new Client({ name: 'sdk', version: '1' })
  const heard: string[] = []
  client.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
  await client.connect(new StreamableHTTPClientTransport(new URL(gateways[1].url)))
  onTestFinished(() => client.close())
  await close(0)
  await expect.poll(() => server.starts(), { timeout: 5000 }).toHaveLength(2)
  await expect.poll(() => heard.length, { timeout: 5000 }).toBeGreaterThan(0)
  heard.length = 0
  await client.callTool({ name: 'change', arguments: { what: ['tools'] } })
  await expect.poll(() => heard).toContain('notifications/tools/list_changed')
})
