import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import { Faults, noFaults } from '../../simulate/faults.ts'
import { History } from '../../simulate/history.ts'
import { exchange } from '../../simulate/http.ts'
import { addressOf, SimulatedNetwork } from '../../simulate/network.ts'
import { seeded } from '../../simulate/random.ts'
import { Scheduler } from '../../simulate/scheduler.ts'

const [HOST, PORT] = ['10.0.0.1', 8080]

/** A server that answers with what was posted, and a client; `answer` has the status and the text of the response. */
async function world() {
  const scheduler = new Scheduler(5)
  const history = new History(
    () => ({ step: 0, at: 0 }),
    () => undefined,
  )
  const faults = new Faults(scheduler, seeded(1), { rates: noFaults, history })
  const network = new SimulatedNetwork({ scheduler, faults, onRequest: () => undefined })
  const [gateway, client] = [scheduler.process('gateway'), scheduler.process('client')]
  const server = createServer((incoming, outgoing) => {
    incoming.on('data', (chunk: Buffer) => outgoing.write(`${gateway.name} got ${chunk.toString()}`))
    incoming.on('end', () => outgoing.end())
  })
  await network.of(gateway, HOST).listen(server, { port: PORT })
  const post = async (body: string): Promise<string> => {
    let text = ''
    const socket = await network.connect(client, addressOf(HOST, PORT), 'clients')
    const { signal } = new AbortController()
    const onMessage = (each: string): void => void (text = each)
    const { status } = await exchange(socket, {
      method: 'POST',
      path: '/',
      headers: {},
      body,
      onMessage,
      signal,
    })
    return `${status} ${text}`
  }
  /** Runs until a promise is settled, or nothing more happens. */
  const run = async (made: () => Promise<string>): Promise<string> => {
    let result = 'nothing'
    scheduler.after(client, 0, 'begin', () => {
      made().then(
        (text) => (result = text),
        (error: unknown) => (result = String(error)),
      )
    })
    while (result === 'nothing' && (await scheduler.step()));
    return result
  }
  return { scheduler, network, gateway, client, server, post, run }
}

describe('the simulated network', () => {
  test('carries requests and responses of HTTP', async () => {
    const { post, run, scheduler } = await world()
    expect(await run(() => post('this'))).toBe('200 gateway got this')
    expect(scheduler.time).toBeGreaterThan(0)
  })

  test('refuses connections once a server is closed, or its process has ended', async () => {
    const { post, run, server, network } = await world()
    server.close()
    expect(await run(() => post('this'))).toBe('Error: ECONNREFUSED')
    expect(network.isAccepting(HOST, PORT)).toBe(false)
    const other = await world()
    other.gateway.isAlive = false
    other.network.ended(other.gateway)
    expect(await other.run(() => other.post('this'))).toBe('Error: ECONNREFUSED')
  })

  test('a process that stands still answers when it continues', async () => {
    const { post, run, gateway, scheduler } = await world()
    gateway.stoppedUntil = 20_000
    expect(await run(() => post('this'))).toBe('200 gateway got this')
    expect(scheduler.time).toBeGreaterThan(20_000)
  })

  test('a client learns that the process of its connection has ended', async () => {
    const { post, run, gateway, network, scheduler } = await world()
    const operator = scheduler.process('operator')
    gateway.stoppedUntil = 20_000
    scheduler.after(operator, 5000, 'kill', () => {
      gateway.isAlive = false
      network.ended(gateway)
    })
    expect(await run(() => post('this'))).toBe('undefined ')
    expect(scheduler.time).toBeLessThan(20_000)
  })
})
