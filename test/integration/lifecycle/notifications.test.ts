// Notifications of stdio servers, most of which name no request: they reach the calls they may belong to while other
// calls share the pipe, and none is dropped without a log line.
import { describe, expect, test } from 'vitest'
import type { Reply } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { clientOf, gatewayTo, stdioServer } from '../../support/journey.ts'
import { alone } from '../../support/scattered.ts'

const levels = ['debug', 'info', 'notice', 'warning', 'error', 'critical']
const PATIENCE = 50_000

function logging(client: FakeClient, logLevel = 'debug'): Promise<Reply> {
  return client.request(
    'tools/call',
    { name: 'log', arguments: { levels } },
    { logLevel, timeoutMs: PATIENCE },
  )
}

function levelsIn(notes: Reply['notes']): unknown[] {
  return notes.filter(({ method }) => method === 'notifications/message').map(({ params }) => params['level'])
}

/** A call that stays in flight until it is ended. */
async function busy(client: FakeClient): Promise<{ end(): Promise<void> }> {
  const started = Promise.withResolvers<void>()
  const params = { name: 'slow', arguments: { ms: 60_000, steps: 600 } }
  const { id, reply } = client.start('tools/call', params, {
    onProgress: () => started.resolve(),
    timeoutMs: PATIENCE,
  })
  reply.catch(() => undefined)
  await started.promise
  return { end: () => client.cancel(id) }
}

describe.each(['2026-07-28', '2025-11-25'] as const)('a server of %s on stdio', (revision) => {
  test('sends its log messages to the call of a 2026-07-28 client while others are in flight', async () => {
    const gateway = await gatewayTo({ one: stdioServer({ revision }) })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const other = await busy(client)
    for (let time = 0; time < 3; time++) expect(levelsIn((await logging(client)).notes)).toEqual(levels)
    await other.end()
    expect(client.violations).toEqual([])
  })

  test('sends its log messages to all subscribed calls of a caller if they are ambiguous', async () => {
    const gateway = await gatewayTo({ one: stdioServer({ revision }) })
    const client = await clientOf(gateway, { revision: '2026-07-28' })
    const replies = await Promise.all([logging(client), logging(client), logging(client)])
    for (const { notes } of replies) expect(new Set(levelsIn(notes))).toEqual(new Set(levels))
  })

  test('has log messages dropped, and that logged, if two sessions could be meant', async () => {
    alone('each gateway starts servers over stdio')
    const gateway = await gatewayTo({ one: stdioServer({ revision }) }, { args: ['--log-level', 'debug'] })
    const [first, second] = [await clientOf(gateway), await clientOf(gateway)]
    for (const client of [first, second]) await client.request('logging/setLevel', { level: 'debug' })
    const other = await busy(second)
    const { notes } = await logging(first)
    await other.end()
    expect(levelsIn([...notes, ...first.notes, ...second.notes])).toEqual([])
    const dropped = await gateway.logged(
      ({ event, dropped: count }) => event === 'upstream.note_dropped' && count === levels.length,
      PATIENCE,
    )
    expect(dropped).toMatchObject({ method: 'notifications/message' })
  })
})
