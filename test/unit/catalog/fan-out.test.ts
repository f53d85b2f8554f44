import { afterEach, expect, it, vi } from 'vitest'
import { Aggregate } from '../../../src/catalog/aggregate.ts'
import { Naming } from '../../../src/catalog/names.ts'
import type { Call, Handler, Outcome } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import type { Log } from '../../../src/core/log.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ACKNOWLEDGED } from '../../../src/protocol/subscription-filter.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { toolCall } from '../../support/tool-call.ts'

const pass = fakeClock()
const TIMEOUT_MS = 2000
const ended = new AbortController()
const capabilities = { tools: {} }

afterEach(() => vi.restoreAllMocks())

const done = (result: unknown): Outcome => ({ kind: 'result', result: Payload.of(result) })
const tools = (...names: string[]): Outcome => done({ tools: names.map((name) => ({ name })) })

interface World {
  readonly all: Aggregate
  /** The calls that `odd` got, in order. */
  readonly asked: Call[]
  readonly log: { readonly level: string; readonly event: string; readonly fields: unknown }[]
}

/** A server that works, and an odd one. */
function world(odd: Handler): World {
  const asked: Call[] = []
  const log: World['log'] = []
  const level =
    (name: string): Log['warn'] =>
    (event, fields) =>
      void log.push({ level: name, event, fields })
  const good: Handler = async ({ method }) =>
    method === 'subscriptions/listen'
      ? never(request(method))
      : method === 'tools/list'
        ? tools('read')
        : method === 'tools/call'
          ? done({ content: [] })
          : done({ capabilities })
  const handle: Handler = (call) => {
    if (call.target.upstream !== 'odd') return good(call)
    asked.push(call)
    return odd(call)
  }
  const all = new Aggregate({
    names: ['good', 'odd'],
    handle,
    naming: new Naming(),
    listedName: () => undefined,
    timeoutMs: TIMEOUT_MS,
    ended: ended.signal,
    log: { debug: level('debug'), info: level('info'), warn: level('warn'), error: level('error') },
  })
  return { all, asked, log }
}

const never: Handler = () => new Promise(() => undefined)

function request(method: string, more: Partial<Call> = {}): Call {
  return toolCall({ method, target: { method }, params: Payload.of({}), ...more })
}

async function listed({ all }: World, more: Partial<Call> = {}): Promise<unknown> {
  const outcome = await all.handle(request('tools/list', more))
  const found = outcome.kind === 'result' ? outcome.result.fields['tools'] : []
  return (found as { name: string }[]).map(({ name }) => name)
}

/** A subscriber to changes of tools, and what it heard. */
function listener({ all }: World): string[] {
  const heard: string[] = []
  const params = Payload.of({ notifications: { toolsListChanged: true } })
  const emit: Call['emit'] = ({ method }) => void heard.push(method)
  all.handle(request('subscriptions/listen', { params, emit })).catch(() => undefined)
  return heard
}

/** Whether a promise is settled without time passing. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let isOver = false
  const over = (): void => void (isOver = true)
  promise.then(over, over)
  await pass(0)
  return isOver
}

it('a server that hangs is left out after the deadline, and not waited for again', async () => {
  const servers = world(never)
  const first = listed(servers)
  await pass(TIMEOUT_MS - 1)
  expect(await isSettled(first)).toBe(false)
  await pass(1)
  expect(await first).toEqual(['good_read'])
  expect(await isSettled(listed(servers))).toBe(true)
  expect(servers.log.filter(({ level }) => level === 'warn')).toEqual([
    {
      level: 'warn',
      event: 'upstream.missing',
      fields: { upstream: 'odd', method: 'tools/list', reason: expect.stringContaining('within 2 s') },
    },
  ])
  expect(servers.all.fanOut.problems('odd')).toEqual([
    expect.stringContaining('tools/list: the server did not answer'),
  ])
})

it('a client that reads all lists waits for a server once, and then shortly', async () => {
  const servers = world(async (call) =>
    call.method === 'server/discover' ? done({ capabilities }) : never(call),
  )
  await servers.all.handle(request('server/discover'))
  let waited = 0
  for (const method of ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list']) {
    const list = servers.all.handle(request(method)).catch(() => undefined)
    for (; !(await isSettled(list)); waited += 100) await pass(100)
  }
  expect(waited).toBe(TIMEOUT_MS + 3 * (TIMEOUT_MS / 4))
  const other = listed(servers, { principal: { id: 'another' } })
  await pass(TIMEOUT_MS - 1)
  expect(await isSettled(other)).toBe(false)
})

it('the handshake does not wait longer either, and any list may come later', async () => {
  const servers = world(never)
  const discovered = servers.all.handle(request('server/discover'))
  await pass(TIMEOUT_MS)
  const changing = { listChanged: true }
  expect(await discovered).toMatchObject({
    result: { fields: { capabilities: { tools: changing, prompts: changing, resources: changing } } },
  })
})

it('a call of another server does not wait for one that hangs', async () => {
  const servers = world(never)
  const params = Payload.of({ name: 'good_read' })
  const call = request('tools/call', { params, target: { method: 'tools/call', name: 'good_read' } })
  expect(await isSettled(servers.all.handle(call))).toBe(true)
  expect(servers.asked).toEqual([])
})

it('a late answer is announced, and the list is complete from then on', async () => {
  let answer: (outcome: Outcome) => void = () => undefined
  const servers = world(({ method }) =>
    method === 'tools/list' && servers.asked.length === 1
      ? new Promise((resolve) => void (answer = resolve))
      : Promise.resolve(tools('late')),
  )
  const first = listed(servers)
  await pass(TIMEOUT_MS)
  expect(await first).toEqual(['good_read'])
  const heard = listener(servers)
  await pass(TIMEOUT_MS)
  answer(tools('late'))
  await pass(10)
  expect(heard).toContain('notifications/tools/list_changed')
  expect(await listed(servers)).toEqual(['good_read', 'odd_late'])
  expect(servers.all.fanOut.problems('odd')).toEqual([])
  expect(servers.log.at(-1)).toMatchObject({ level: 'info', event: 'upstream.complete' })
})

it('a list that always takes longer than the deadline is the last one, and announced where it changed', async () => {
  let names = ['one']
  const servers = world(async ({ method }) => {
    if (method === 'subscriptions/listen') return never(request(method))
    await new Promise((resolve) => void setTimeout(resolve, TIMEOUT_MS + 500))
    return tools(...names)
  })
  const heard = listener(servers)
  const first = listed(servers)
  await pass(TIMEOUT_MS)
  expect(await first).toEqual(['good_read'])
  await pass(1000)
  const changed = 'notifications/tools/list_changed'
  expect(heard.filter((method) => method === changed)).toHaveLength(1)
  expect(await listed(servers)).toEqual(['good_read', 'odd_one'])
  await pass(TIMEOUT_MS + 1000)
  expect(heard.filter((method) => method === changed)).toHaveLength(1)
  names = ['two']
  expect(await listed(servers)).toEqual(['good_read', 'odd_one'])
  await pass(TIMEOUT_MS + 1000)
  expect(heard.filter((method) => method === changed)).toHaveLength(2)
  expect(await listed(servers)).toEqual(['good_read', 'odd_two'])
})

it('a server that can be reached again is waited for again', async () => {
  const servers = world(never)
  const first = listed(servers)
  await pass(TIMEOUT_MS)
  await first
  const heard = listener(servers)
  await pass(TIMEOUT_MS)
  servers.all.fanOut.reachable('odd', true)
  expect(heard).toContain('notifications/tools/list_changed')
  expect(await isSettled(listed(servers))).toBe(false)
})

it('a silent server is asked again, at growing intervals, while clients ask for the list', async () => {
  const unavailable = new GatewayError('SERVER_UNAVAILABLE', 'gone')
  let isFirst = true
  const servers = world(({ method }) => {
    if (method !== 'tools/list') return never(request(method))
    const wait = isFirst ? TIMEOUT_MS + 1 : 0
    isFirst = false
    return new Promise((_resolve, reject) => void setTimeout(reject, wait, unavailable))
  })
  const first = listed(servers)
  await pass(TIMEOUT_MS + 1)
  await first
  const counts = []
  for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
    await pass(seconds * 1000 + 10)
    counts.push(servers.asked.length)
  }
  expect(counts).toEqual([2, 3, 4, 5, 6, 7, 8])
  await pass(700_000)
  const atRest = servers.asked.length
  await pass(700_000)
  expect(servers.asked).toHaveLength(atRest)
  expect(await listed(servers)).toEqual(['good_read'])
  await pass(0)
  expect(servers.asked).toHaveLength(atRest + 1)
})

it('what hangs for one client is still listed for another', async () => {
  const servers = world(({ client }) =>
    client.capabilities['sampling'] ? never(request('')) : Promise.resolve(tools('write')),
  )
  const client = { ...toolCall().client, capabilities: { sampling: {} } }
  expect(await listed(servers)).toEqual(['good_read', 'odd_write'])
  const hanging = listed(servers, { client })
  await pass(TIMEOUT_MS)
  expect(await hanging).toEqual(['good_read'])
  expect(await listed(servers)).toEqual(['good_read', 'odd_write'])
  expect(await isSettled(listed(servers, { client }))).toBe(true)
})

it('a failure is left out and reported once, and the server is asked again by the next request', async () => {
  const servers = world(() => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'no such table')))
  expect(await listed(servers)).toEqual(['good_read'])
  expect(await listed(servers)).toEqual(['good_read'])
  expect(servers.asked).toHaveLength(2)
  expect(servers.log).toEqual([
    {
      level: 'warn',
      event: 'upstream.missing',
      fields: { upstream: 'odd', method: 'tools/list', reason: expect.stringContaining('no such table') },
    },
  ])
})

it('a client that gives up ends its requests, unless they are not waited for any more', async () => {
  const client = new AbortController()
  const waiting = world(never)
  const ending = listed(waiting, { signal: client.signal })
  const servers = world(never)
  const first = listed(servers)
  await pass(TIMEOUT_MS - 1)
  client.abort(new GatewayError('CANCELLED', 'enough'))
  expect(waiting.asked.map(({ signal }) => signal.aborted)).toEqual([true])
  await pass(1)
  await Promise.all([first, ending])
  expect(servers.asked.map(({ signal }) => signal.aborted)).toEqual([false])
})

it('the deadline of a request to one server does not end the call of the client', async () => {
  const servers = world((call) => {
    call.abort(new GatewayError('OPERATION_TIMEOUT', 'too long'))
    return Promise.reject(call.signal.reason)
  })
  const abort = vi.fn<Call['abort']>()
  expect(await listed(servers, { abort })).toEqual(['good_read'])
  expect(abort).not.toHaveBeenCalled()
})

it('a subscription is acknowledged without a server that hangs, at once if that is known', async () => {
  const servers = world(never)
  const good = servers.all
  const first = listener({ ...servers, all: good })
  await pass(TIMEOUT_MS)
  expect(first).toEqual([ACKNOWLEDGED])
  const second = listener(servers)
  await pass(0)
  expect(second).toEqual([ACKNOWLEDGED])
})

it('pages without an end are read for half of the time, and what they have is listed', async () => {
  let page = 0
  const servers = world(async () => {
    page++
    await new Promise((resolve) => void setTimeout(resolve, 100))
    return done({ tools: [{ name: `t${page % 3}` }], nextCursor: `c${page}` })
  })
  const first = listed(servers)
  await pass(TIMEOUT_MS)
  expect(await first).toEqual(['good_read', 'odd_t1', 'odd_t2', 'odd_t0'])
  expect(servers.all.fanOut.problems('odd')).toEqual([
    expect.stringContaining('pages of tools/list: they take too long'),
  ])
})
