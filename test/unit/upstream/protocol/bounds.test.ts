import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous, type Principal } from '../../../../src/core/principal.ts'
import type { UpstreamConnection } from '../../../../src/upstream/protocol/connection.ts'
import { Pool } from '../../../../src/upstream/connector.ts'
import { ToolIndex } from '../../../../src/upstream/tool-index.ts'
import { FairMutex } from '../../../../src/upstream/protocol/server-requests.ts'
import { silentLog } from '../../../support/silent-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

interface Fake extends UpstreamConnection {
  isBusy: boolean
  isClosed: boolean
}

function fake(isBusy: boolean): Fake {
  const connection: Fake = {
    discovered: Payload.of({}),
    era: 'legacy',
    revision: '2025-11-25',
    canAsk: true,
    isBusy,
    isClosed: false,
    open: () => Promise.resolve({ kind: 'result', result: Payload.of({}) }),
    tool: () => undefined,
    lacks: () => false,
    close: () => {
      connection.isClosed = true
      return Promise.resolve()
    },
  }
  return connection
}

function pool(open: () => Promise<UpstreamConnection>): Pool<Principal | undefined> {
  return new Pool({
    failurePause: 30_000,
    idle: 1000,
    open,
    owner: (key) => key ?? anonymous,
    isFailure: () => true,
    log: silentLog,
  })
}

describe('connections to a server', () => {
  test('the number of connections is limited while all are in use', async () => {
    const busy = pool(() => Promise.resolve(fake(true)))
    for (let client = 0; client < 64; client++) await busy.get(`${client}`, undefined)
    await expect(busy.get('one more', undefined)).rejects.toMatchObject({ code: 'OVERLOADED' })
    expect(busy.connections).toHaveLength(64)
    await busy.close()
  })

  test('one caller can have a quarter of the connections', async () => {
    const busy = pool(() => Promise.resolve(fake(true)))
    const [greedy, quiet] = [{ id: 'greedy' }, { id: 'quiet' }]
    for (let client = 0; client < 16; client++) await busy.get(`greedy ${client}`, greedy)
    await expect(busy.get('greedy again', greedy)).rejects.toMatchObject({
      code: 'OVERLOADED',
      message: expect.stringContaining('of this caller'),
    })
    await expect(busy.get('quiet', quiet)).resolves.toBeDefined()
    await expect(busy.get('greedy 0', greedy)).resolves.toBeDefined()
    await busy.close()
  })

  test('an idle connection of the same caller is closed for a new one, and none of other callers', async () => {
    const opened: Fake[] = []
    const idle = pool(() => {
      const connection = fake(false)
      opened.push(connection)
      return Promise.resolve(connection)
    })
    await idle.get('quiet', { id: 'quiet' })
    for (let client = 0; client < 17; client++) await idle.get(`greedy ${client}`, { id: 'greedy' })
    await vi.advanceTimersByTimeAsync(0)
    expect(opened.filter(({ isClosed }) => isClosed)).toEqual([opened[1]])
    await idle.close()
  })

  test('the least recently used connection is closed for a new one', async () => {
    const opened: Fake[] = []
    const idle = pool(() => {
      const connection = fake(false)
      opened.push(connection)
      return Promise.resolve(connection)
    })
    for (let client = 0; client < 65; client++) await idle.get(`${client}`, undefined)
    await vi.advanceTimersByTimeAsync(0)
    expect(opened.filter(({ isClosed }) => isClosed)).toEqual([opened[0]])
    await idle.close()
  })

  test('idle connections are closed after a timeout', async () => {
    const connection = fake(false)
    const idle = pool(() => Promise.resolve(connection))
    await idle.get('client', undefined)
    await vi.advanceTimersByTimeAsync(2000)
    expect(connection.isClosed).toBe(true)
    await idle.close()
  })

  test('connections that fail repeatedly are not retried for a while', async () => {
    let tries = 0
    const failing = pool(() => {
      tries++
      return Promise.reject(new Error('it ended'))
    })
    for (let attempt = 0; attempt < 5; attempt++)
      await failing.get('client', undefined).catch(() => undefined)
    await expect(failing.get('client', undefined)).rejects.toMatchObject({
      code: 'SERVER_UNAVAILABLE',
      extra: { retryAfterSeconds: 30 },
    })
    expect(tries).toBe(5)
    await vi.advanceTimersByTimeAsync(30_001)
    await failing.get('client', undefined).catch(() => undefined)
    expect(tries).toBe(6)
    await failing.close()
  })
})

describe('the fair mutex', () => {
  test('an aborted waiter and a repeated release do not block the queue', async () => {
    const turns = new FairMutex()
    const gone = new AbortController()
    const { signal } = new AbortController()
    const release = await turns.take('one', signal)
    const leaving = turns.take('two', gone.signal)
    const next = turns.take('three', signal)
    gone.abort(new Error('gone'))
    await expect(leaving).rejects.toThrow('gone')
    release()
    release()
    await expect(next).resolves.toBeTypeOf('function')
  })
})

const schema = { type: 'object', properties: { x: { type: 'string', 'x-mcp-header': 'X' } } }

describe('pagination of server lists', () => {
  const page = (nextCursor: unknown): Payload =>
    Payload.of({ tools: [{ name: 'a', inputSchema: schema }], nextCursor })

  test.each<[string, unknown]>([
    ['an empty cursor', ''],
    ['a null cursor', null],
    ['a numeric cursor', 7],
  ])('pagination ends at %s', async (_name, cursor) => {
    let pages = 0
    const index = new ToolIndex(() => Promise.resolve((pages++, page(cursor))))
    expect((await index.of('a'))?.mirror).toMatchObject([{ header: 'mcp-param-x' }])
    expect(pages).toBe(1)
  })

  test('pagination ends when a cursor repeats', async () => {
    let pages = 0
    const index = new ToolIndex(() => Promise.resolve((pages++, page(`cursor ${pages % 3}`))))
    await index.of('a')
    expect(pages).toBe(4)
  })

  test('pagination ends after a thousand pages', async () => {
    let pages = 0
    const index = new ToolIndex(() => Promise.resolve((pages++, page(`cursor ${pages}`))))
    await index.of('a')
    expect(pages).toBe(1000)
  })
})
