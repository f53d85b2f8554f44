import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { open, type OpenReply, usual } from '../../support/client/raw.ts'
import { until } from '../../support/condition.ts'
import { modern, sessionFront } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { pagingServer } from '../../support/paging-server.ts'
import { sizeOfEach } from '../../support/scattered.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, objectAt, parse } from '../../support/server/json.ts'

const STREAM = 'dev.gatehouse/stream'
const CHUNK = 'dev.gatehouse/chunk'
const PAGES = 100
/** Together, the pages are far larger than what sockets hold, also those between gateways. */
const PAGE_BYTES = 300_000 * sizeOfEach()

let server: Awaited<ReturnType<typeof pagingServer>>
let gateway: RunningGateway
beforeAll(async () => {
  server = await pagingServer(PAGE_BYTES)
  gateway = await startGateway({
    store: 'memory',
    limits: { result: '100MB' },
    features: { stream: { max_pages: PAGES } },
    upstreams: { pages: { url: server.url, revision: '2025-11-25', transport: 'streamable' } },
  })
})
afterAll(async () => {
  await gateway.close()
  await server.close()
})

/** How many other calls the gateway makes before it is said to wait. */
const OTHER_CALLS = 20
const other = { name: 'list_texts', arguments: { mail: true } }

const params = { name: 'list_large', arguments: {}, _meta: { [STREAM]: true, progressToken: 'p' } }

async function calling(message: Json, headers: HeaderMap): Promise<OpenReply> {
  return open(gateway.url, {
    method: 'POST',
    headers: { ...usual, ...headers },
    body: JSON.stringify(message),
  })
}

/**
 * The number of pages that were requested, once the gateway requests no other one while it does a lot else: it makes
 * other calls to the same server, which take it longer than the next page would.
 */
async function settledCalls(): Promise<number> {
  const { session } = await sessionFront(gateway.url)
  let before = -1
  return until(async () => {
    const now = pagesOf().length
    const isSettled = now === before && now > 0
    before = now
    for (let id = 0; id < OTHER_CALLS; id++) {
      const reply = await calling({ jsonrpc: '2.0', id, method: 'tools/call', params: other }, session)
      expect(await reply.text()).toContain('person0@example.com')
    }
    return isSettled && now
  }, 'the collection to wait')
}

/** The calls that request pages of the collection. */
function pagesOf(): readonly Json[] {
  return server.calls().filter(({ mail }) => mail !== true)
}

/** Every chunk, and the result, of a stream that is read to its end. */
async function read(reply: OpenReply): Promise<{ chunks: Json[]; result: Json }> {
  const chunks: Json[] = []
  let result: Json = {}
  for await (const { data } of reply.events()) {
    const message = data === undefined || data === '' ? undefined : parse(data)
    if (!isObject(message)) continue
    const chunk = objectAt(objectAt(message, 'params'), '_meta')[CHUNK]
    if (isObject(chunk)) chunks.push(chunk)
    if (message['result'] !== undefined) result = objectAt(message, 'result')
  }
  return { chunks, result }
}

describe.each(['2026-07-28', '2025-11-25'])('a client of %s that reads slowly', (revision) => {
  async function reach(): Promise<OpenReply> {
    if (revision === '2026-07-28') {
      const { message, headers } = modern('tools/call', params)
      return calling(message, headers)
    }
    const { session } = await sessionFront(gateway.url)
    return calling({ jsonrpc: '2.0', id: 7, method: 'tools/call', params }, session)
  }

  it('holds up the requests to the server, and loses no chunk of all that follow', async () => {
    const start = pagesOf().length
    const reply = await reach()
    const requested = (await settledCalls()) - start
    expect(requested).toBeGreaterThan(0)
    expect(requested).toBeLessThan(PAGES / 2)
    const { chunks, result } = await read(reply)
    expect(chunks.map(({ sequence }) => sequence)).toEqual(
      Array.from({ length: PAGES }, (_each, index) => index),
    )
    expect(chunks.at(-1)).toMatchObject({ is_final: true })
    expect(objectAt(objectAt(result, '_meta'), STREAM)).toEqual({
      pages: PAGES,
      items: PAGES,
      complete: true,
    })
    expect(pagesOf().length - start).toBe(PAGES)
  })

  it('and leaves ends the collection, if leaving cancels the call', async () => {
    const start = pagesOf().length
    const reply = await reach()
    await settledCalls()
    reply.destroy()
    const requested = (await settledCalls()) - start
    expect(requested).toBeLessThan(PAGES)
    expect((await settledCalls()) - start).toBe(requested)
  })
})
