import type { ServerResponse } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { open, type OpenReply, post, usual } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { goodAnswer } from '../../support/faults.ts'
import { type FaultyServer, startFaultyServer } from '../../support/faulty-server.ts'
import { initialize, modern, sessionFront } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import type { Json } from '../../support/server/json.ts'

let server: FaultyServer
let gateway: RunningGateway
const streams: OpenReply[] = []
/** How the calls of the flooding tool ended: cut off, or with everything sent. */
const ends: string[] = []

beforeAll(async () => {
  server = await startFaultyServer({
    flood: (response, { id }) => flood(response, id),
    huge: (response, { id }) => {
      const answer = goodAnswer(id).replace('good', 'x'.repeat(3 * 1024 * 1024))
      response.writeHead(200, { 'content-type': 'application/json' }).end(answer)
    },
  })
  gateway = await startGateway({
    listen: { legacy_sse: true },
    upstreams: {
      web: {
        url: server.url,
        revision: '2025-11-25',
        transport: 'streamable',
        tools: { flood: { confirm: 'never' } },
      },
    },
  })
})
afterAll(async () => {
  for (const stream of streams) stream.destroy()
  await gateway.close()
  await server.close()
})

/** Sends 64 MB, as fast as possible. */
function flood(response: ServerResponse, id: unknown): void {
  const note = {
    jsonrpc: '2.0',
    method: 'notifications/message',
    params: { level: 'info', data: 'x'.repeat(65_536) },
  }
  const event = `data: ${JSON.stringify(note)}\n\n`
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  let left = 1000
  const say = (): void => {
    while (left-- > 0) if (!response.write(event)) return void response.once('drain', say)
    response.end(`data: ${goodAnswer(id)}\n\n`)
  }
  response.on('close', () => ends.push(left > 0 ? 'cut off' : 'done'))
  say()
}

/** A call whose response is not read beyond its head. */
async function unread(message: Json, headers: Readonly<Record<string, string>>): Promise<void> {
  const body = JSON.stringify(message)
  streams.push(await open(gateway.url, { method: 'POST', headers: { ...usual, ...headers }, body }))
}

async function goesOn(): Promise<void> {
  const { message, headers } = modern('tools/call', { name: 'good' })
  expect((await post(gateway.url, JSON.stringify(message), headers)).text).toContain('good')
}

test('a 2026-07-28 call whose client does not read is aborted and cancelled at the server', async () => {
  const params = { name: 'flood', _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }
  const { message, headers } = modern('tools/call', params)
  ends.length = 0
  await unread(message, headers)
  await until(() => ends.length > 0, 'the end of the call')
  expect(ends).toEqual(['cut off'])
  await goesOn()
})

test('an older call whose client does not read uses no more memory than its replay buffer', async () => {
  const front = await sessionFront(gateway.url)
  await front.send('{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"debug"}}')
  ends.length = 0
  await unread({ jsonrpc: '2.0', id: 3, method: 'tools/call', params: { name: 'flood' } }, front.session)
  const line = await gateway.logged(({ event }) => event === 'client.slow')
  expect(line['session']).toMatch(/^[0-9a-f]{32}$/)
  // A disconnect is no cancellation here: the call runs to its end.
  await until(() => ends.length > 0, 'the end of the call')
  expect(ends).toEqual(['done'])
  await goesOn()
  await front.close()
})

test('an HTTP+SSE client that does not read its stream loses it', async () => {
  const stream = await open(`${gateway.origin}/sse`, {
    method: 'GET',
    headers: { accept: 'text/event-stream' },
  })
  streams.push(stream)
  const { value } = await stream.events().next()
  const target = new URL(String(value?.data), gateway.origin).href
  await post(target, JSON.stringify(initialize()))
  const statuses = await until(async () => {
    const call = { jsonrpc: '2.0', id: `${Math.random()}`, method: 'tools/call', params: { name: 'huge' } }
    const { status } = await post(target, JSON.stringify(call))
    return status === 404 && status
  }, 'the end of the session')
  expect(statuses).toBe(404)
  await goesOn()
})
