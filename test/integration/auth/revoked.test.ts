// What outlives a request of a caller, after the configuration has changed.
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { knownCallers } from '../../support/auth/callers.ts'
import { until } from '../../support/condition.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { isObject, type Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const { auth, token, bearer } = knownCallers(['ada', 'bob'], ['read:files'])
const { tokens } = auth.opaque
const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-revoked-')))
writeFileSync(join(root, 'list.txt'), 'line\n'.repeat(100_000))

const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
const config = (changed: Json = auth): Json => ({
  auth: changed,
  limits: { rate: 'off' },
  listen: { legacy_sse: true },
  features: { references: { urls: true } },
  upstreams: { files: { command } },
})
/** The settings with Bob's token, and Ada's with these scopes, or without it. */
const withAda = (scopes?: readonly string[]): Json => ({
  opaque: {
    tokens: tokens
      .filter(({ id }) => id !== 'ada' || scopes)
      .map((each) => (each.id === 'ada' ? { ...each, scopes } : each)),
  },
})

let gateway: Awaited<ReturnType<typeof localGateway>>
beforeAll(async () => {
  gateway = await localGateway(config())
})
beforeEach(() => gateway.reload(config()))
afterAll(async () => {
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

/** The URL of data that a tool returned to a caller. */
async function dataOf(id: 'ada' | 'bob'): Promise<string> {
  const client = new StatelessClient({ url: gateway.url, token: token(id) })
  const answer = await client.call('read_text_file', { path: join(root, 'list.txt') })
  const reference = answer.meta['dev.gatehouse/data_reference']
  return isObject(reference) ? String(reference.access_url) : ''
}

/** The URL at which one file is accepted for a caller. */
async function ticketOf(id: 'ada' | 'bob'): Promise<string> {
  const client = new StatelessClient({ url: gateway.url, token: token(id) })
  const { fields } = await client.call('request_upload')
  return isObject(fields['structuredContent']) ? String(fields['structuredContent'].url) : ''
}

const statusOf = async (url: string, init?: RequestInit): Promise<number> => (await fetch(url, init)).status
const put = (url: string): Promise<number> => statusOf(url, { method: 'PUT', body: 'a file' })

/** An open stream of a caller. */
async function streamOf(path: string, id: 'ada' | 'bob'): Promise<{ isOver: boolean }> {
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const headers = { ...bearer(id), accept: 'text/event-stream' }
  const { status, body } = await fetch(`${gateway.origin}${path}`, { headers, signal: stop.signal })
  expect(status).toBe(200)
  const stream = { isOver: false }
  const end = (): void => void (stream.isOver = true)
  body?.pipeTo(new WritableStream()).then(end, end)
  return stream
}

it('a removed token ends what it opened and signed, and leaves that of others', async () => {
  const [ada, bob] = [await dataOf('ada'), await dataOf('bob')]
  const [adas, bobs] = [await ticketOf('ada'), await ticketOf('bob')]
  const [stream, other] = [await streamOf('/sse', 'ada'), await streamOf('/sse', 'bob')]
  expect([await statusOf(ada), await statusOf(bob)]).toEqual([200, 200])
  await gateway.reload(config(withAda()))
  expect([await statusOf(ada), await statusOf(bob)]).toEqual([403, 200])
  expect([await put(adas), await put(bobs)]).toEqual([403, 201])
  await until(() => stream.isOver, 'the end of the stream')
  expect(other.isOver).toBe(false)
  // Back again, it is the same caller.
  await gateway.reload(config())
  expect([await statusOf(ada), await put(adas)]).toEqual([200, 201])
})

it('a scope that was removed is needed for signed data too', async () => {
  const url = await dataOf('ada')
  await gateway.reload(config(withAda([])))
  expect(await statusOf(url)).toBe(404)
  await gateway.reload(config())
  expect(await statusOf(url)).toBe(200)
})

it('what a gateway without callers signed is refused once callers authenticate', async () => {
  await gateway.reload(config({}))
  const url = await dataOf('ada')
  expect(await statusOf(url)).toBe(200)
  await gateway.reload(config())
  expect(await statusOf(url)).toBe(403)
})
