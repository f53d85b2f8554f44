import { eventTypes, publishing, toolFacts } from '../../../../src/features/offers.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Notification } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { concurrency } from '../../../../src/features/concurrency.ts'
import { events } from '../../../../src/features/events/events.ts'
import type { FeatureInstance } from '../../../../src/features/feature.ts'
import { limits } from '../../../../src/features/limits.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { answering, fieldsOf } from '../../../support/chain.ts'
import { until } from '../../../support/condition.ts'
import { eventSettings } from '../../../support/event-settings.ts'
import { featureDeps, type ServiceStubs, withTool, offeredBy } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { toolCall } from '../../../support/tool-call.ts'

type Settings = Exclude<ReturnType<Parameters<typeof events.create>[0]>, false>

const ada: Principal = { id: 'ada' }
const bob: Principal = { id: 'bob' }

function tool(name: string, op: Descriptor['classification']['op']): Descriptor {
  const inputSchema = { type: 'object', properties: { list: {}, text: {}, password: {}, n: {} } }
  const classification = { op, risk: 'safe', idempotent: op === 'read', evidence: [] } as const
  return { upstream: 'one', kind: 'tool', name, definition: { name, inputSchema }, classification }
}

const tools = [tool('add_note', 'write'), tool('drop_note', 'delete'), tool('list_notes', 'read')]

let store = new MemoryStore()
let seal = createSeal(Date.now)
const opened: FeatureInstance[] = []
beforeEach(() => {
  store = new MemoryStore()
  seal = createSeal(Date.now)
})
afterEach(async () => {
  await Promise.all(opened.splice(0).map(async (each) => each.close?.()))
  vi.useRealTimers()
})

/** The feature, and what its clients can do with it. */
function gateway(given: ServiceStubs = {}, settings: Partial<Settings> = {}) {
  const deps = featureDeps({
    store,
    seal,
    // Requests do not wait for gateways in other processes.
    isStoreShared: false,
    servers: () => ['one'],
    tools: async () => tools,
    entry: ({ target: { name } }) => tools.find((each) => each.name === name),
    isOn: (feature) => feature === 'contract' || feature === 'events',
    // A server that never sends anything.
    relay: () => new Promise(() => undefined),
    ...given,
  })
  const instance = events.create(() => eventSettings(settings), deps)
  opened.push(instance)
  const request = async (method: string, params: Json, call: Partial<Call> = {}): Promise<Json> => {
    const target = { method, upstream: 'one', isBuiltin: true } as const
    const handle = instance.builtins?.methods?.[method]
    if (!handle) throw new TypeError(`there is no ${method}`)
    return fieldsOf(
      await handle(toolCall({ method, target, params: Payload.of(params), principal: ada, ...call })),
    )
  }
  const write = async (
    name: string,
    args: Json,
    call: Partial<Call> = {},
    server = answering({ content: [] }),
  ) => {
    const target = { method: 'tools/call', upstream: 'one', name }
    const middleware = withTool(instance, deps).calls?.middleware(target)
    if (!middleware) return undefined
    const params = Payload.of({ name, arguments: args })
    return middleware(server)(toolCall({ params, target, principal: ada, ...call }))
  }
  const poll = (params: Json, call: Partial<Call> = {}): Promise<Json> => request('events/poll', params, call)
  return { instance, request, poll, write, list: (call = {}) => request('events/list', {}, call) }
}

const added = 'add_note.succeeded'

function eventsOf(result: Json): Json[] {
  return result['events'] as Json[]
}

function textsOf(result: Json): unknown[] {
  return eventsOf(result).map(({ data }) => ((data as Json)['arguments'] as Json)['text'])
}

describe('events: masking', () => {
  it('applies the rules at the delivery, also to events from before', async () => {
    const first = gateway()
    const { cursor } = await first.poll({ name: added })
    await first.write('add_note', { list: 'a', text: 'private' })
    const masked = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll('private', '***'))
    const found = await gateway({ masked }).poll({ name: added, cursor })
    expect(textsOf(found)).toEqual(['***'])
    expect(textsOf(await first.poll({ name: added, cursor }))).toEqual(['private'])
  })
})

describe('events: list', () => {
  it('E1 E2 exists for clients of 2026-07-28, which are told so under both keys, and for older ones that know events', async () => {
    const { instance, list, poll } = gateway()
    const legacy = { era: 'legacy', revision: '2025-11-25', capabilities: {} } as const
    await expect(list({ client: legacy })).rejects.toMatchObject({
      code: 'UNSUPPORTED_OPERATION',
      rpc: -32601,
    })
    const discover = instance.responseMiddleware?.('server/discover')?.(
      answering({ capabilities: { tools: {}, extensions: { other: { a: 1 } } } }),
    )
    const method = 'server/discover'
    const call = toolCall({ method, target: { method, upstream: 'one' } })
    const found = discover && fieldsOf(await discover(call))
    expect(found).toEqual({
      capabilities: {
        tools: {},
        events: {},
        extensions: { other: { a: 1 }, 'io.modelcontextprotocol/events': { listChanged: true } },
      },
    })
    const lower = discover && fieldsOf(await discover({ ...call, client: legacy }))
    expect(lower).toEqual({ capabilities: { tools: {}, extensions: { other: { a: 1 } } } })
    const knowing = { ...legacy, capabilities: { events: {} } }
    const known = discover && fieldsOf(await discover({ ...call, client: knowing }))
    expect(known).toEqual({ capabilities: { tools: {}, events: {}, extensions: { other: { a: 1 } } } })
    const {
      events: [type],
    } = (await list({ client: knowing })) as { events: readonly Json[] }
    expect(type).toMatchObject({ delivery: ['webhook'] })
    await expect(poll({ name: added }, { client: knowing })).rejects.toMatchObject({ rpc: -32601 })
    expect(instance.responseMiddleware?.('tools/list')).toBeUndefined()
  })

  it('has the changes of a server and the successes of its tools that write, with all members of a type', async () => {
    const { events: all } = await gateway().list()
    expect(all).toHaveLength(9)
    const names = (all as Json[]).map(({ name }) => name)
    expect(names).toEqual([
      added,
      'contract_changed',
      'drop_note.succeeded',
      'prompts_changed',
      'resource_updated',
      'resources_changed',
      'tools_changed',
      'upstream_down',
      'upstream_up',
    ])
    for (const type of all as Json[]) {
      expect(type).toMatchObject({
        description: expect.any(String),
        delivery: ['poll', 'push', 'webhook'],
        inputSchema: { type: 'object' },
        payloadSchema: { type: 'object' },
        _meta: { 'dev.gatehouse/upstream': 'one' },
      })
    }
    const sources = (all as Json[]).map(({ _meta: meta }) => (meta as Json)['dev.gatehouse/source'])
    expect(new Set(sources)).toEqual(new Set(['gateway', 'notifications', 'writes']))
    expect(sources[0]).toBe('writes')
  })

  it('describes for documents what each tool has, and what no tool has', () => {
    const { instance } = gateway()
    const facts = tools.map((entry) => offeredBy(instance, toolFacts)?.(entry, tools))
    expect(facts).toEqual([{ event: added }, { event: 'drop_note.succeeded' }, {}])
    const names = offeredBy(instance, eventTypes)?.('one').map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining(['tools_changed', 'resource_updated', 'contract_changed']))
    expect(names).not.toContain(added)
    const [first] = tools
    if (!first) throw new TypeError('there is one')
    expect(offeredBy(gateway({}, { writes: 'off' }).instance, toolFacts)?.(first, tools)).toEqual({})
    expect(offeredBy(instance, toolFacts)?.({ ...first, kind: 'prompt' }, tools)).toEqual({})
  })

  it('leaves out the tools that the caller may not call, and all of them if writes are no events', async () => {
    const isPermitted = async ({ target }: Call) => target.name !== 'drop_note'
    const names = eventsOf(await gateway({ isPermitted }).list()).map(({ name }) => name)
    expect(names).toContain(added)
    expect(names).not.toContain('drop_note.succeeded')
    const off = gateway({}, { writes: 'off' })
    expect(eventsOf(await off.list())).toHaveLength(7)
    expect(
      off.instance.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 'add_note' }),
    ).toBeUndefined()
  })

  it('names the server of each type at the address of all servers', async () => {
    const target = { method: 'events/list', isBuiltin: true } as const
    const names = eventsOf(await gateway().list({ target })).map(({ name }) => name)
    expect(names).toContain('one_add_note.succeeded')
    expect(names).toContain('one_resource_updated')
    const poll = await gateway().poll({ name: 'one_add_note.succeeded' }, { target })
    expect(poll).toMatchObject({ events: [], cursor: expect.any(String) })
  })
})

describe('events: poll', () => {
  it('E20 begins now without a cursor or with null, and returns what happens later', async () => {
    const { poll, write } = gateway()
    await poll({ name: added })
    await write('add_note', { text: 'before' })
    const absent = await poll({ name: added })
    expect(absent).toEqual({
      events: [],
      cursor: expect.any(String),
      truncated: false,
      hasMore: false,
      nextPollMs: expect.any(Number),
    })
    const first = await poll({ name: added, cursor: null })
    await write('add_note', { text: 'after', list: 'a' })
    for (const { cursor } of [absent, first]) {
      const next = await poll({ name: added, cursor })
      expect(next).toMatchObject({ truncated: false, hasMore: false })
      expect(next['events']).toEqual([
        {
          eventId: expect.stringMatching(/^evt_[\w-]{22}$/),
          name: added,
          timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
          data: { tool: 'add_note', arguments: { text: 'after', list: 'a' } },
          _meta: { 'dev.gatehouse/untrusted': true },
        },
      ])
      expect(eventsOf(await poll({ name: added, cursor: next['cursor'] }))).toEqual([])
    }
  })

  it('returns the same event with the same id, from every gateway with the same store', async () => {
    const { poll, write } = gateway()
    const { cursor } = await poll({ name: added })
    await write('add_note', { text: 'x' })
    const [one] = eventsOf(await poll({ name: added, cursor }))
    const [other] = eventsOf(await gateway().poll({ name: added, cursor }))
    expect(other).toEqual(one)
  })

  it('returns at most maxEvents, and says that there are more', async () => {
    const { poll, write } = gateway()
    const start = await poll({ name: added })
    for (const text of ['1', '2', '3', '4', '5']) await write('add_note', { text })
    const first = await poll({ name: added, cursor: start['cursor'], maxEvents: 2 })
    expect(textsOf(first)).toEqual(['1', '2'])
    expect(first['hasMore']).toBe(true)
    const second = await poll({ name: added, cursor: first['cursor'], maxEvents: 3 })
    expect(textsOf(second)).toEqual(['3', '4', '5'])
    expect(second['hasMore']).toBe(false)
  })

  it('filters by equality, by any of a list, and by a pattern, and refuses unknown arguments with the known ones', async () => {
    const { poll, write } = gateway()
    const of = async (args: Json) => ({ name: added, arguments: args, ...(await cursorOf(args)) })
    const cursorOf = async (args: Json) => {
      const { cursor } = await poll({ name: added, arguments: args })
      return { cursor }
    }
    const filters = [{ list: 'a' }, { list: ['b', 'c'] }, { text: 'buy *', n: 1 }, {}]
    const requests = await Promise.all(filters.map(of))
    await write('add_note', { list: 'a', text: 'buy milk', n: 1 })
    await write('add_note', { list: 'b', text: 'buy bread', n: 2 })
    await write('add_note', { list: 'd', text: 'sleep' })
    const found = await Promise.all(requests.map(async (request) => textsOf(await poll(request))))
    expect(found).toEqual([['buy milk'], ['buy bread'], ['buy milk'], ['buy milk', 'buy bread', 'sleep']])
    await expect(poll({ name: added, arguments: { color: 'red' } })).rejects.toMatchObject({
      rpc: -32602,
      message: expect.stringContaining('list, text, password, n'),
    })
  })

  it('E21 answers an unknown cursor with what there is, and says that it is truncated', async () => {
    const { poll, write } = gateway()
    await poll({ name: added })
    await write('add_note', { text: 'x' })
    const own = await poll({ name: added })
    await write('add_note', { text: 'y' })
    const foreign = await poll({ name: added }, { principal: bob })
    const other = await poll({ name: added, arguments: { list: 'a' } })
    for (const cursor of ['', 'nonsense', foreign['cursor'], other['cursor']]) {
      const page = await poll({ name: added, cursor })
      expect(page).toMatchObject({ truncated: true, cursor: expect.any(String) })
      expect(textsOf(page)).toEqual(['x', 'y'])
    }
    await store.close()
    const lost = await poll({ name: added, cursor: own['cursor'] })
    expect(lost).toMatchObject({ truncated: true, events: [] })
    expect(await poll({ name: added, cursor: lost['cursor'] })).toMatchObject({
      truncated: false,
      events: [],
    })
  })

  it('leaves out events older than maxAgeMs, and says so', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const { poll, write } = gateway()
    const { cursor } = await poll({ name: added })
    await write('add_note', { text: 'old' })
    vi.setSystemTime(Date.now() + 60_000)
    await write('add_note', { text: 'new' })
    const page = await poll({ name: added, cursor, maxAgeMs: 30_000 })
    expect(textsOf(page)).toEqual(['new'])
    expect(page['truncated']).toBe(true)
    expect(await poll({ name: added, cursor: null, maxAgeMs: 0 })).toMatchObject({ truncated: false })
    expect(await poll({ name: added, cursor, maxAgeMs: 90_000 })).toMatchObject({ truncated: false })
  })

  it('refuses an unknown type, and one whose tool the caller may not call, with the code of the extension', async () => {
    const isPermitted = async ({ target, principal }: Call) => principal === ada || target.name !== 'add_note'
    const { poll } = gateway({ isPermitted })
    const notFound = { rpc: -32023, data: { kind: 'event' } }
    await expect(poll({ name: 'no.such' })).rejects.toMatchObject(notFound)
    await expect(poll({ name: added }, { principal: bob })).rejects.toMatchObject(notFound)
    await expect(poll({ name: added })).resolves.toBeDefined()
    for (const wrong of [{}, { name: 1 }, { name: added, cursor: 1 }, { name: added, arguments: [] }]) {
      await expect(poll(wrong)).rejects.toMatchObject({ rpc: -32602 })
    }
    await expect(poll({ name: added, maxEvents: -1 })).rejects.toMatchObject({ rpc: -32602 })
    await expect(poll({ name: added, maxAgeMs: 'x' })).rejects.toMatchObject({ rpc: -32602 })
  })
})

describe('events: successes of tools', () => {
  it('are those of calls that had an effect: not of reads, failures, and outcomes that are no end', async () => {
    const { poll, write } = gateway()
    const cursors = await Promise.all(
      ['add_note', 'drop_note'].map((name) => poll({ name: `${name}.succeeded` })),
    )
    await write('list_notes', {})
    await write('add_note', { text: 'failed' }, {}, answering({ content: [], isError: true }))
    const thrown: Handler = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
    await expect(write('add_note', {}, {}, thrown)).rejects.toThrow('It is away.')
    const asking: Handler = async () => ({ kind: 'input_required', inputRequests: {}, requestState: {} })
    await write('add_note', { text: 'asked' }, {}, asking)
    await write('drop_note', { text: 'dropped' })
    const [first, second] = cursors
    expect(eventsOf(await poll({ name: added, cursor: first?.['cursor'] }))).toEqual([])
    expect(textsOf(await poll({ name: 'drop_note.succeeded', cursor: second?.['cursor'] }))).toEqual([
      'dropped',
    ])
    await expect(poll({ name: 'list_notes.succeeded' })).rejects.toMatchObject({ rpc: -32023 })
  })

  it('are those of the caller alone, or of all callers if that is configured', async () => {
    const isPermitted = async ({ params, principal }: Call) =>
      principal === ada || (params.fields['arguments'] as Json)['list'] !== 'private'
    const texts: unknown[] = []
    for (const writes of ['own', 'all'] as const) {
      store = new MemoryStore()
      const { poll, write } = gateway({ isPermitted }, { writes })
      const start = await poll({ name: added }, { principal: bob })
      await write('add_note', { text: 'of ada', list: 'a' })
      await write('add_note', { text: 'of ada, private', list: 'private' })
      await write('add_note', { text: 'of bob', list: 'a' }, { principal: bob })
      texts.push(textsOf(await poll({ name: added, cursor: start['cursor'] }, { principal: bob })))
    }
    expect(texts).toEqual([['of bob'], ['of ada', 'of bob']])
  })

  it('contain neither secrets nor masked data, and leave out what is long', async () => {
    const masked = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value).replaceAll('ada@example.org', '***')) as unknown
    const { poll, write } = gateway({ masked })
    const { cursor } = await poll({ name: added })
    const text = 'mail ada@example.org, token ghp_abcdefghijklmnopqrstuvwxyz0123456789'
    await write('add_note', { text, password: 'hunter2', n: 1, list: 'x'.repeat(5000) })
    const [event] = eventsOf(await poll({ name: added, cursor }))
    const written = JSON.stringify(event)
    for (const secret of ['ada@example.org', 'ghp_abc', 'hunter2', 'xxx'])
      expect(written).not.toContain(secret)
    expect(event).toMatchObject({ data: { arguments: { n: 1, password: '***' }, omitted: ['list'] } })
  })

  it('do not fail a call whose event cannot be kept', async () => {
    const { poll, write } = gateway()
    await poll({ name: added })
    const failing = vi
      .spyOn(store, 'setIfAbsent')
      .mockRejectedValue(new GatewayError('SERVER_UNAVAILABLE', 'It is full.'))
    expect(await write('add_note', { text: 'x' })).toMatchObject({ kind: 'result' })
    expect(failing).toHaveBeenCalled()
  })
})

describe('events: while the store fails', () => {
  it('are written again for a while, so that the call returns after its event was kept', async () => {
    const { poll, write } = gateway()
    const { cursor } = await poll({ name: added })
    const away = new GatewayError('SERVER_UNAVAILABLE', 'It is away.')
    vi.spyOn(store, 'setIfAbsent').mockRejectedValueOnce(away).mockRejectedValueOnce(away)
    await write('add_note', { text: 'x' })
    const page = await poll({ name: added, cursor })
    expect(textsOf(page)).toEqual(['x'])
    expect(page).toMatchObject({ truncated: false })
  })

  it('are kept by a process that cannot see at once whether clients want them', async () => {
    const { poll } = gateway({ isStoreShared: true })
    const { cursor } = await poll({ name: added })
    const { write } = gateway({ isStoreShared: true })
    vi.spyOn(store, 'get').mockRejectedValueOnce(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
    await write('add_note', { text: 'x' })
    const page = await poll({ name: added, cursor })
    expect(textsOf(page)).toEqual(['x'])
    expect(page).toMatchObject({ truncated: false })
  })

  it('are lost if it fails for longer, and clients learn that events may be missing', async () => {
    const { poll, write } = gateway()
    const { cursor } = await poll({ name: added })
    const failing = vi
      .spyOn(store, 'setIfAbsent')
      .mockRejectedValue(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
    await write('add_note', { text: 'lost' })
    failing.mockRestore()
    await expect.poll(() => poll({ name: added, cursor })).toMatchObject({ truncated: true })
    await write('add_note', { text: 'kept' })
    expect(textsOf(await poll({ name: added, cursor }))).toEqual(['kept'])
  })
})

describe('events: without clients that want them', () => {
  /** Counts what is written to the store. */
  function countWrites() {
    const writes = (['put', 'setIfAbsent', 'compareAndSwap', 'delete', 'compareAndDelete'] as const).map(
      (name) => vi.spyOn(store, name),
    )
    return () => writes.reduce((sum, { mock }) => sum + mock.calls.length, 0)
  }

  it('nothing is written to the store, and it is read a few times a second at most', async () => {
    const { write, instance } = gateway({ isStoreShared: true })
    const writes = countWrites()
    const reads = vi.spyOn(store, 'get')
    const began = performance.now()
    for (let index = 0; index < 500; index++) await write('add_note', { text: `${index}` })
    offeredBy(instance, publishing)?.('one', { name: 'contract_changed', data: { before: '1', after: '2' } })
    await write('drop_note', {})
    const quarters = Math.ceil((performance.now() - began) / 250)
    expect(writes()).toBe(0)
    expect(reads.mock.calls.length).toBeLessThanOrEqual(quarters)
  })

  it('a store of this process alone is not read either, nor written for what is published once', async () => {
    const { write, poll, instance } = gateway({ isStoreShared: false })
    const writes = countWrites()
    const reads = vi.spyOn(store, 'get')
    await write('add_note', {})
    await write('list_notes', {})
    const once = { key: 'k', for: 60_000 }
    offeredBy(instance, publishing)?.(undefined, { name: 'quota_low', data: {}, once })
    await new Promise((resolve) => setImmediate(resolve))
    expect([reads.mock.calls.length, writes()]).toEqual([0, 0])
    await poll({ name: added })
    reads.mockClear()
    await write('add_note', {})
    expect(reads).toHaveBeenCalled()
  })

  it('each write is logged while they may come back, and none after that', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    store = new MemoryStore(() => Date.now())
    const { poll, write } = gateway({}, { keep: 60_000 })
    const first = await poll({ name: added })
    const hour = Date.now() + 3_600_000
    await write('add_note', { text: 'kept' })
    expect(textsOf(await poll({ name: added, cursor: first['cursor'] }))).toEqual(['kept'])
    vi.setSystemTime(hour)
    const writes = countWrites()
    await write('add_note', { text: 'lost' })
    expect(writes()).toBe(0)
    const late = await poll({ name: added, cursor: first['cursor'] })
    expect(late).toMatchObject({ events: [], truncated: true })
    await write('add_note', { text: 'kept again' })
    const next = await poll({ name: added, cursor: late['cursor'] })
    expect(next).toMatchObject({ truncated: false })
    expect(textsOf(next)).toEqual(['kept again'])
  })

  it('a client gets all events after its first cursor, whichever gateway with the same store made the calls', async () => {
    const lost: unknown[] = []
    const rounds = Array.from({ length: 12 }, async () => {
      const shared = { store: new MemoryStore(), isStoreShared: true }
      const [one, other] = [gateway(shared), gateway(shared)]
      let isOver = false
      let written = 0
      const writing = (async () => {
        while (!isOver) {
          await other.write('add_note', { n: ++written })
          await new Promise((resolve) => setImmediate(resolve))
        }
      })()
      const { cursor } = await one.poll({ name: added })
      const before = written
      await until(() => written > before + 20, 'more calls')
      isOver = true
      await writing
      const page = await one.poll({ name: added, cursor, maxEvents: 500 })
      const numbers = eventsOf(page).map(({ data }) => ((data as Json)['arguments'] as Json)['n'])
      // The call that was under way when the cursor came may be on either side of it.
      for (let each = before + 1; each <= written; each++) if (!numbers.includes(each)) lost.push(each)
    })
    await Promise.all(rounds)
    expect(lost).toEqual([])
  })
})

describe('events: the gateway', () => {
  it('publishes a changed contract of a server, if contracts have versions', async () => {
    const { instance, poll } = gateway()
    const { cursor } = await poll({ name: 'contract_changed' })
    const data = { before: '1.0.0', after: '1.1.0' }
    offeredBy(instance, publishing)?.('one', { name: 'contract_changed', data })
    const found = async () => eventsOf(await poll({ name: 'contract_changed', cursor }, { principal: ada }))
    await expect.poll(found).toHaveLength(1)
    expect(await found()).toMatchObject([{ name: 'contract_changed', data }])
    const without = gateway({ isOn: (feature) => feature !== 'contract' })
    await expect(without.poll({ name: 'contract_changed' })).rejects.toMatchObject({ rpc: -32023 })
  })
})

/** A server whose notifications a test sends. */
function notifyingServer() {
  const listening: Call[] = []
  const relay: Handler = (call) => {
    listening.push(call)
    call.emit({
      method: 'notifications/subscriptions/acknowledged',
      params: Payload.of({ notifications: {} }),
    })
    return new Promise((_resolve, reject) => {
      call.signal.addEventListener('abort', () => {
        listening.splice(listening.indexOf(call), 1)
        reject(call.signal.reason as Error)
      })
    })
  }
  const notify = (method: string, params?: Json): void => {
    const filters = listening.map(({ params: { fields } }) => JSON.stringify(fields['notifications']))
    const wanted = params ? JSON.stringify(params['uri']) : 'toolsListChanged'
    for (const [index, call] of listening.entries())
      if (filters[index]?.includes(wanted))
        call.emit({ method, ...(params && { params: Payload.of(params) }) })
  }
  return { relay, listening, notify }
}

describe('events: changes of servers', () => {
  it('are logged while somebody asks for them, once for all gateways with the same store', async () => {
    const { relay, listening, notify } = notifyingServer()
    const [one, other] = [
      gateway({ relay }),
      gateway({ relay, membership: { ...featureDeps().identity.membership, id: 'other' } }),
    ]
    expect(listening).toHaveLength(0)
    const { cursor } = await one.poll({ name: 'tools_changed' })
    await other.poll({ name: 'tools_changed' })
    await one.poll({ name: 'prompts_changed' })
    expect(listening).toHaveLength(1)
    expect(listening[0]).toMatchObject({
      method: 'subscriptions/listen',
      target: { upstream: 'one' },
      client: { nonInteractive: true },
    })
    notify('notifications/tools/list_changed')
    notify('notifications/message', { uri: 'x' })
    const found = async () => eventsOf(await other.poll({ name: 'tools_changed', cursor }))
    await expect.poll(found).toHaveLength(1)
    expect(await found()).toMatchObject([{ name: 'tools_changed', data: {} }])
    await one.instance.close?.()
    await expect.poll(() => listening).toHaveLength(0)
  })

  it('are those of one resource and what is below it, for callers who may read it', async () => {
    const { relay, listening, notify } = notifyingServer()
    const isPermitted = async ({ principal, target, method }: Call) =>
      principal === ada || method !== 'resources/read' || target.name !== 'note:///a'
    const { poll } = gateway({ relay, isPermitted })
    const request = { name: 'resource_updated', arguments: { uri: 'note:///a' } }
    await expect(poll({ name: 'resource_updated' })).rejects.toMatchObject({ rpc: -32602 })
    await expect(poll(request, { principal: bob })).rejects.toMatchObject({ rpc: -32023 })
    expect(listening).toHaveLength(0)
    const { cursor } = await poll(request)
    await poll({ ...request, arguments: { uri: 'note:///b' } })
    expect(listening).toHaveLength(2)
    notify('notifications/resources/updated', { uri: 'note:///a' })
    notify('notifications/resources/updated', { uri: 'note:///b' })
    await expect.poll(async () => eventsOf(await poll({ ...request, cursor }))).toHaveLength(1)
    expect(eventsOf(await poll({ ...request, cursor }))).toMatchObject([{ data: { uri: 'note:///a' } }])
  })

  it('are those of a resource under the URI that it has at the address of all servers', async () => {
    const { relay, listening, notify } = notifyingServer()
    const { poll } = gateway({ relay, servers: () => ['one', 'two'] })
    const all = { target: { method: 'events/poll', isBuiltin: true } } as const
    const request = { name: 'one_resource_updated', arguments: { uri: 'one+note:///a' } }
    const { cursor } = await poll(request, all)
    expect(listening.map(({ params }) => params.fields['notifications'])).toEqual([
      { resourceSubscriptions: ['note:///a'] },
    ])
    notify('notifications/resources/updated', { uri: 'note:///a' })
    const found = async () => eventsOf(await poll({ ...request, cursor }, all))
    await expect.poll(found).toMatchObject([{ name: 'one_resource_updated', data: { uri: 'one+note:///a' } }])
    for (const uri of ['note:///a', 'two+note:///a'])
      await expect(poll({ ...request, arguments: { uri } }, all)).rejects.toMatchObject({ rpc: -32602 })
  })

  it('are reported as truncated for the time in which nobody listened', async () => {
    const { relay, listening, notify } = notifyingServer()
    const before = gateway({ relay })
    const resource = { name: 'resource_updated', arguments: { uri: 'note:///a' } }
    const tools = await before.poll({ name: 'tools_changed' })
    const notes = await before.poll(resource)
    const writes = await before.poll({ name: added })
    await before.instance.close?.()
    await expect.poll(() => listening).toHaveLength(0)
    notify('notifications/tools/list_changed')
    const after = gateway({ relay })
    const missed = await after.poll({ name: 'tools_changed', cursor: tools['cursor'] })
    expect(missed).toMatchObject({ events: [], truncated: true })
    notify('notifications/tools/list_changed')
    const seen = async () => after.poll({ name: 'tools_changed', cursor: missed['cursor'] })
    await expect.poll(async () => eventsOf(await seen())).toHaveLength(1)
    expect((await seen())['truncated']).toBe(false)
    expect(await after.poll({ ...resource, cursor: notes['cursor'] })).toMatchObject({ truncated: true })
    expect(await after.poll({ name: added, cursor: writes['cursor'] })).toMatchObject({ truncated: false })
  })

  it('are no events of a server for which each user has credentials', async () => {
    const oauth = { grant: 'authorization_code', scopes: [] } as const
    const reach = { kind: 'url', url: 'https://one.example', headers: {}, oauth } as const
    const { list } = gateway({ server: () => serverSettings({ reach }) })
    expect(eventsOf(await list()).map(({ name }) => name)).toEqual([
      added,
      'contract_changed',
      'drop_note.succeeded',
      'upstream_down',
      'upstream_up',
    ])
  })

  it('are refused to a caller who listens to a quarter of all resources', async () => {
    const { poll } = gateway({ relay: notifyingServer().relay })
    const of = (index: number, principal = ada) =>
      poll({ name: 'resource_updated', arguments: { uri: `note:///${index}` } }, { principal })
    for (let index = 0; index < 25; index++) await of(index)
    await expect(of(25)).rejects.toMatchObject({ rpc: -32025, data: { limit: 'resources', max: 100 } })
    await expect(of(0)).resolves.toBeDefined()
    await expect(of(25, bob)).resolves.toBeDefined()
  })
})

/** An open stream of events: what it sent, and its end. */
function openStream(own: ReturnType<typeof gateway>, params: Json, given: Partial<Call> = {}) {
  const sent: { readonly what: string; readonly params: Json }[] = []
  const controller = new AbortController()
  const emit = ({ method, params: { text } = Payload.of({}) }: Notification): void => {
    sent.push({ what: method.replace('notifications/events/', ''), params: JSON.parse(text) as Json })
  }
  const ended = own.request('events/stream', params, { emit, signal: controller.signal, ...given })
  ended.catch(() => undefined)
  return { sent, ended, close: () => controller.abort(new GatewayError('CANCELLED', 'It is gone.')) }
}

describe('events: stream', () => {
  it('E22 sends active first, then the events in order with their cursors', async () => {
    const own = gateway()
    const stream = openStream(own, { name: added })
    await until(() => stream.sent.length === 1, 'the stream to be active')
    expect(stream.sent).toEqual([
      { what: 'active', params: { cursor: expect.any(String), truncated: false } },
    ])
    for (const text of ['1', '2']) await own.write('add_note', { text })
    await own.write('drop_note', { text: 'other' })
    await until(() => stream.sent.length === 3, 'the events')
    const received = stream.sent.slice(1).map(({ params }) => params)
    expect(stream.sent.map(({ what }) => what)).toEqual(['active', 'event', 'event'])
    expect(textsOf({ events: received })).toEqual(['1', '2'])
    const again = await own.poll({ name: added, cursor: received[0]?.['cursor'] })
    expect(textsOf(again)).toEqual(['2'])
    expect(eventsOf(again)[0]?.['eventId']).toBe(received[1]?.['eventId'])
    stream.close()
    await expect(stream.ended).rejects.toMatchObject({ code: 'CANCELLED' })
  })

  it('continues from a cursor, and says that it is truncated if the cursor is not known', async () => {
    const own = gateway()
    const { cursor } = await own.poll({ name: added })
    for (const text of ['1', '2']) await own.write('add_note', { text })
    for (const [from, truncated] of [
      [cursor, false],
      ['unknown', true],
    ] as const) {
      const stream = openStream(own, { name: added, cursor: from })
      await until(() => stream.sent.length === 3, 'the events')
      expect(stream.sent[0]).toMatchObject({ what: 'active', params: { truncated } })
      expect(textsOf({ events: stream.sent.slice(1).map(({ params }) => params) })).toEqual(['1', '2'])
      stream.close()
    }
  })

  it('E22 sends a heartbeat with a cursor within 30 s of silence', async () => {
    vi.useFakeTimers()
    const own = gateway()
    const stream = openStream(own, { name: added })
    await vi.advanceTimersByTimeAsync(100)
    await own.write('drop_note', { text: 'x' })
    await vi.advanceTimersByTimeAsync(29_000)
    const beats = stream.sent.filter(({ what }) => what === 'heartbeat')
    expect(beats.length).toBeGreaterThan(0)
    const cursor = beats[0]?.params['cursor'] as string
    expect(await own.poll({ name: added, cursor })).toMatchObject({ events: [], truncated: false })
    stream.close()
  })

  it('E22 has no deadline, and is not limited as a concurrent call', () => {
    const target = { method: 'events/stream', upstream: 'one', isBuiltin: true } as const
    const deadline = limits.create(() => ({ timeout: 1000, max_timeout: 1000 }), featureDeps())
    const limit = concurrency.create(() => ({ concurrency: 1 }), featureDeps())
    for (const { calls } of [deadline, limit]) {
      expect(calls?.middleware(target)).toBeUndefined()
      expect(calls?.middleware({ ...target, method: 'events/poll' })).toBeDefined()
    }
  })

  it('ends with an empty result when the gateway stops, and is refused before it begins if it is invalid', async () => {
    const own = gateway()
    const stream = openStream(own, { name: added })
    await until(() => stream.sent.length === 1, 'the stream to be active')
    await own.instance.close?.()
    expect(await stream.ended).toEqual({})
    const refused = openStream(own, { name: 'no.such' })
    await expect(refused.ended).rejects.toMatchObject({ rpc: -32023 })
    expect(refused.sent).toEqual([])
  })

  it('waits for a client that reads slowly', async () => {
    const own = gateway()
    const { cursor } = await own.poll({ name: added })
    for (const text of ['1', '2', '3']) await own.write('add_note', { text })
    const reads: (() => void)[] = []
    const drained = () => new Promise<void>((resolve) => reads.push(resolve))
    const stream = openStream(own, { name: added, cursor }, { drained })
    await until(() => reads.length === 1, 'the first event')
    expect(stream.sent).toHaveLength(2)
    reads[0]?.()
    await until(() => reads.length === 2, 'the second event')
    expect(stream.sent).toHaveLength(3)
    for (let index = 1; index < 3; index++) {
      reads[index]?.()
      await until(() => reads.length === Math.min(index + 2, 3), 'the next event')
    }
    stream.close()
  })
})
