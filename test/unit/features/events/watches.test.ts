import { eventTrials } from '../../../../src/features/offers.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import type { Log } from '../../../../src/core/log.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { DeclaredEvent, WatchedEvent } from '../../../../src/core/settings.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import type { FeatureInstance } from '../../../../src/features/feature.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { dataOf, declaringGateway } from '../../../support/declaring-gateway.ts'
import { featureDeps, type ServiceStubs, offeredBy } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { silentLog } from '../../../support/silent-log.ts'

const watched: WatchedEvent = {
  kind: 'watch',
  watch: 'list_issues(state="open")',
  every: 60_000,
  items: '$.result.issues',
  id: '$.number',
  changed: '$.updated_at',
  removed: false,
}

function tool(name: string, op: Descriptor['classification']['op']): Descriptor {
  const inputSchema = {
    type: 'object',
    properties: { state: { type: 'string' } },
    required: ['state'],
    additionalProperties: false,
  }
  const classification = { op, risk: 'safe', idempotent: op === 'read', evidence: [] } as const
  return { upstream: 'one', kind: 'tool', name, definition: { name, inputSchema }, classification }
}

const tools = [tool('list_issues', 'read'), tool('close_issues', 'write')]

let store = new MemoryStore()
const seal = createSeal(Date.now)
const opened: FeatureInstance[] = []
beforeEach(() => {
  vi.useFakeTimers()
  store = new MemoryStore()
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map(async (each) => each.close?.()))
  vi.useRealTimers()
})

type Issue = Readonly<{ number: number; updated_at?: string; title?: string; password?: string }>

/** A server with issues, which counts its calls. */
function issueServer(...first: readonly Issue[]) {
  const server = {
    issues: [...first],
    calls: [] as Call[],
    failure: undefined as GatewayError | undefined,
    call: async (call: Call): Promise<Outcome> => {
      server.calls.push(call)
      if (server.failure) throw server.failure
      return { kind: 'result', result: Payload.of({ structuredContent: { issues: server.issues } }) }
    },
  }
  return server
}

/** A gateway whose configuration declares events. */
function gateway(
  given: ServiceStubs,
  declared: Readonly<Record<string, DeclaredEvent>> = { 'issue.updated': watched },
  address: 'one' | 'all' = 'one',
) {
  const made = declaringGateway(
    {
      store,
      seal,
      tools: async () => tools,
      entry: ({ target: { name } }) => tools.find((each) => each.name === name),
      ...given,
    },
    declared,
    { address },
  )
  opened.push(made.instance)
  const poll = async (params: Json = {}): Promise<Json> =>
    made.request('events/poll', { name: 'issue.updated', ...params })
  return { ...made, poll }
}

function logged() {
  const lines: Json[] = []
  const at = (event: string, fields: Json = {}): void => void lines.push({ event, ...fields })
  const log: Log = { ...silentLog, info: at, warn: at, error: at }
  return { log, lines, of: (event: string) => lines.filter((line) => line['event'] === event) }
}

describe('watches: polling', () => {
  it('begins when a client wants the events, with the items as a baseline without events', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { poll } = gateway(server)
    await vi.advanceTimersByTimeAsync(300_000)
    expect(server.calls).toHaveLength(0)
    const { cursor, events: none } = await poll()
    expect(none).toEqual([])
    expect(server.calls).toHaveLength(1)
    expect(server.calls[0]).toMatchObject({
      internal: 'read',
      principal: { id: 'gatehouse:events' },
      target: { upstream: 'one', method: 'tools/call', name: 'list_issues' },
    })
    expect(server.calls[0]?.params.value).toMatchObject({ name: 'list_issues', arguments: { state: 'open' } })
    expect(await poll({ cursor })).toMatchObject({ events: [], truncated: false })
  })

  it('yields items that were added or changed since, and not those that are the same', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' }, { number: 2, updated_at: 'a' })
    const { poll } = gateway(server)
    const { cursor } = await poll()
    server.issues = [
      { number: 1, updated_at: 'b', title: 'changed' },
      { number: 2, updated_at: 'a', title: 'not changed by its updated_at' },
      { number: 3, updated_at: 'a' },
    ]
    await vi.advanceTimersByTimeAsync(70_000)
    const page = await poll({ cursor })
    expect(dataOf(page)).toEqual([
      { id: '1', change: 'changed', item: { number: 1, updated_at: 'b', title: 'changed' } },
      { id: '3', change: 'added', item: { number: 3, updated_at: 'a' } },
    ])
    expect(page['events']).toMatchObject([{ _meta: { 'dev.gatehouse/untrusted': true } }, {}])
    await vi.advanceTimersByTimeAsync(200_000)
    expect(dataOf(await poll({ cursor: page['cursor'] }))).toEqual([])
  })

  it('drops what a call found while its process was stopped for longer than it holds the watch', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { poll } = gateway({ ...server, call: (call) => server.call(call) })
    const { cursor } = await poll()
    const { call } = server
    server.issues = [{ number: 1, updated_at: 'b' }]
    server.call = async (made) => {
      const found = await call(made)
      server.call = call
      server.issues = [{ number: 1, updated_at: 'c' }]
      // The process goes on a minute later, when another one may have polled.
      vi.setSystemTime(Date.now() + 60_000)
      return found
    }
    await vi.advanceTimersByTimeAsync(200_000)
    const page = await poll({ cursor })
    expect(dataOf(page)).toMatchObject([{ id: '1', change: 'changed', item: { updated_at: 'c' } }])
  })

  it('compares the whole item without `changed`, and reports an item again when it is as it was before', async () => {
    const server = issueServer({ number: 1, title: 'a' })
    const { changed: _changed, ...whole } = watched
    const { poll } = gateway(server, { 'issue.updated': whole })
    const { cursor } = await poll()
    for (const title of ['b', 'a', 'b']) {
      server.issues = [{ number: 1, title }]
      await vi.advanceTimersByTimeAsync(70_000)
    }
    const { events: found } = await poll({ cursor })
    expect(found).toHaveLength(3)
    expect(new Set((found as Json[]).map(({ eventId }) => eventId)).size).toBe(3)
  })

  it('reports removed items only if it is configured', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' }, { number: 2, updated_at: 'a' })
    const { poll } = gateway(server, {
      'issue.updated': watched,
      'issue.removed': { ...watched, removed: true },
    })
    const { cursor } = await poll()
    const { cursor: other } = await poll({ name: 'issue.removed' })
    server.issues = [{ number: 2, updated_at: 'a' }]
    await vi.advanceTimersByTimeAsync(70_000)
    expect(dataOf(await poll({ cursor }))).toEqual([])
    expect(dataOf(await poll({ name: 'issue.removed', cursor: other }))).toEqual([
      { id: '1', change: 'removed' },
    ])
    server.issues = [
      { number: 1, updated_at: 'a' },
      { number: 2, updated_at: 'a' },
    ]
    await vi.advanceTimersByTimeAsync(70_000)
    // An item that was out of sight, as on another page, is no new one.
    expect(dataOf(await poll({ cursor }))).toEqual([])
    expect(dataOf(await poll({ name: 'issue.removed', cursor: other }))).toMatchObject([
      { change: 'removed' },
      { id: '1', change: 'added' },
    ])
  })

  it('is one for all subscriptions and callers, and in one gateway of those with the same store', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const one = gateway(server)
    const other = gateway({ ...server, membership: { ...featureDeps().identity.membership, id: 'other' } })
    const { cursor } = await one.poll()
    await one.poll({ arguments: { change: 'added' } })
    const { cursor: otherCursor } = await other.poll()
    expect(server.calls).toHaveLength(1)
    server.issues = [{ number: 9, updated_at: 'x' }]
    await vi.advanceTimersByTimeAsync(67_000)
    expect(server.calls).toHaveLength(2)
    const [found, also] = [await one.poll({ cursor }), await other.poll({ cursor: otherCursor })]
    expect(dataOf(found)).toHaveLength(1)
    expect(also['events']).toEqual(found['events'])
  })

  it('goes on in another gateway when the first one ends, from where that was', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const one = gateway(server)
    const other = gateway({ ...server, membership: { ...featureDeps().identity.membership, id: 'other' } })
    const { cursor } = await one.poll()
    await other.poll()
    await one.instance.close?.()
    server.issues = [{ number: 1, updated_at: 'b' }]
    await vi.advanceTimersByTimeAsync(45_000)
    expect(dataOf(await other.poll({ cursor }))).toMatchObject([{ id: '1', change: 'changed' }])
  })

  it('ends when no client wants the events any more', async () => {
    const server = issueServer({ number: 1 })
    const { changed: _changed, ...whole } = watched
    const { poll } = gateway(server, { 'issue.updated': whole })
    await poll()
    await vi.advanceTimersByTimeAsync(620_000)
    const { length } = server.calls
    expect(length).toBeGreaterThan(8)
    expect(length).toBeLessThan(13)
    await vi.advanceTimersByTimeAsync(3_600_000)
    expect(server.calls).toHaveLength(length)
  })

  it('keeps its interval when clients come and go', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { poll } = gateway(server, { 'issue.updated': { ...watched, every: 3_600_000 } })
    for (let minute = 0; minute < 50; minute += 12) {
      await poll()
      await vi.advanceTimersByTimeAsync(12 * 60_000)
    }
    expect(server.calls.length).toBeLessThanOrEqual(2)
  })
})

describe('watches: failures', () => {
  it('yield no events, one log line for each outage, and later what changed meanwhile, once', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { log, of } = logged()
    const { poll } = gateway({ ...server, log })
    const { cursor } = await poll()
    server.failure = new GatewayError('SERVER_UNAVAILABLE', 'The server is down.')
    await vi.advanceTimersByTimeAsync(400_000)
    await poll({ cursor })
    expect(of('events.poll_failed')).toEqual([
      {
        event: 'events.poll_failed',
        type: 'issue.updated',
        upstream: 'one',
        tool: 'list_issues',
        code: 'SERVER_UNAVAILABLE',
        reason: 'The server is down.',
      },
    ])
    server.issues = [
      { number: 1, updated_at: 'b' },
      { number: 2, updated_at: 'a' },
    ]
    server.failure = undefined
    await vi.advanceTimersByTimeAsync(600_000)
    expect(dataOf(await poll({ cursor }))).toHaveLength(2)
    expect(await poll({ cursor })).toMatchObject({ truncated: false })
    expect(of('events.poll_recovered')).toHaveLength(1)
    server.failure = new GatewayError('SERVER_UNAVAILABLE', 'The server is down.')
    await vi.advanceTimersByTimeAsync(400_000)
    expect(of('events.poll_failed')).toHaveLength(2)
  })

  it('are tried again after growing pauses, and not before the server permits it', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const at: number[] = []
    const call = (made: Call): Promise<Outcome> => {
      at.push(Date.now())
      return server.call(made)
    }
    const { poll } = gateway({ call })
    await poll()
    server.failure = new GatewayError('SERVER_UNAVAILABLE', 'down')
    for (let minute = 0; minute < 30; minute++) {
      await vi.advanceTimersByTimeAsync(60_000)
      await poll()
    }
    const pauses = at.slice(1).map((time, index) => time - (at[index] ?? 0))
    expect(pauses[1]).toBeLessThan(70_000)
    expect(pauses[2]).toBeGreaterThan(100_000)
    expect(pauses[3]).toBeGreaterThan(200_000)
    expect(Math.max(...pauses)).toBeLessThanOrEqual(330_001)
    server.failure = new GatewayError('RATE_LIMIT_EXCEEDED', 'slow down', { retryAfterSeconds: 1200 })
    const { length } = at
    while (at.length === length) {
      await vi.advanceTimersByTimeAsync(1000)
      await poll()
    }
    for (let minute = 0; minute < 19; minute++) {
      await vi.advanceTimersByTimeAsync(60_000)
      await poll()
    }
    expect(at).toHaveLength(length + 1)
  })

  it.each([
    ['a result without the list', { items: [] }, 'there is no list at $.result.issues of the result'],
    ['an item without id', { issues: [{ updated_at: 'a' }] }, 'an item has no text or number at $.number'],
    [
      'several items with one id',
      {
        issues: [
          { number: 1, updated_at: 'a' },
          { number: 1, updated_at: 'b' },
        ],
      },
      'several items have the same value at $.number',
    ],
    ['an item without `changed`', { issues: [{ number: 1 }] }, 'an item has nothing at $.updated_at'],
  ])('%s is one, and the log names the setting', async (_what, structuredContent, reason) => {
    const { log, of } = logged()
    const call = async (): Promise<Outcome> => ({ kind: 'result', result: Payload.of({ structuredContent }) })
    const { poll } = gateway({ call, log })
    const { cursor } = await poll()
    expect(of('events.poll_failed')[0]?.['reason']).toContain(reason)
    expect(dataOf(await poll({ cursor }))).toEqual([])
  })

  it('a tool that is not read-only is not called', async () => {
    const server = issueServer()
    const { log, of } = logged()
    const watch = 'close_issues(state="open")'
    const { poll, instance } = gateway({ ...server, log }, { 'issue.updated': { ...watched, watch } })
    await poll()
    expect(server.calls).toHaveLength(0)
    expect(of('events.poll_failed')[0]?.['reason']).toContain('close_issues is not read-only')
    expect(await instance.problems?.()).toEqual([
      {
        path: ['upstreams', 'one', 'events', 'issue.updated', 'watch'],
        message: expect.stringContaining('set op: read'),
      },
    ])
  })

  it('a store that fails between the events and the state yields the same events again', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { poll } = gateway(server)
    const { cursor } = await poll()
    server.issues = [{ number: 1, updated_at: 'b' }]
    const fails = vi.spyOn(store, 'compareAndSwap').mockImplementation(async (key, ...rest) => {
      if (key.startsWith('watch:')) throw new GatewayError('SERVER_UNAVAILABLE', 'no store')
      return MemoryStore.prototype.compareAndSwap.call(store, key, ...rest)
    })
    await vi.advanceTimersByTimeAsync(70_000)
    fails.mockRestore()
    await vi.advanceTimersByTimeAsync(140_000)
    const { events: found } = await poll({ cursor })
    expect(found).toHaveLength(2)
    expect(new Set((found as Json[]).map(({ eventId }) => eventId)).size).toBe(1)
  })
})

describe('watches: a restart', () => {
  it('finds what changed while the gateway was not running, and reports no gap', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const before = gateway(server)
    const { cursor } = await before.poll()
    await before.instance.close?.()
    await vi.advanceTimersByTimeAsync(1000)
    server.issues = [{ number: 1, updated_at: 'b' }]
    const after = gateway(server)
    const page = await after.poll({ cursor })
    expect(dataOf(page)).toMatchObject([{ id: '1', change: 'changed' }])
    expect(page['truncated']).toBe(false)
  })

  it('begins again with a gap if the watch reads something else', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const before = gateway(server)
    const { cursor } = await before.poll()
    await before.instance.close?.()
    await vi.advanceTimersByTimeAsync(1000)
    const after = gateway(server, { 'issue.updated': { ...watched, watch: 'list_issues(state="all")' } })
    expect(await after.poll({ cursor })).toMatchObject({ events: [], truncated: true })
  })
})

describe('watches: what clients receive', () => {
  it('is narrowed by the kind of change, the id and fields of the item', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const { poll } = gateway(server)
    const narrowed = [{ change: 'added' }, { id: '1' }, { title: 'Bug *' }, { title: ['x', 'Other'] }]
    const cursors = await Promise.all(narrowed.map(async (args) => poll({ arguments: args })))
    server.issues = [
      { number: 1, updated_at: 'b', title: 'Bug 1' },
      { number: 2, updated_at: 'a', title: 'Other' },
    ]
    await vi.advanceTimersByTimeAsync(70_000)
    const found = await Promise.all(
      narrowed.map(async (args, index) =>
        dataOf(await poll({ arguments: args, cursor: cursors[index]?.['cursor'] })).map(({ id }) => id),
      ),
    )
    expect(found).toEqual([['2'], ['1'], ['1'], ['2']])
  })

  it('has the declared fields alone, and other filters are then refused with the known ones', async () => {
    const server = issueServer()
    const { poll, request } = gateway(server, {
      'issue.updated': { ...watched, fields: ['title', 'user.login', 'none'] },
    })
    const { cursor } = await poll()
    const issue = { number: 1, updated_at: 'a', title: 't', user: { login: 'ada', mail: 'a@b.c' } }
    server.issues = [issue]
    await vi.advanceTimersByTimeAsync(70_000)
    expect(dataOf(await poll({ cursor }))).toEqual([
      { id: '1', change: 'added', item: { title: 't', 'user.login': 'ada' } },
    ])
    await expect(poll({ arguments: { number: 1 } })).rejects.toThrow(/change, id, title, user\.login, none/)
    const { events: types } = await request('events/list', {})
    expect((types as Json[]).find(({ name }) => name === 'issue.updated')).toMatchObject({
      payloadSchema: { properties: { change: { enum: ['added', 'changed'] } }, required: ['id', 'change'] },
    })
  })

  it('has no secrets, and leaves out what is too long', async () => {
    const server = issueServer()
    const { poll } = gateway(server)
    const { cursor } = await poll()
    server.issues = [{ number: 1, updated_at: 'a', password: 'hunter2', title: 'x'.repeat(70_000) }]
    await vi.advanceTimersByTimeAsync(70_000)
    expect(dataOf(await poll({ cursor }))).toEqual([
      { id: '1', change: 'added', item: { number: 1, updated_at: 'a', password: '***' }, omitted: ['title'] },
    ])
  })

  it('is for callers who may make the call with its arguments, and have the scope', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const isPermitted = async ({ params, principal }: Call) =>
      principal.id !== 'bob' || (params.value as Json)['arguments'] === undefined
    const { request } = gateway(
      { ...server, isPermitted },
      { 'issue.updated': watched, scoped: { ...watched, scope: 'read:issues' } },
    )
    const namesFor = async (call: Partial<Call>) => {
      const { events: types } = await request('events/list', {}, call)
      return (types as Json[]).map(({ name }) => name).filter((name) => /issue|scoped/.test(String(name)))
    }
    expect(await namesFor({})).toEqual(['issue.updated', 'scoped'])
    expect(await namesFor({ principal: { id: 'bob' } })).toEqual([])
    expect(await namesFor({ principal: { id: 'cy', scopes: new Set(['other']) } })).toEqual(['issue.updated'])
    expect(await namesFor({ principal: { id: 'cy', scopes: new Set(['read:issues']) } })).toHaveLength(2)
  })

  it('a text is a list of lines, or JSON', async () => {
    const texts = ['[FILE] a', '[FILE] a\n[DIR] b\n', '["[FILE] a", "c"]']
    let text = texts[0]
    const call = async (): Promise<Outcome> => ({
      kind: 'result',
      result: Payload.of({ structuredContent: { content: text } }),
    })
    const { changed: _changed, ...rest } = watched
    const { poll } = gateway({ call }, { 'issue.updated': { ...rest, items: '$.result.content', id: '$' } })
    const { cursor } = await poll()
    for (text of texts) await vi.advanceTimersByTimeAsync(70_000)
    expect(dataOf(await poll({ cursor }))).toEqual([
      { id: '[DIR] b', change: 'added', item: '[DIR] b' },
      { id: 'c', change: 'added', item: 'c' },
    ])
  })

  it('of no single server are at the address of all servers', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const watch = 'one.list_issues(state="open")'
    const { poll, instance } = gateway(server, { 'issue.updated': { ...watched, watch } }, 'all')
    const { cursor } = await poll()
    server.issues = [{ number: 2, updated_at: 'a' }]
    await vi.advanceTimersByTimeAsync(70_000)
    expect(dataOf(await poll({ cursor }))).toHaveLength(1)
    expect(server.calls[0]?.target).toMatchObject({ upstream: 'one', name: 'list_issues' })
    expect(await instance.problems?.()).toEqual([])
  })
})

describe('watches: a server that cannot be listed', () => {
  it('is no refusal: events are neither unknown nor skipped, and come later', async () => {
    const server = issueServer({ number: 1, updated_at: 'a' })
    const down = new GatewayError('SERVER_UNAVAILABLE', 'The server is down.')
    let isDown = false
    const given: ServiceStubs = {
      ...server,
      admit: async () => {
        if (isDown) throw down
      },
    }
    const { poll, request } = gateway(given)
    const { cursor } = await poll()
    server.issues = [{ number: 1, updated_at: 'b' }]
    await vi.advanceTimersByTimeAsync(70_000)
    isDown = true
    await expect(poll({ cursor })).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    isDown = false
    expect(dataOf(await poll({ cursor }))).toHaveLength(1)
    const names = (await request('events/list', {}))['events']
    expect((names as Json[]).map(({ name }) => name)).toContain('issue.updated')
  })
})

describe('watches: checks', () => {
  it.each([
    ['list_isues(state="open")', 'one has no tool list_isues; did you mean list_issues?'],
    ['list_issues()', 'list_issues requires state, which is missing'],
    ['list_issues(state=1)', 'state of list_issues must be string'],
    ['list_issues(state="open", page=1)', 'list_issues takes no page; there is state'],
  ])('%s is a problem: %s', async (watch, message) => {
    const { instance } = gateway(issueServer(), { e: { ...watched, watch } })
    expect(await instance.problems?.()).toEqual([
      { path: ['upstreams', 'one', 'events', 'e', 'watch'], message },
    ])
  })

  it('a trial makes the call once and says what it found, or why it found nothing', async () => {
    const server = issueServer(...[1, 2, 3, 4].map((number) => ({ number, updated_at: 'a' })))
    const { instance } = gateway(server, {
      good: watched,
      path: { ...watched, items: '$.result.isues' },
      id: { ...watched, id: '$.id' },
    })
    expect(await offeredBy(instance, eventTrials)?.()).toEqual([
      {
        path: ['upstreams', 'one', 'events', 'good'],
        server: 'one',
        found: { items: 4, ids: ['1', '2', '3'] },
      },
      {
        path: ['upstreams', 'one', 'events', 'path'],
        server: 'one',
        found: { key: 'items', problem: 'there is no list at $.result.isues of the result' },
      },
      {
        path: ['upstreams', 'one', 'events', 'id'],
        server: 'one',
        found: { key: 'id', problem: expect.stringContaining('$.id') },
      },
    ])
    expect(server.calls).toHaveLength(3)
    await vi.advanceTimersByTimeAsync(300_000)
    expect(server.calls).toHaveLength(3)
  })
})
