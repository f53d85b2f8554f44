import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { eventsServer } from '../../fixtures/events-server/start.ts'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { ask, follow, type Received } from '../../support/event-stream-client.ts'
import { type RunningGateway, runCommand } from '../../support/gateway.ts'
import { folder, gatewayTo } from '../../support/journey.ts'
import { alone } from '../../support/scattered.ts'
import { isObject, type Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'
import { steadyPort } from '../../support/steady-port.ts'
import { startWebhookReceiver } from '../../support/webhook-receiver.ts'

const name = 'hook.only'
const tokens = ['ada', 'bob'].map((id) => ({
  hash: tokenHash(`token-of-${id}`),
  id,
  scopes: ['read:one', 'write:one'],
}))

interface Options {
  readonly port?: number
  readonly store?: string
  readonly config?: Json
}

/** A gateway that a server can reach, in front of it. */
async function reachable(url: string, { port, store, config = {} }: Options = {}): Promise<RunningGateway> {
  const own = port ?? (await steadyPort())
  const listen = { public_url: `http://127.0.0.1:${own}` }
  const all = { features: { events: 'on' }, ...config, listen, ...(store !== undefined && { store }) }
  return gatewayTo({ one: { url } }, { config: all, args: ['--port', String(own)] })
}

function idsIn(result: Json): readonly unknown[] {
  const events: readonly unknown[] = Array.isArray(result['events']) ? result['events'] : []
  return events.filter(isObject).map(({ eventId }) => eventId)
}

function idsOf(received: readonly Received[]): readonly unknown[] {
  return received.filter(({ what }) => what === 'event').map(({ params }) => params['eventId'])
}

describe('the events that a server delivers to webhooks only', () => {
  test('arrive by poll and stream, with gaps and the end, and its challenge does not', async () => {
    const server = await eventsServer()
    const gateway = await reachable(server.url)
    const request = { name, arguments: { repo: 'a' } }
    const stream = await follow(gateway.url, 'events/stream', request)
    await expect.poll(() => stream.received).toHaveLength(1)
    const [subscription] = await server.subscriptions()
    const callback = String(subscription?.['url'])
    expect(callback).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/hooks\/one\/events\/[\w-]{22}$/)
    const headers = { 'content-type': 'application/json' }
    const statusOf = async (url: string, body: string) =>
      (await fetch(url, { method: 'POST', headers, body })).status
    // It is refused by its headers, whatever the length of its body.
    for (const length of [1, 256 * 1024 + 1]) expect(await statusOf(callback, ' '.repeat(length))).toBe(401)
    expect(await statusOf(`${callback}x`, '{}')).toBe(404)
    const receivers = await fetch(new URL('/.well-known/mcp-webhook-receiver.json', callback))
    expect(await receivers.json()).toEqual({ receivers: ['/hooks/'] })
    const { cursor } = await ask(gateway.url, 'events/poll', request)
    server.emit('e1', name, { repo: 'a' })
    server.emit('e2', name, { repo: 'b' })
    server.emit('e3', name, { repo: 'a' })
    await expect.poll(() => idsOf(stream.received)).toEqual(['e1', 'e3'])
    const polled = await ask(gateway.url, 'events/poll', { ...request, cursor })
    expect(polled).toMatchObject({ truncated: false, events: [{ eventId: 'e1', data: { repo: 'a' } }, {}] })
    server.emit('', name, { repo: 'a' }, { isGap: true })
    await expect
      .poll(() => stream.received.at(-1))
      .toMatchObject({ what: 'active', params: { truncated: true } })
    server.emit(
      'end',
      name,
      { repo: 'a' },
      { error: { code: -32012, message: 'no', data: { reason: 'revoked' } } },
    )
    await stream.ended
    const terminated = { error: { code: -32024, data: { reason: 'revoked' } } }
    expect(stream.received.at(-1)).toMatchObject({ what: 'terminated', params: terminated })
    const kinds = new Set(stream.received.map(({ what }) => what))
    expect([...kinds].toSorted()).toEqual(['active', 'event', 'terminated'])
  })

  test('arrive at the webhooks of two tenants by one subscription, and ending one leaves the other', async () => {
    alone('the gateway that delivers learns later of an end at another one')
    const server = await eventsServer()
    const receivers = await Promise.all([startWebhookReceiver(), startWebhookReceiver()])
    onTestFinished(() => receivers.forEach((each) => each.close()))
    const allow = receivers.map(({ origin }) => origin)
    const config = { auth: { opaque: { tokens } }, features: { events: { webhooks: { allow } } } }
    const gateway = await reachable(server.url, { config })
    const tenants = ['ada', 'bob'].map((id, index) => {
      const client = new StatelessClient({ url: `${gateway.url}/one`, token: `token-of-${id}` })
      const { url = '', secret = '' } = receivers[index] ?? {}
      return { client, request: { name, delivery: { mode: 'webhook', url, secret } } }
    })
    for (const { client, request } of tenants)
      expect((await client.send('events/subscribe', request)).error).toBeUndefined()
    server.emit('e1', name, {})
    // A delivery whose answer is late is repeated, with the same id.
    const arrived = () => receivers.map((each) => [...new Set(each.accepted().map(({ eventId }) => eventId))])
    await expect.poll(arrived).toEqual([['e1'], ['e1']])
    const [first] = tenants
    expect((await first?.client.send('events/unsubscribe', first.request))?.error).toBeUndefined()
    server.emit('e2', name, {})
    await expect.poll(arrived).toEqual([['e1'], ['e1', 'e2']])
    expect(await server.subscriptions()).toMatchObject([{ requests: 1, rotations: 0, isEnded: false }])
    const error = { code: -32011, message: 'gone', data: { kind: 'event' } }
    server.emit('e3', name, {})
    server.emit('end', name, {}, { error })
    const bodies = () =>
      receivers[1]?.accepted().filter(({ eventId }) => eventId !== 'e1' && eventId !== 'e2')
    const ended = { type: 'terminated', error: { code: -32023, data: { kind: 'event' } } }
    await expect.poll(bodies).toMatchObject([{ eventId: 'e3' }, ended])
    expect(gateway.stderr()).not.toContain('whsec_')
  })

  test('are not missed while the gateway restarts, and keep their subscription and its secret', async () => {
    const server = await eventsServer()
    const options = { port: await steadyPort(), store: folder() }
    const request = { name }
    const before = await reachable(server.url, options)
    const { cursor } = await ask(before.url, 'events/poll', request)
    before.stop()
    await before.ended
    server.emit('meanwhile', name, {})
    const after = await reachable(server.url, options)
    const polled = async () => ask(after.url, 'events/poll', { ...request, cursor })
    await expect.poll(async () => idsIn(await polled())).toEqual(['meanwhile'])
    expect(await polled()).toMatchObject({ truncated: false })
    await expect.poll(() => server.subscriptions()).toMatchObject([{ requests: 2, rotations: 0 }])
    server.emit('after', name, {})
    await expect.poll(async () => idsIn(await polled())).toEqual(['meanwhile', 'after'])
  })

  test('arrive at either of two gateways with one store, which subscribe once', async () => {
    alone('the gateways are those of a fleet')
    const server = await eventsServer()
    const store = join(folder(), 'store')
    const [port, other] = [await steadyPort(), await steadyPort()]
    // A balancer in front of both, which gives requests to each in turn.
    let turns = 0
    const balancer = createServer((incoming, outgoing) => {
      const { method, headers, url: path } = incoming
      const forwarded = request(
        { port: turns++ % 2 === 0 ? port : other, method, headers, path },
        (answer) => {
          outgoing.writeHead(answer.statusCode ?? 502)
          answer.pipe(outgoing)
        },
      )
      forwarded.on('error', () => outgoing.writeHead(502).end())
      incoming.pipe(forwarded)
    })
    await new Promise<void>((resolve) => balancer.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void balancer.close())
    const listen = { public_url: `http://127.0.0.1:${(balancer.address() as AddressInfo).port}` }
    const config = { features: { events: 'on' }, listen, store }
    const start = (own: number): Promise<RunningGateway> =>
      gatewayTo({ one: { url: server.url } }, { config, args: ['--port', String(own)] })
    await Promise.all([port, other].map(start))
    const urls = [port, other].map((own) => `http://127.0.0.1:${own}/mcp`)
    const cursors: unknown[] = []
    for (const url of urls) cursors.push((await ask(url, 'events/poll', { name }))['cursor'])
    turns = 0
    for (const id of ['e1', 'e2', 'e3', 'e4']) server.emit(id, name, {})
    for (const [index, url] of urls.entries()) {
      const polled = async () => idsIn(await ask(url, 'events/poll', { name, cursor: cursors[index] }))
      await expect.poll(polled).toEqual(['e1', 'e2', 'e3', 'e4'])
    }
    expect(turns).toBe(4)
    expect(await server.subscriptions()).toMatchObject([{ requests: 1, rotations: 0 }])
  })

  test('are subscribed to again before the server forgets them', async () => {
    const server = await eventsServer({ GRANT: '1500' })
    const gateway = await reachable(server.url)
    await ask(gateway.url, 'events/poll', { name })
    const [{ requests } = {}] = await server.subscriptions()
    expect(requests).toBe(1)
    const renewed = async () => (await server.subscriptions())[0]?.['requests']
    await expect.poll(renewed).toBeGreaterThanOrEqual(3)
    expect(await server.subscriptions()).toMatchObject([{ rotations: 0, isEnded: false }])
  })

  test('are refused while the server cannot reach the gateway, with the reason in the log', async () => {
    const server = await eventsServer()
    const [port, nobody] = [await steadyPort(), await steadyPort()]
    const config = { features: { events: 'on' }, listen: { public_url: `http://127.0.0.1:${nobody}` } }
    const options = { config, args: ['--port', String(port)], warm: false }
    const gateway = await gatewayTo({ one: { url: server.url } }, options)
    const failing = async () => ask(`http://127.0.0.1:${port}/mcp`, 'events/poll', { name })
    await expect.poll(failing).toMatchObject({
      error: { data: { code: 'SERVER_UNAVAILABLE', reason: 'callback_failed' } },
    })
    const line = await gateway.logged(({ event }) => event === 'events.not_relayed')
    expect(line).toMatchObject({ level: 'warn', message: expect.stringContaining('connection_refused') })
  })

  test('are not offered without a public URL, and check says why', async () => {
    alone('the gateway has no public URL')
    const server = await eventsServer()
    const gateway = await gatewayTo({ one: { url: server.url } }, { config: { features: { events: 'on' } } })
    const { events } = await ask(gateway.url, 'events/list')
    expect(events).not.toContainEqual(expect.objectContaining({ name }))
    const checked = await runCommand(['check', '--config', gateway.configFile])
    expect(checked.stderr).toContain('hook.only to webhooks only')
    expect(checked.stderr).toContain('listen.public_url')
  })
})
