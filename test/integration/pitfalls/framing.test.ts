import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { open, post, usual } from '../../support/client/raw.ts'
import { initialize, modern } from '../../support/fronts.ts'
import { RawJson } from '../../support/server/json.ts'
import type { ServerOptions } from '../../support/server/options.ts'
import { startVariants, type Variants } from '../../support/variants.ts'

const servers: Readonly<Record<string, Partial<ServerOptions>>> = {
  'bytes-http': { chunk: 1 },
  'bytes-sse': { revision: '2024-11-05', transport: 'sse', chunk: 1, sseLineEnd: 'crlf' },
  'bytes-stdio': { transport: 'stdio', chunk: 1, framing: 'crlf' },
  crlf: { sseLineEnd: 'crlf', sseOnly: true, chunk: 3 },
  cr: { sseLineEnd: 'cr', sseOnly: true },
  lines: { multilineData: true, sseOnly: true },
  modern: { revision: '2026-07-28', sseOnly: true, multilineData: true, chunk: 2, sseLineEnd: 'crlf' },
  whole: { revision: '2026-07-28' },
  banner: {
    transport: 'stdio',
    banner: ['Server v1 ready', '[dotenv@17] injecting env (0) from .env', '{ not json'],
  },
  primes: { resumable: true, sseOnly: true },
}

let all: Variants
beforeAll(async () => {
  all = await startVariants(servers, {}, { limits: { result: '20MB' } })
})
afterAll(() => all.close())

/** Text that breaks if bytes are not joined before they are decoded. */
const text = 'é € 😀 \u2028 \u2029 \u0085 \u00a0'
const names = Object.keys(servers)

describe.each(['2025-11-25', '2026-07-28'] as const)('to a client of %s', (revision) => {
  test.each(names)(
    'characters split across chunks and all kinds of line endings are forwarded from the server "%s"',
    async (name) => {
      const client = await all.client(name, { revision })
      const notes: unknown[] = []
      const echo = { name: 'echo', arguments: { text } }
      expect(JSON.parse(textOf(await client.request('tools/call', echo)))).toEqual(echo.arguments)
      const slow = { name: 'slow', arguments: { ms: 3, steps: 3 } }
      await client.request('tools/call', slow, { onProgress: (note) => notes.push(note) })
      expect(notes).toHaveLength(3)
      expect(client.violations).toEqual([])
    },
  )

  test.each(['bytes-http', 'bytes-stdio', 'modern'])(
    'big integers and 1.0 are forwarded as written by "%s"',
    async (name) => {
      const client = await all.client(name, { revision })
      const raw = '{"big":9007199254740993,"one":1.0,"huge":12345678901234567890,"small":1e-7}'
      const reply = await client.request('tools/call', { name: 'echo', arguments: new RawJson(raw) })
      expect(textOf(reply)).toBe(raw)
      if (name !== 'bytes-http') return
      expect((await client.request('tools/call', { name: 'vendor' })).text).toContain(
        '"big":12345678901234567890,"float":1.0',
      )
    },
  )

  test.each(['banner', 'primes', 'whole'])('large results are forwarded complete from "%s"', async (name) => {
    const client = await all.client(name, { revision })
    const bytes = 12 * 1024 * 1024
    const reply = await client.request('tools/call', { name: 'big', arguments: { bytes } })
    expect(textOf(reply)).toHaveLength(bytes)
  })
})

test.each(['2025-03-26', '2025-06-18'])(
  'priming events are not sent to a client of %s, nor forwarded from the server',
  async (revision) => {
    const url = `${all.gateway.url}/primes`
    const first = await post(url, JSON.stringify(initialize(revision)))
    const session = {
      'mcp-session-id': first.headers['mcp-session-id'] ?? '',
      'mcp-protocol-version': revision,
    }
    const call = {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { name: 'slow', _meta: { progressToken: 1 } },
    }
    const reply = await post(url, JSON.stringify(call), session)
    expect(reply.events.length).toBeGreaterThan(1)
    expect(reply.events.filter(({ data }) => data === undefined || data === '')).toEqual([])
  },
)

test('priming events are sent to a client of 2025-11-25', async () => {
  const url = `${all.gateway.url}/primes`
  const first = await post(url, JSON.stringify(initialize()))
  const session = { 'mcp-session-id': first.headers['mcp-session-id'] ?? '' }
  const call = {
    jsonrpc: '2.0',
    id: 2,
    method: 'tools/call',
    params: { name: 'slow', _meta: { progressToken: 1 } },
  }
  const reply = await open(url, {
    method: 'POST',
    headers: { ...usual, ...session },
    body: JSON.stringify(call),
  })
  const { value } = await reply.events().next()
  // The part after ~ names the request, for a client that resumes after a restart.
  expect(value).toMatchObject({ id: expect.stringMatching(/^\d+~\d+-\d+$/) })
  expect(value?.data ?? '').toBe('')
  reply.destroy()
})

test('big integers as ids are returned as they were sent', async () => {
  for (const id of ['9007199254740993', '"9007199254740993"', '-1', '""', '"é😀"']) {
    const { message, headers } = modern('tools/list', {}, new RawJson(id))
    const body = JSON.stringify({ ...message, id: 'ID' }).replace('"ID"', id)
    const reply = await post(`${all.gateway.url}/crlf`, body, headers)
    expect(reply.text).toContain(`"id":${id},`)
  }
})
