import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { createDialer } from '../../../../../src/features/dialer.ts'
import type { Clock } from '../../../../../src/durable/dispatcher.ts'
import { verifySigned } from '../../../../../src/core/standard-webhooks.ts'
import { MemoryStore } from '../../../../../src/store/memory.ts'
import { MemoryQueue, secretOf, sending } from '../../../../support/webhooks.ts'

/** The clock of this machine, whose timers end at once: the time skips to what they were set for. */
function skippingClock(): Clock {
  let skipped = 0
  return {
    now: () => Date.now() + skipped,
    after: (milliseconds, run) => {
      const timer = setTimeout(() => {
        skipped += milliseconds
        run()
      })
      return () => clearTimeout(timer)
    },
  }
}

interface Request {
  readonly url: string | undefined
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** A receiver over HTTP that verifies what it gets, echoes challenges, and answers events with this status. */
async function receiver(statusOf: (request: Request, count: number) => number) {
  const requests: Request[] = []
  const server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const body = Buffer.concat(chunks)
      const { headers, url } = incoming
      if (verifySigned(headers, body, { secrets: [secretOf(1)], now: Date.now() }).kind !== 'valid')
        return outgoing.writeHead(401).end()
      requests.push({ url, headers, body: body.toString() })
      const { type, challenge } = JSON.parse(body.toString())
      if (type === 'verification') return outgoing.end(JSON.stringify({ challenge }))
      const status = statusOf({ url, headers, body: body.toString() }, requests.length)
      return outgoing.writeHead(status, { location: '/elsewhere' }).end('thanks')
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests }
}

async function deliver(queue: MemoryQueue, allow: readonly string[]) {
  const clock = skippingClock()
  const dialer = createDialer({ allow })
  const worker = sending({ queue, dialer, clock, store: new MemoryStore(), random: 0 })
  onTestFinished(() => worker.close())
  return worker
}

it('webhooks over HTTP: a receiver verifies the challenge and every event', async () => {
  const { origin, requests } = await receiver(() => 204)
  const queue = new MemoryQueue()
  queue.subscribe('sub_1', { url: `${origin}/hook?i=7` })
  queue.add('sub_1', 'evt_1', 'evt_2', 'evt_3')
  await deliver(queue, [origin])
  await expect.poll(() => queue.settled.length).toBe(3)
  expect(queue.settled.every(({ kind }) => kind === 'delivered')).toBe(true)
  expect(requests.map(({ url }) => url)).toEqual(Array(4).fill('/hook?i=7'))
  const ids = requests.slice(1).map(({ headers }) => String(headers['webhook-id']))
  expect(ids.toSorted()).toEqual(['evt_1', 'evt_2', 'evt_3'])
  expect(requests[0]?.headers).toMatchObject({ 'x-mcp-subscription-id': 'sub_1' })
})

it('webhooks over HTTP: a redirect is a failure, and the attempt after it is accepted', async () => {
  const { origin, requests } = await receiver((_request, count) => (count === 2 ? 307 : 200))
  const queue = new MemoryQueue()
  queue.subscribe('sub_1', { url: `${origin}/hook` })
  queue.add('sub_1', 'evt_1')
  await deliver(queue, [origin])
  await expect.poll(() => requests.length).toBe(3)
  await expect.poll(() => queue.settled).toMatchObject([{ id: 'evt_1', kind: 'delivered' }])
  expect(requests.map(({ url }) => url)).toEqual(['/hook', '/hook', '/hook'])
})

it('webhooks over HTTP: loopback gets nothing unless it is allowed', async () => {
  const { origin, requests } = await receiver(() => 204)
  const queue = new MemoryQueue()
  queue.subscribe('sub_1', { url: `${origin}/hook` })
  queue.subscribe('sub_2', { url: `${origin.replace('http', 'https')}/hook` })
  queue.add('sub_1', 'evt_1')
  queue.add('sub_2', 'evt_2')
  await deliver(queue, [])
  await expect.poll(() => queue.settled.length).toBe(2)
  expect(queue.settled).toMatchObject([
    { id: 'evt_1', kind: 'refused', failure: 'connection_refused' },
    { id: 'evt_2', kind: 'abandoned', failure: 'connection_refused' },
  ])
  expect(requests).toEqual([])
})
