import { fileURLToPath } from 'node:url'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { alone } from '../../support/scattered.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const program = fileURLToPath(new URL('../../fixtures/context-server/main.ts', import.meta.url))
const command = [process.execPath, program]
const CLIENTS = 10
const CALLS = 20

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function killed(pid: unknown): Promise<void> {
  process.kill(Number(pid), 'SIGKILL')
  await until(() => !isRunning(Number(pid)), 'the end of a killed process')
}

describe('the connection of a client without a session', () => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway({
      upstreams: {
        each: { command, features: { state: { connection: 'on' } } },
      },
    })
  })
  afterAll(() => gateway.close())
  const client = (server: string, isDeclaring = false): StatelessClient =>
    new StatelessClient({ url: `${gateway.url}/${server}`, isDeclaring })

  test('ten clients at once come back to their own process for 20 calls each', async () => {
    const counts = await Promise.all(
      Array.from({ length: CLIENTS }, async () => {
        const one = client('each')
        const seen: { readonly pid: unknown; readonly count: unknown }[] = []
        for (let number = 0; number < CALLS; number++) {
          const { seen: at } = await one.call('count')
          seen.push({ pid: at['pid'], count: at['count'] })
        }
        return seen
      }),
    )
    for (const seen of counts) {
      expect(seen.map(({ count }) => count)).toEqual(Array.from({ length: CALLS }, (_, index) => index + 1))
      expect(new Set(seen.map(({ pid }) => pid)).size).toBe(1)
    }
    expect(new Set(counts.map(([first]) => first?.pid)).size).toBe(CLIENTS)
  })

  test('the first result has a state that changed, the next ones a state that did not', async () => {
    const one = client('each')
    const first = await one.call('count')
    expect(first.fields).toMatchObject({ session_state: first.state, state_changed: true })
    expect(first.meta).toMatchObject({
      'dev.gatehouse/state_changed': true,
      'dev.gatehouse/session': { context: 'new', metadata: { server_name: 'each' }, version: 1 },
    })
    const second = await one.call('count')
    expect(second.fields).toMatchObject({ state_changed: false })
    expect(second.meta['dev.gatehouse/session']).toMatchObject({
      metadata: { tool_context: { last_tool: 'count' } },
      version: 2,
    })
    expect(second.seen['meta']).not.toContain('dev.gatehouse/session_state')
  })

  test('a call without a token gets another connection, and an older token still leads to its own', async () => {
    const one = client('each')
    const first = await one.call('count')
    const other = await client('each').call('count')
    expect(other.seen['pid']).not.toBe(first.seen['pid'])
    const again = await client('each').call('count', {}, { session_state: first.state })
    expect(again.seen).toMatchObject({ pid: first.seen['pid'], count: 2 })
  })

  test('a read whose process was killed runs in a new context, and says so', async () => {
    const one = client('each')
    const { seen } = await one.call('count')
    await killed(seen['pid'])
    const read = await one.call('peek')
    expect(read.seen).toMatchObject({ count: 0 })
    expect(read.fields).toMatchObject({ state_changed: true })
    expect(read.meta['dev.gatehouse/session']).toMatchObject({ context: 'lost' })
    expect(read.texts.at(-1)).toContain('The context of this session on the server was lost')
    const next = await one.call('count')
    expect(next.seen).toMatchObject({ pid: read.seen['pid'], count: 1 })
    expect(next.fields).toMatchObject({ state_changed: false })
  })

  test('a write whose process was killed is not made, and its error leads to the new context', async () => {
    const one = client('each')
    const { seen, state: old } = await one.call('count')
    await killed(seen['pid'])
    const refused = await one.call('count')
    expect(refused.fields).toMatchObject({
      isError: true,
      error: { code: 'CONFLICT', reason: 'context_lost' },
    })
    expect(refused.meta).toMatchObject({
      'dev.gatehouse/state_changed': true,
      'dev.gatehouse/session': { context: 'lost' },
    })
    expect(refused.state).not.toBe(old)
    const again = await one.call('count')
    expect(again.seen).toMatchObject({ count: 1 })
    expect(again.fields).toMatchObject({ state_changed: false })
    const late = await client('each').call('count', {}, { session_state: old })
    expect(late.fields, 'the old token').toMatchObject({ error: { reason: 'context_lost' } })
  })

  test('a call that fails after it opened a connection returns its state with the error', async () => {
    const one = client('each')
    const failed = await one.call('fail')
    expect(failed.state).toBeDefined()
    const next = await one.call('count')
    expect(next.fields).toMatchObject({ state_changed: false })
  })

  test('clients that declared the extension are notified of their session, others are not', async () => {
    const one = client('each', true)
    const first = await one.call('count')
    const event = (type: string): object => ({ method: 'notifications/session', params: { type } })
    expect(first.notes).toMatchObject([event('session_created')])
    await killed(first.seen['pid'])
    const lost = await one.call('peek')
    expect(lost.notes).toMatchObject([
      { method: 'notifications/session', params: { type: 'session_invalidated', reason: 'context_lost' } },
      event('session_created'),
    ])
    expect((await client('each').call('count')).notes).toEqual([])
  })
})

describe('clients of a server over stdio', () => {
  alone(
    'each gateway starts it, and has the sessions of older clients, which may not be where a connection is',
  )
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway({
      upstreams: { asked: { command }, shared: { command, isolation: 'shared' } },
    })
  })
  afterAll(() => gateway.close())
  const client = (server: string, isDeclaring = false): StatelessClient =>
    new StatelessClient({ url: `${gateway.url}/${server}`, isDeclaring })

  test('by default only clients that request a state get a connection, by the extension or by a flag', async () => {
    const plain = [await client('asked').call('count'), await client('asked').call('count')]
    expect(plain[1]?.seen['pid']).toBe(plain[0]?.seen['pid'])
    expect(plain[0]?.fields).not.toHaveProperty('session_state')
    const declared = await client('asked', true).call('count')
    expect(declared.seen['pid']).not.toBe(plain[0]?.seen['pid'])
    const flag = { _meta: { 'dev.gatehouse/session_state': true } }
    const flagged = await client('asked').call('count', {}, flag)
    expect(flagged.seen).toMatchObject({ count: 1 })
    expect(flagged.state).toBeDefined()
  })

  test.each(['legacy', { pin: '2026-07-28' }] as const)(
    'a token leads clients of the official SDK to the same process (%o)',
    async (mode) => {
      const first = await client('asked', true).call('count')
      const other = new Client({ name: 'other', version: '1.0.0' }, { versionNegotiation: { mode } })
      await other.connect(new StreamableHTTPClientTransport(new URL(`${gateway.url}/asked`)))
      try {
        const meta = { 'dev.gatehouse/session_state': first.state }
        const { content } = await other.callTool({ name: 'count', arguments: {}, _meta: meta })
        const [block] = content as { text: string }[]
        expect(JSON.parse(block?.text ?? '')).toMatchObject({ pid: first.seen['pid'], count: 2 })
      } finally {
        await other.close()
      }
    },
  )

  test('a server that all clients share stays shared', async () => {
    const one = client('shared', true)
    const first = await one.call('count')
    const other = await client('shared', true).call('count')
    expect(other.seen).toMatchObject({ pid: first.seen['pid'], count: 2 })
  })
})

describe('the session of a client with a server over HTTP', () => {
  const revision = '2025-11-25'
  const features = { state: { connection: 'on' } }
  let server: FakeServer
  let gateway: RunningGateway
  beforeAll(async () => {
    server = await startFakeServer({ revision, transport: 'http' })
    gateway = await startGateway({ upstreams: { kept: { url: server.url, features } } })
  })
  afterAll(async () => {
    await gateway.close()
    await server.close()
  })
  const client = (name: string): StatelessClient => new StatelessClient({ url: `${gateway.url}/${name}` })
  const sessions = (): unknown[] =>
    server.received('tools/call').map(({ headers }) => headers['mcp-session-id'])

  test('two clients keep their own Mcp-Session-Id', async () => {
    const [one, other] = [client('kept'), client('kept')]
    for (let number = 0; number < 3; number++)
      for (const each of [one, other]) await each.call('echo', { text: 'a' })
    const ids = sessions()
    expect(new Set(ids).size).toBe(2)
    expect(ids.filter((_id, index) => index % 2 === 0)).toEqual([ids[0], ids[0], ids[0]])
  })

  test('a session that the server forgot is reported as lost, and not replaced silently', async () => {
    const one = client('kept')
    await one.call('echo', { text: 'a' })
    const before = sessions().at(-1)
    server.expireSessions()
    const lost = await one.call('echo', { text: 'b' })
    expect(lost.meta['dev.gatehouse/session']).toMatchObject({ context: 'lost' })
    expect(lost.texts.at(-1)).toContain('was lost')
    expect(sessions().at(-1)).not.toBe(before)
    expect((await one.call('echo', { text: 'c' })).fields).toMatchObject({ state_changed: false })
  })

  test('a server without sessions gets no connection for each client', async () => {
    alone('each gateway has connections of its own')
    const stateless = await startFakeServer({ revision, transport: 'http', sessions: false })
    onTestFinished(() => stateless.close())
    const one = await startGateway({ upstreams: { none: { url: stateless.url, features } } })
    onTestFinished(() => one.close())
    const newClient = (): StatelessClient => new StatelessClient({ url: `${one.url}/none` })
    await newClient().call('echo', { text: 'a' })
    const before = stateless.received('initialize').length
    for (let number = 0; number < 5; number++) {
      const { fields } = await newClient().call('echo', { text: 'a' })
      expect(fields).not.toHaveProperty('session_state')
    }
    expect(stateless.received('initialize')).toHaveLength(before)
  })

  test('many servers that forget sessions are no failures: calls go on at once', async () => {
    const clients = Array.from({ length: 8 }, () => client('kept'))
    for (const each of clients) await each.call('echo', { text: 'a' })
    server.expireSessions()
    for (const each of clients) {
      const { fields } = await each.call('echo', { text: 'b' })
      expect(fields).toMatchObject({ state_changed: true })
    }
  })
})

describe('a lost context', () => {
  const upstreams = { each: { command, idle: '300ms', features: { state: { connection: 'on' } } } }

  test('after the idle timeout is reported', async () => {
    const gateway = await startGateway({ upstreams })
    try {
      const one = new StatelessClient({ url: `${gateway.url}/each` })
      const { seen } = await one.call('count')
      await until(() => !isRunning(Number(seen['pid'])), 'the idle timeout')
      expect((await one.call('peek')).meta['dev.gatehouse/session']).toMatchObject({ context: 'lost' })
    } finally {
      await gateway.close()
    }
  })
})
