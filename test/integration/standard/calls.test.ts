import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import type { Note, Reply } from '../../support/client/options.ts'
import { localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { openSession } from '../../support/raw-session.ts'
import { type Asked, scriptedServer, type ScriptedServer, tokenOf } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const revisions = ['2025-11-25', '2026-07-28'] as const
const progress = 'notifications/progress'
const done = { content: [{ type: 'text', text: 'done' }] }
const secret = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'

/** What each tool of the server does. */
const tools: Readonly<Record<string, (asked: Asked) => Json | undefined>> = {
  hang: (asked) => {
    // An open stream lasts until the client closes it.
    asked.say({ method: 'notifications/message', params: { level: 'debug', data: 'hanging' } })
    return undefined
  },
  steps: (asked) => {
    for (const [value, more] of [
      [1, {}],
      [2, { total: 3 }],
      [3, { total: 3, message: 'last' }],
    ] as const)
      report(asked, value, more)
    asked.finish(done)
    return undefined
  },
  repeats: (asked) => {
    for (const value of [1, 1, 0, 2, 2, 1.5, 3, Number.NaN, -1]) report(asked, value)
    asked.finish(done)
    return undefined
  },
  floods: (asked) => {
    for (let value = 1; value <= 2000; value++) report(asked, value, { total: 2000 })
    asked.finish(done)
    return undefined
  },
  late: (asked) => {
    report(asked, 1)
    asked.finish(done)
    return undefined
  },
  intrudes: (asked) => {
    asked.say({ method: progress, params: { progressToken: 'nobody', progress: 1 } })
    asked.say({ method: progress, params: { progressToken: 987_654, progress: 1 } })
    asked.say({ method: progress, params: { progress: 1 } })
    asked.finish(done)
    return undefined
  },
}

function report(asked: Asked, value: number, more: Json = {}): void {
  const progressToken = tokenOf(asked) ?? 'none'
  asked.say({ method: progress, params: { progressToken, progress: value, ...more } })
}

let server: ScriptedServer
let gateway: LocalGateway
const clients: FakeClient[] = []
beforeAll(async () => {
  server = await scriptedServer(
    { tools: {}, logging: {} },
    {
      'tools/list': () => ({
        tools: Object.keys(tools).map((name) => ({
          name,
          description: 'Returns what the test wants to see',
          inputSchema: { type: 'object' },
        })),
      }),
      'tools/call': (asked) => tools[String(asked.params['name'])]?.(asked),
    },
  )
  gateway = await localGateway({ upstreams: { it: server.url } })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await gateway.close()
  await server.close()
})

async function clientOf(revision: (typeof revisions)[number]): Promise<FakeClient> {
  const client = await connect({ transport: 'http', url: gateway.url, revision })
  clients.push(client)
  return client
}

function stepsOf({ notes }: Reply): unknown[] {
  return notes.filter(({ method }) => method === progress).map(({ params }) => params['progress'])
}

describe.each(revisions)('for a client of %s', (revision) => {
  it('C106 C107 C108 C110 a cancelled call ends at the server, gets no response and leaves nothing open', async () => {
    const client = await clientOf(revision)
    const before = server.open
    const { id, reply } = client.start('tools/call', { name: 'hang', arguments: {} })
    const failure = reply.catch((error: unknown) => error)
    await until(() => server.open > before, 'the call')
    const call = server.seen.findLast((each) => each['method'] === 'tools/call')
    await client.cancel(id)
    expect(await failure).toBeInstanceOf(Error)
    await until(
      () =>
        server.seen.some(
          (each) =>
            each['method'] === 'notifications/cancelled' &&
            objectAt(each, 'params')['requestId'] === call?.['id'],
        ),
      'the notification to reach the server',
    )
    await until(() => server.open === before, 'the exchange to be over')
    expect((await client.request('tools/call', { name: 'late', arguments: {} })).result).toMatchObject(done)
    expect(client.late).toEqual([])
    expect(client.violations).toEqual([])
  })

  it('C112 progress is sent only if the client gave a token', async () => {
    const client = await clientOf(revision)
    const quiet = await client.request('tools/call', { name: 'steps', arguments: {} })
    expect([quiet.notes, client.notes]).toEqual([[], []])
    const intruded = await client.request(
      'tools/call',
      { name: 'intrudes', arguments: {} },
      { progressToken: 'mine' },
    )
    expect(stepsOf(intruded)).toEqual([])
  })

  it('C114 progress can include a total and a message', async () => {
    const client = await clientOf(revision)
    const { notes } = await client.request(
      'tools/call',
      { name: 'steps', arguments: {} },
      { progressToken: 'p' },
    )
    const values = notes.map(({ params: { _meta, ...rest } }: Note) => rest)
    expect(values).toEqual([
      { progressToken: 'p', progress: 1 },
      { progressToken: 'p', progress: 2, total: 3 },
      { progressToken: 'p', progress: 3, total: 3, message: 'last' },
    ])
  })

  it('C113 progress increases even if the server repeats itself', async () => {
    const client = await clientOf(revision)
    const reply = await client.request(
      'tools/call',
      { name: 'repeats', arguments: {} },
      { progressToken: 'p' },
    )
    expect(stepsOf(reply)).toEqual([1, 2, 3])
  })

  it('C115 no notification is sent after the response', async () => {
    const client = await clientOf(revision)
    const token = 'once'
    await client.request('tools/call', { name: 'late', arguments: {} }, { progressToken: token })
    await client.request('tools/call', { name: 'intrudes', arguments: {} })
    expect(client.notes).toEqual([])
    expect(client.violations).toEqual([])
  })

  it('C116 a flood of progress is throttled, and ends with the last step', async () => {
    const client = await clientOf(revision)
    const reply = await client.request(
      'tools/call',
      { name: 'floods', arguments: {} },
      { progressToken: 'p' },
    )
    const steps = stepsOf(reply)
    expect(steps.length).toBeGreaterThan(5)
    expect(steps.length).toBeLessThan(100)
    expect(steps.at(-1)).toBe(2000)
    expect(steps).toEqual(steps.toSorted((one, other) => Number(one) - Number(other)))
    expect(reply.result).toMatchObject(done)
  })
})

it('C109 the reason of a cancellation is logged, with values that look like secrets redacted', async () => {
  const session = await openSession(gateway.url, '2025-11-25')
  const before = server.open
  const call = session.send({
    jsonrpc: '2.0',
    id: 'secretive',
    method: 'tools/call',
    params: { name: 'hang', arguments: {} },
  })
  call.catch(() => undefined)
  await until(() => server.open > before, 'the call')
  const params = { requestId: 'secretive', reason: `the user of ${secret} went home` }
  await session.post({ jsonrpc: '2.0', method: 'notifications/cancelled', params })
  const line = await until(
    () => gateway.lines.find(({ reason }) => reason === 'the user of *** went home'),
    'a line of the log',
  )
  expect(line).toMatchObject({ event: 'call', name: 'hang', outcome: 'CANCELLED' })
  expect(JSON.stringify(gateway.lines)).not.toContain(secret)
  const isTold = (each: Json): boolean =>
    each['method'] === 'notifications/cancelled' &&
    objectAt(each, 'params')['reason'] === 'the user of *** went home'
  await until(() => server.seen.some(isTold), 'the notification to reach the server')
})
