import { describe, expect, it, vi } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { rateLimitSlot } from '../../../../src/core/exchange.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Cost } from '../../../../src/core/descriptor.ts'
import type { ToolSettings } from '../../../../src/core/settings.ts'
import { cost } from '../../../../src/features/cost/cost.ts'
import type { Budget } from '../../../../src/features/settings/effect.ts'
import { usage } from '../../../../src/features/cost/usage.ts'
import { idempotency } from '../../../../src/features/idempotency/idempotency.ts'
import { rateLimit } from '../../../../src/features/rate-limit.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { answering, chain, fieldsOf, on } from '../../../support/chain.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { idempotencyDefaults } from '../../../support/idempotency-bench.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'

const hello = { content: [{ type: 'text', text: 'hello' }] }
const credits: Cost = { category: 'metered', units: 5, label: 'API credits' }
const day: Budget = { units: 12, per: 'day' }
const keyed = on(idempotency, idempotencyDefaults)

interface Setup {
  readonly tool?: ToolSettings
  readonly budget?: Budget
  readonly server?: Handler
}

function bench({ tool = { cost: credits }, budget, server = answering(hello) }: Setup = {}) {
  const parts = [on(usage, {}), on(rateLimit, {}), keyed, on(cost, budget ? { budget } : {})]
  const settings = serverSettings({ name: 'one', tools: { t: tool } })
  return chain(parts, server, { server: () => settings, store: new MemoryStore() })
}

const usageOf = (result: Json): Json => objectAt(objectAt(result, '_meta'), 'dev.gatehouse/usage')

describe('the usage in a result', () => {
  it('the result of a priced tool states its usage', async () => {
    const result = fieldsOf(await bench()())
    expect(usageOf(result)).toEqual({ units: 5, unit_label: 'API credits', duration_ms: expect.any(Number) })
  })

  it('the result of an unpriced tool is passed on as the same object', async () => {
    const answer = { kind: 'result', result: Payload.of(hello) } as const
    const make = bench({ tool: {}, server: async () => answer })
    expect(await make()).toBe(answer)
  })

  it.each<readonly [string, Cost, Json]>([
    ['free', { category: 'free' }, { units: 0 }],
    ['without units', { category: 'metered', label: 'a search' }, { unit_label: 'a search' }],
  ])('the usage contains configured members only if the cost is %s', async (_what, price, expected) => {
    const { duration_ms: _took, ...said } = usageOf(fieldsOf(await bench({ tool: { cost: price } })()))
    expect(said).toEqual(expected)
  })

  it('failures and internal calls have no usage', async () => {
    const failed = { ...hello, isError: true }
    expect(fieldsOf(await bench({ server: answering(failed) })())).toEqual(failed)
    expect(fieldsOf(await bench()({ internal: 'read' }))).toEqual(hello)
  })

  it('a replay has a usage of zero', async () => {
    const make = bench({ budget: day })
    const meta = { idempotency_key: 'k' }
    expect(usageOf(fieldsOf(await make({ meta })))).toMatchObject({ units: 5, quota: { remaining: 7 } })
    for (let times = 0; times < 4; times++)
      expect(usageOf(fieldsOf(await make({ meta })))).toMatchObject({ units: 0 })
    expect(usageOf(fieldsOf(await make()))).toMatchObject({ quota: { remaining: 2 } })
  })

  it('the usage states the remaining rate limit, which is also reported to the transport', async () => {
    const make = bench({ tool: { rate: '3/minute' } })
    const limited = vi.fn<(standing: object) => void>()
    const quotas = []
    for (let times = 0; times < 2; times++)
      quotas.push(
        usageOf(fieldsOf(await make({ slots: rateLimitSlot.put({ reportRateLimit: limited }) })))['quota'],
      )
    const quota = { resets_at: expect.stringMatching(/Z$/), of: 'limit' }
    expect(quotas).toEqual([
      { remaining: 2, ...quota },
      { remaining: 1, ...quota },
    ])
    expect(limited).toHaveBeenLastCalledWith(expect.objectContaining({ remaining: 1 }))
  })

  it('the usage states the remaining quota that an HTTP server reports', async () => {
    const heard: { remaining: number }[] = []
    const server = serverSettings({ name: 'one', reach: { kind: 'url', url: 'http://a/', headers: {} } })
    const make = chain([on(usage, {})], answering(hello), { server: () => server, quota: () => heard[0] })
    expect(fieldsOf(await make())).toEqual(hello)
    heard.push({ remaining: 41 })
    expect(usageOf(fieldsOf(await make()))).toEqual({
      duration_ms: expect.any(Number),
      quota: { remaining: 41, of: 'server' },
    })
  })
})

describe('a budget', () => {
  it('a budget is spent per caller and refuses calls beyond it', async () => {
    const make = bench({ budget: day })
    await make()
    await make()
    await expect(make()).rejects.toMatchObject({
      code: 'QUOTA_EXHAUSTED',
      message: 'This call costs 5 units, and 2 of 12 are left for this day.',
      extra: {
        retryAfterSeconds: expect.any(Number),
        details: {
          limit: 12,
          used: 10,
          units: 5,
          per: 'day',
          resets_at: expect.stringMatching(/T00:00:00\.000Z$/),
        },
      },
    })
    expect(usageOf(fieldsOf(await make({ principal: { id: 'other' } })))).toMatchObject({
      quota: { remaining: 7 },
    })
  })

  it('a budget is reset at the end of its period', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.parse('2026-01-01T10:00:30Z') })
    try {
      const make = bench({ budget: { units: 5, per: 'minute' } })
      await make()
      await expect(make()).rejects.toMatchObject({ extra: { retryAfterSeconds: 30 } })
      vi.setSystemTime(Date.parse('2026-01-01T10:01:00Z'))
      expect(usageOf(fieldsOf(await make()))).toMatchObject({
        quota: { remaining: 0, resets_at: '2026-01-01T10:02:00.000Z', of: 'budget' },
      })
    } finally {
      vi.useRealTimers()
    }
  })

  it('free tools do not spend the budget, whatever their units', async () => {
    const make = bench({ tool: { cost: { category: 'free', units: 5 } }, budget: { ...day, units: 1 } })
    for (let call = 0; call < 3; call++) expect(usageOf(fieldsOf(await make()))).toMatchObject({ units: 0 })
  })

  it('internal calls do not spend the budget', async () => {
    const make = bench({ budget: day })
    for (let call = 0; call < 3; call++) await make({ internal: 'read' })
    expect(usageOf(fieldsOf(await make()))).toMatchObject({ quota: { remaining: 7 } })
  })

  it('a budget with a label covers costs of that label only', async () => {
    const make = bench({ budget: { ...day, units: 0, label: 'searches' } })
    expect(usageOf(fieldsOf(await make()))).toMatchObject({ units: 5 })
    await expect(bench({ budget: { ...day, units: 0, label: 'API credits' } })()).rejects.toMatchObject({
      message: expect.stringContaining('5 API credits'),
    })
  })

  it('a budget is exact for decimals and concurrent calls', async () => {
    const make = bench({
      tool: { cost: { category: 'metered', units: 0.1 } },
      budget: { units: 1, per: 'day' },
    })
    const ends = await Promise.allSettled(Array.from({ length: 25 }, () => make()))
    expect(ends.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
  })

  it.each<readonly [string, Handler, number]>([
    [
      'the server requests input',
      async () => ({ kind: 'input_required', inputRequests: {}, requestState: {} }),
      0,
    ],
    [
      'the call requires confirmation',
      answering({ isError: true, _meta: { 'dev.gatehouse/confirmation': {} } }),
      0,
    ],
    ['the call is declined', failing('CONFIRMATION_DECLINED'), 0],
    ['the call was never sent', failing('SERVER_UNAVAILABLE', true), 0],
    ['the server refuses the call', answering({ isError: true }), 5],
    ['the outcome is unknown', failing('OUTCOME_UNKNOWN'), 5],
  ])('if %s, the budget is charged correctly', async (_what, end, spent) => {
    let isFirst = true
    const server: Handler = (call) => {
      if (!isFirst) return answering(hello)(call)
      isFirst = false
      return end(call)
    }
    const make = bench({ budget: { units: 100, per: 'day' }, server })
    await make().catch(() => undefined)
    await new Promise(setImmediate)
    expect(usageOf(fieldsOf(await make()))).toMatchObject({ quota: { remaining: 95 - spent } })
  })

  it('a budget allows calls while the store is unavailable', async () => {
    const store = new MemoryStore()
    store.get = () => Promise.reject(new Error('away'))
    const settings = serverSettings({ name: 'one', tools: { t: { cost: credits } } })
    const make = chain([on(cost, { budget: { units: 0, per: 'day' } })], answering(hello), {
      server: () => settings,
      store,
    })
    expect(fieldsOf(await make())).toEqual(hello)
  })

  it('a server can have a budget of its own', async () => {
    const store = new MemoryStore()
    const deps = featureDeps({
      store,
      server: (name) => serverSettings({ name, tools: { t: { cost: credits } } }),
    })
    const settings = (name?: string) => ({ budget: { units: name === 'two' ? 100 : 5, per: 'day' } as const })
    const policy = cost.create(settings, deps).calls?.middleware
    const make = async (upstream: string): Promise<string> => {
      const target = { method: 'tools/call', upstream, name: 't' }
      const end = policy?.(target)?.(answering(hello))
      const { toolCall } = await import('../../../support/tool-call.ts')
      return (end ?? answering(hello))(toolCall({ target })).then(
        () => 'made',
        () => 'refused',
      )
    }
    expect([await make('one'), await make('three'), await make('two')]).toEqual(['made', 'refused', 'made'])
  })
})

describe('cost category requires_approval', () => {
  const settings = serverSettings({
    name: 'one',
    tools: { 't*': { cost: { category: 'requires_approval' } } },
  })

  it('a cost that requires approval is a configuration problem if confirm is off', async () => {
    for (const isOn of [true, false]) {
      const deps = featureDeps({ servers: () => ['one'], server: () => settings, isOn: () => isOn })
      const found = await cost.create(() => ({}), deps).problems?.()
      const path = ['upstreams', 'one', 'tools', 't*', 'cost']
      expect(found).toEqual(isOn ? [] : [{ path, message: expect.stringContaining('`confirm`') }])
    }
  })
})

function failing(
  code: 'CONFIRMATION_DECLINED' | 'SERVER_UNAVAILABLE' | 'OUTCOME_UNKNOWN',
  isUnsent = false,
): Handler {
  return () => Promise.reject(new GatewayError(code, 'No.', isUnsent ? { isUnsent } : {}))
}
