import { describe, expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { textOf } from '../../support/client/options.ts'
import type { FakeServer } from '../../support/fake-server.ts'
import {
  callsOf,
  clientOf,
  codeOf,
  gatewayTo,
  httpServer,
  serverJournal,
  stdioServer,
} from '../../support/journey.ts'
import { steadyPort } from '../../support/steady-port.ts'

const pinned = (server: FakeServer) => ({ url: server.url, revision: '2025-11-25', transport: 'streamable' })
const watched = { uri: 'fake://watched' }

describe.each([404, 400] as const)('a server that lost the session and answers %i', (expiredStatus) => {
  test('gets a new handshake, and the call is made', async () => {
    const server = await httpServer({ expiredStatus })
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    server.expireSessions()
    const reply = await client.request('tools/call', { name: 'echo', arguments: { n: 1 } })
    expect(textOf(reply)).toBe('{"n":1}')
    expect(server.received('initialize')).toHaveLength(2)
    expect([...client.violations, ...server.violations]).toEqual([])
  })

  test('gets one new handshake for calls that were refused together', async () => {
    const server = await httpServer({ expiredStatus })
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    server.expireSessions()
    const calls = Array.from({ length: 20 }, (_each, n) =>
      client.request('tools/call', { name: 'echo', arguments: { n } }),
    )
    expect((await Promise.all(calls)).map(textOf)).toEqual(calls.map((_each, n) => `{"n":${n}}`))
    expect(server.received('initialize')).toHaveLength(2)
    expect(server.violations).toEqual([])
  })

  test('gets the subscriptions and the log level again', async () => {
    const server = await httpServer({ expiredStatus })
    const gateway = await gatewayTo({ one: pinned(server) })
    const client = await clientOf(gateway)
    await client.request('logging/setLevel', { level: 'error' })
    await client.subscribe(watched.uri)
    const modern = await clientOf(gateway, { revision: '2026-07-28' })
    const listening = await modern.subscribe(watched.uri)
    server.expireSessions()
    await client.request('tools/call', { name: 'echo' })
    await until(() => server.received('resources/subscribe').length === 2, 'the subscription to be renewed')
    expect(server.received('logging/setLevel').at(-1)?.message).toMatchObject({ params: { level: 'error' } })
    await until(
      () => server.seen.filter(({ kind }) => kind === 'get').length >= 2,
      'the stream to be opened again',
    )
    server.change('watched')
    await client.until(({ method }) => method === 'notifications/resources/updated')
    await listening?.until(({ method }) => method === 'notifications/resources/updated')
    expect([...client.violations, ...modern.violations, ...server.violations]).toEqual([])
  })
})

describe('a server that loses every session after a few requests', () => {
  test('still has every call answered', async () => {
    const server = await httpServer({ expireAfter: 3 })
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    for (let n = 0; n < 10; n++) {
      expect(textOf(await client.request('tools/call', { name: 'echo', arguments: { n } }))).toBe(
        `{"n":${n}}`,
      )
    }
    expect(server.received('initialize').length).toBeGreaterThan(3)
    expect(server.violations).toEqual([])
  })
})

describe('a server that refuses a call for another reason', () => {
  test('gets no new handshake for its own error', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    const { error } = await client.request('tools/call', {
      name: 'error',
      arguments: { code: -32001, message: 'gone' },
    })
    expect(error).toMatchObject({ code: -32001, message: 'gone' })
    expect(server.received('initialize')).toHaveLength(1)
    expect(callsOf(server, 'error')).toBe(1)
  })
})

describe('a call that may have run', () => {
  test.each(['2025-11-25', '2026-07-28'] as const)('is never repeated over HTTP at %s', async (revision) => {
    const server = await httpServer({ revision })
    const gateway = await gatewayTo({ one: { url: server.url, revision } })
    const client = await clientOf(gateway, { revision })
    const replies = await Promise.all([
      client.request('tools/call', { name: 'crash' }),
      client.request('tools/call', { name: 'crash', arguments: { ms: 50 } }),
    ])
    expect(replies.map(codeOf)).toEqual(['OUTCOME_UNKNOWN', 'OUTCOME_UNKNOWN'])
    // Any retry would have happened by the time a later call is over.
    await client.request('tools/call', { name: 'slow', arguments: { ms: 1500, steps: 1 } })
    expect(callsOf(server, 'crash')).toBe(2)
  })

  test.each(['2025-11-25', '2026-07-28'] as const)('is never repeated over stdio at %s', async (revision) => {
    const journal = serverJournal()
    const gateway = await gatewayTo({ one: stdioServer({ revision, seenFile: journal.file }) })
    const client = await clientOf(gateway, { revision })
    expect(codeOf(await client.request('tools/call', { name: 'crash', arguments: { ms: 50 } }))).toBe(
      'OUTCOME_UNKNOWN',
    )
    await client.request('tools/call', { name: 'slow', arguments: { ms: 1000, steps: 1 } })
    expect(journal.calls('crash')).toBe(1)
    expect(journal.calls('slow')).toBe(1)
  })

  test('is made once if the session ends while it runs', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    const { reply } = client.start('tools/call', { name: 'slow', arguments: { ms: 500, steps: 1 } })
    await server.until(({ message }) => message?.['method'] === 'tools/call')
    server.expireSessions()
    await client.request('tools/call', { name: 'echo' })
    await reply
    expect(callsOf(server, 'slow')).toBe(1)
  })
})

describe('a server that is unreachable', () => {
  test('is reported at once', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: pinned(server) }))
    await server.close()
    const reply = await client.request('tools/call', { name: 'echo' })
    expect(codeOf(reply)).toBe('SERVER_UNAVAILABLE')
    expect(reply.error).toMatchObject({
      data: { category: 'transient', retry_after_seconds: expect.any(Number) },
    })
  })

  test.each([
    ['2025-11-25', '2025-11-25'],
    ['2025-11-25', '2026-07-28'],
    ['2026-07-28', '2025-11-25'],
    ['2026-07-28', '2026-07-28'],
  ] as const)(
    'does not keep clients of %s from notifications of another server of %s',
    async (revision, theirs) => {
      const server = await httpServer({ revision: theirs })
      const away = { url: 'http://127.0.0.1:9/mcp' }
      const client = await clientOf(await gatewayTo({ one: { url: server.url }, away }), { revision })
      if (!client.traits.modern)
        expect((await client.request('logging/setLevel', { level: 'debug' })).result).toEqual({})
      const listening = await client.subscribe(`one+${watched.uri}`)
      server.change('watched')
      const note = await (listening ?? client).until(
        ({ method }) => method === 'notifications/resources/updated',
      )
      expect(note.params['uri']).toBe(`one+${watched.uri}`)
      expect([...client.violations, ...server.violations]).toEqual([])
    },
  )

  test.each(['2025-11-25', '2026-07-28'] as const)(
    'can be listened to at %s as soon as it is up',
    async (revision) => {
      const port = await steadyPort()
      const late = { url: `http://127.0.0.1:${port}/mcp` }
      const gateway = await gatewayTo({ one: pinned(await httpServer()), late })
      const client = await clientOf(gateway, { revision: '2026-07-28' })
      const listening = client.listen({ toolsListChanged: true })
      expect(await listening.acknowledged).toEqual({ toolsListChanged: true })
      await httpServer({ revision, port })
      // Its whole list is new to clients that listened before.
      await listening.until(({ method }) => method === 'notifications/tools/list_changed')
      expect(client.violations).toEqual([])
    },
  )
})
