import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { until } from '../../support/condition.ts'
import { startEffects } from '../../support/effects.ts'
import { publish } from '../../support/event-client.ts'
import { EventReceivers, type WebhookSubscriber } from '../../support/event-receiver.ts'
import { startGateway } from '../../support/gateway.ts'
import { repetitions } from '../../support/soak.ts'
import { steadyPort } from '../../support/steady-port.ts'

const TOKEN = 'a-token-of-at-least-32-characters-00'
const tool = 'add_blind_effect'
const filter = { name: `${tool}.succeeded`, arguments: {} }
const FAST = 8
const EVENTS = repetitions(50, 150)
/** How long a request to a receiver may take, in milliseconds: others would have to wait for as long. */
const REQUEST_TIMEOUT_MS = 10_000

/** A receiver that can be verified, and then takes connections without ever responding. */
async function silentServer(port: number): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => undefined).resume())
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

test('a dead receiver and one that never responds cost the others nothing', async () => {
  const home = mkdtempSync(join(tmpdir(), 'gatehouse-events-'))
  const server = await startEffects(join(home, 'effects.log'), await steadyPort(), ['--slow', '1'])
  const receivers = await Promise.all([1, 2, 3].map(() => EventReceivers.start()))
  const [fast, dead, silent] = receivers
  if (!fast || !dead || !silent) throw new TypeError('There are three receivers')
  const gateway = await startGateway({
    store: join(home, 'store'),
    auth: { opaque: { tokens: [{ id: 'ada', hash: tokenHash(TOKEN) }] } },
    limits: { concurrency: 'off', rate: 'off' },
    features: { confirm: 'off', events: { webhooks: { allow: receivers.map(({ origin }) => origin) } } },
    upstreams: { effects: { url: server.url, revision: '2025-11-25', trust: true } },
  })
  const ending: Server[] = []
  onTestFinished(async () => {
    await gateway.close()
    await server.kill()
    await Promise.all(receivers.map((each) => each.close()))
    for (const each of ending) each.close()
    rmSync(home, { recursive: true, force: true, maxRetries: 5 })
  })
  const address = { urls: [`${gateway.url}/effects`], token: TOKEN }
  const subscribers: WebhookSubscriber[] = []
  for (let each = 0; each < FAST; each++) subscribers.push(await fast.subscribe({ address, filter }))

  /** The lags of all events of a round at the fast receivers, sorted, in milliseconds. */
  const round = async (name: string): Promise<readonly number[]> => {
    let number = 0
    const next = () => (number < EVENTS ? { key: `${name} ${number++}`, value: 'x' } : undefined)
    const { confirmed } = await publish(address, tool, next)
    expect(confirmed.size).toBe(EVENTS)
    const own = () =>
      subscribers.flatMap(({ arrived }) => arrived.filter(({ key }) => key.startsWith(`${name} `)))
    await until(() => own().length >= FAST * EVENTS, `the events of ${name}`)
    return own()
      .map(({ at, arrivedAt }) => arrivedAt - at)
      .toSorted((one, other) => one - other)
  }
  await round('warm')
  const before = await round('alone')
  const late = [await dead.subscribe({ address, filter }), await silent.subscribe({ address, filter })]
  const port = Number(new URL(silent.origin).port)
  await Promise.all([dead.close(), silent.close()])
  ending.push(await silentServer(port))
  const during = await round('with others')
  const after = await round('with others that wait')
  const median = (lags: readonly number[]): number => lags[Math.floor(lags.length / 2)] ?? Number.NaN
  const p99 = (lags: readonly number[]): number => lags[Math.floor(lags.length * 0.99)] ?? Number.NaN
  const figures = [before, during, after].map((lags) => `${median(lags)}/${p99(lags)}`).join(', ')
  process.stdout.write(`lag p50/p99 in ms, alone and twice with a dead and a silent receiver: ${figures}\n`)
  for (const each of [during, after]) expect(median(each)).toBeLessThan(REQUEST_TIMEOUT_MS)
  // They were really there, and got nothing.
  expect(late.flatMap(({ arrived }) => arrived)).toEqual([])
  expect(subscribers.flatMap(({ faults }) => faults)).toEqual([])
})
