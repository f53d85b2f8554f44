import { afterEach, describe, expect, it, vi } from 'vitest'
import { cost } from '../../../../src/features/cost/cost.ts'
import { publish, type PublishedEvent } from '../../../../src/features/offers.ts'
import { rateLimit } from '../../../../src/features/rate-limit.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { answering, chain, on } from '../../../support/chain.ts'
import { ada, bob, eventsGateway, namesOf } from '../../../support/events-gateway.ts'
import { SagaGateway } from '../../../support/saga-world.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { agent, bench, plain, TOOL } from '../confirm/bench.ts'

const nothing = async () => []

afterEach(() => void vi.useRealTimers())

const server = (tools: object) => () => serverSettings({ name: 'one', tools: { t: tools } })

describe('events of the gateway itself', () => {
  it('have types for each server, and for what belongs to no server at the address of all servers', async () => {
    const servers = () => ['one', 'two']
    const { request } = eventsGateway({ servers })
    const own = namesOf(await request('events/list', {}))
    expect(own).toEqual(
      expect.arrayContaining(['confirmation_pending', 'contract_changed', 'upstream_down', 'upstream_up']),
    )
    expect(own).not.toContain('transaction_timed_out')
    const target = { method: 'events/list', isBuiltin: true } as const
    const all = namesOf(await request('events/list', {}, { target }))
    expect(all).toEqual(expect.arrayContaining(['transaction_timed_out', 'quota_low', 'two_upstream_down']))
    const only = namesOf(await eventsGateway().request('events/list', {}))
    expect(only).toContain('transaction_timed_out')
  })

  it('reach only the caller that they concern', async () => {
    const { deps, follow } = eventsGateway()
    const name = 'transaction_timed_out'
    const followers = await Promise.all([ada, bob].map((principal) => follow({ name }, { principal })))
    publish(deps, undefined, { name, caller: 'ada', data: { transaction_id: 't', steps: 2 } })
    const [ofAda, ofBob] = followers
    await expect.poll(ofAda ?? nothing).toEqual([{ transaction_id: 't', steps: 2 }])
    expect(await ofBob?.()).toEqual([])
  })

  it('are narrowed by their fields', async () => {
    const { deps, follow } = eventsGateway()
    const [first, second] = await Promise.all(
      ['a', 'b'].map((tool) => follow({ name: 'confirmation_pending', arguments: { tool } })),
    )
    publish(deps, 'one', { name: 'confirmation_pending', caller: 'ada', data: { tool: 'b' } })
    await expect.poll(second ?? nothing).toEqual([{ tool: 'b' }])
    expect(await first?.()).toEqual([])
  })

  it('are published once if that is requested, for all gateways with the same store', async () => {
    const store = new MemoryStore()
    const first = eventsGateway({ store })
    const seen = await first.follow({ name: 'quota_low' })
    const event: PublishedEvent = { name: 'quota_low', data: {}, once: { key: 'k', for: 60_000 } }
    for (const { deps } of [first, eventsGateway({ store })])
      for (let times = 0; times < 2; times++) publish(deps, undefined, event)
    publish(first.deps, undefined, { name: 'quota_low', data: { last: true } })
    await expect.poll(seen).toContainEqual({ last: true })
    expect(await seen()).toHaveLength(2)
  })
})

describe('events of servers that can be reached or not', () => {
  function reachable(store = new MemoryStore()) {
    const listeners: ((upstream: string, isReachable: boolean) => void)[] = []
    const asked: unknown[] = []
    const gateway = eventsGateway({
      store,
      onReachable: (listener) => void listeners.push(listener),
      relay: async ({ method }) => {
        asked.push(method)
        throw new Error('It is away.')
      },
    })
    const set = (isReachable: boolean): void => listeners.forEach((each) => each('one', isReachable))
    return { ...gateway, asked, set }
  }

  it('are transitions alone: not that a server can be reached at first', async () => {
    const { follow, set } = reachable()
    const [up, down] = await Promise.all(['upstream_up', 'upstream_down'].map((name) => follow({ name })))
    for (const is of [true, true, false, true]) set(is)
    await expect.poll(up ?? nothing).toEqual([{ server: 'one' }])
    expect(await down?.()).toEqual([{ server: 'one' }])
  })

  it('are published once for all gateways with the same store, and also if one of them was restarted', async () => {
    const store = new MemoryStore()
    const [one, other] = [reachable(store), reachable(store)]
    const [up, down] = await Promise.all(['upstream_up', 'upstream_down'].map((name) => one.follow({ name })))
    one.set(false)
    await expect.poll(down ?? nothing).toHaveLength(1)
    other.set(false)
    reachable(store).set(true)
    await expect.poll(up ?? nothing).toHaveLength(1)
    expect(await down?.()).toHaveLength(1)
  })

  it('have a server that is down tried again while a caller waits for it', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const { poll, asked, set } = reachable()
    await poll({ name: 'upstream_up' })
    expect(asked).toEqual([])
    set(false)
    for (let times = 0; times < 3; times++) await poll({ name: 'upstream_up' })
    expect(asked).toEqual(['server/discover'])
    vi.setSystemTime(Date.now() + 6000)
    await poll({ name: 'upstream_down' })
    expect(asked).toHaveLength(2)
    set(true)
    vi.setSystemTime(Date.now() + 6000)
    await poll({ name: 'upstream_up' })
    expect(asked).toHaveLength(2)
  })
})

describe('what features publish', () => {
  it('a call that leaves less than a tenth of a rate is an event of its caller, once in its window', async () => {
    const { deps, follow } = eventsGateway()
    const seen = await follow({ name: 'quota_low' })
    const call = chain([on(rateLimit, {})], answering({ content: [] }), {
      publish: (upstream, event) => publish(deps, upstream, event),
      server: server({ rate: '20/minute' }),
    })
    for (let made = 0; made < 18; made++) await call({ principal: ada })
    expect(await seen()).toEqual([])
    for (let made = 0; made < 2; made++) await call({ principal: ada })
    await expect.poll(seen).toEqual([
      {
        limit: 'rate',
        remaining: 1,
        of: 20,
        server: 'one',
        tool: 't',
        resets_at: expect.stringMatching(/^20.+Z$/),
      },
    ])
  })

  it('a rate of a window shorter than a minute has no such event', async () => {
    const publish = vi.fn<() => void>()
    const call = chain([on(rateLimit, {})], answering({}), { publish, server: server({ rate: '10/10s' }) })
    for (let made = 0; made < 10; made++) await call()
    expect(publish).not.toHaveBeenCalled()
  })

  it('a call that leaves less than a tenth of a budget is an event of its caller', async () => {
    const { deps, follow } = eventsGateway()
    const seen = await follow({ name: 'quota_low' })
    const priced = { cost: { category: 'metered', units: 7 } }
    const call = chain([on(cost, { budget: { units: 22, per: 'day' } })], answering({ content: [] }), {
      publish: (upstream, event) => publish(deps, upstream, event),
      server: server(priced),
    })
    for (let made = 0; made < 2; made++) await call({ principal: ada })
    expect(await seen()).toEqual([])
    await call({ principal: ada })
    await expect
      .poll(seen)
      .toEqual([
        { limit: 'budget', remaining: 1, of: 22, tool: 't', resets_at: expect.stringMatching(/^20.+Z$/) },
      ])
  })

  it('a call that waits for approval is an event of its caller and of the named approvers, without its arguments', async () => {
    const publish = vi.fn<(upstream: string | undefined, event: PublishedEvent) => void>()
    const one = bench({
      tool: { approval: 'out_of_band', approvers: ['root'] },
      deps: { publish },
      settings: { wait: 0 },
    })
    for (let times = 0; times < 2; times++)
      await one.call({ client: plain }, { owner: 'octo', password: 'x' })
    const [approval] = await one.approvals.list()
    expect(publish.mock.calls.map(([upstream, { caller, data }]) => [upstream, caller, data])).toEqual(
      [
        [agent.id, 'caller'],
        ['root', 'approver'],
      ].map(([caller, role]) => [
        'hub',
        caller,
        {
          server: 'hub',
          tool: TOOL,
          approval: approval?.id,
          risk: 'destructive',
          role,
          expires_at: expect.stringMatching(/Z$/),
          url: expect.stringContaining('/confirm/'),
        },
      ]),
    )
  })

  it('a transaction that timed out is an event of its caller, and one that is rolled back is none', async () => {
    vi.useFakeTimers()
    const publish = vi.fn<(upstream: string | undefined, event: PublishedEvent) => void>()
    const gateway = new SagaGateway({ deps: { publish } })
    await gateway.start()
    await gateway.begin('idle', { timeout_seconds: 10 }, ada)
    await gateway.begin('undone', { timeout_seconds: 10 }, ada)
    await gateway.ask('rollback', { transaction_id: 'undone' }, ada)
    await vi.advanceTimersByTimeAsync(15_000)
    expect(publish.mock.calls).toEqual([
      [
        undefined,
        { name: 'transaction_timed_out', caller: 'ada', data: { transaction_id: 'idle', steps: 0 } },
      ],
    ])
    await gateway.die()
  })
})
