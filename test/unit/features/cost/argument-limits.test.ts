import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { argumentLimits } from '../../../../src/features/cost/argument-limits.ts'
import { cost } from '../../../../src/features/cost/cost.ts'
import { idempotency } from '../../../../src/features/idempotency/idempotency.ts'
import type { ArgumentLimitSettings } from '../../../../src/features/settings/effect.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { answering, chain, on } from '../../../support/chain.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { idempotencyDefaults } from '../../../support/idempotency-bench.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import type { Json } from '../../../support/server/json.ts'

type Rules = ArgumentLimitSettings['arguments']

const hello = { content: [{ type: 'text', text: 'hello' }] }
const daily: Rules = [{ tool: 't*', sum: '$.amount', most: '100/day' }]

/** A tool `t` behind these rules: what a call of it with these arguments gives. */
function limited(rules: Rules, server: Handler = answering(hello), store = new MemoryStore()) {
  const parts = [on(idempotency, idempotencyDefaults), on(cost, {}), on(argumentLimits, { arguments: rules })]
  const settings = serverSettings({ name: 'one', tools: {} })
  const make = chain(parts, server, { server: () => settings, store })
  return (args: Json, more: Parameters<typeof make>[0] = {}) => make(more, { arguments: args })
}

const refused = (code: string, text?: RegExp) =>
  expect.objectContaining({ code, ...(text && { message: expect.stringMatching(text) }) })

describe('a limit of what arguments add up to', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: new Date('2026-11-29T10:00:00Z') })
  })
  afterEach(() => {
    vi.useRealTimers()
  })

  it('is exact, and begins anew with the period', async () => {
    const call = limited([{ tool: 't', sum: '$.amount', most: '0.3/day' }])
    for (const amount of [0.1, '0.1', 0.1]) await call({ amount })
    await expect(call({ amount: 0.01 })).rejects.toEqual(
      refused('QUOTA_EXHAUSTED', /costs 0\.01 \$\.amount, and 0 of 0\.3 are left for this day/),
    )
    vi.setSystemTime(new Date('2026-11-30T00:00:01Z'))
    await call({ amount: 0.3 })
  })

  it('holds for numbers that a double cannot hold', async () => {
    const call = limited([{ tool: 't', sum: '$.amount', most: '9007199254740993/day' }])
    const amount = (text: string): Json => parseJson(`{"amount":${text}}`) as Json
    await call(amount('9007199254740992'))
    await call(amount('1'))
    await expect(call(amount('1'))).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it('adds up and counts the elements of lists', async () => {
    const sums = limited([{ tool: 't', sum: '$.items[*].price', most: 10 }])
    await sums({ items: [{ price: 4 }, { price: 6 }, { name: 'free' }] })
    await expect(sums({ items: [{ price: 4 }, { price: '6.5' }] })).rejects.toEqual(
      refused(
        'QUOTA_EXHAUSTED',
        /has 10\.5 in the sum of \$\.items\[\*\]\.price of t, and at most 10 are permitted in one call/,
      ),
    )
    const counts = limited([{ tool: 't', count: '$.ids[*]', most: 2 }])
    await counts({ ids: ['a', 'b'] })
    await counts({ other: 1 })
    await expect(counts({ ids: ['a', 'b', 'c'] })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it.each([['12 EUR'], [true], [{ value: 1 }], ['1e999999999'], [[1, 2]]])(
    'refuses an amount that it cannot judge: %j',
    async (amount) => {
      const call = limited(daily)
      await expect(call({ amount })).rejects.toEqual(refused('INVALID_INPUT', /\$\.amount/))
    },
  )

  it.each([
    ['$.payment.amount', { payment: '{"amount":51}' }],
    ['$.payment.amount', { payment: [{ amount: 51 }] }],
    ['$.items[*].amount', { items: [[{ amount: 60 }]] }],
    ['$.items[*].amount', { items: '[{"amount":60}]' }],
    ['$.items[0].amount', { items: { 0: { amount: 60 } } }],
  ] as const)('refuses arguments in which %s has another form: %j', async (sum, args) => {
    await expect(limited([{ tool: 't', sum, most: 50 }])(args)).rejects.toEqual(refused('INVALID_INPUT'))
  })

  it.each([{ ids: '[1,2,3,4,5]' }, { ids: '1,2,3,4' }, { ids: { a: 1, b: 2, c: 3 } }])(
    'refuses what it cannot count: %j',
    async (args) => {
      const call = limited([{ tool: 't', count: '$.ids[*]', most: 2 }])
      await expect(call(args)).rejects.toEqual(refused('INVALID_INPUT'))
      for (const nothing of [{ ids: null }, { ids: [] }, {}]) await call(nothing)
    },
  )

  it('refuses a number that is too long to be added up', async () => {
    const amount = parseJson(`{"amount":1${'0'.repeat(1_000_000)}}`) as Json
    await expect(limited(daily)(amount)).rejects.toEqual(refused('INVALID_INPUT'))
  })

  it('takes nothing for an amount that is negative, null or absent', async () => {
    const call = limited(daily)
    await call({ amount: 100 })
    for (const args of [{ amount: -50 }, { amount: null }, {}]) await call(args)
    await expect(call({ amount: 1 })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it('is of each caller, and of all callers where it says so', async () => {
    const call = limited([{ tool: 't', sum: '$.amount', most: '100/day', in_all: '150/day' }])
    const as = (id: string) => ({ principal: { id, scopes: [] } }) as unknown as Parameters<typeof call>[1]
    await call({ amount: 100 }, as('anna'))
    await expect(call({ amount: 60 }, as('ben'))).rejects.toEqual(
      refused('QUOTA_EXHAUSTED', /50 of 150 are left/),
    )
    // What was reserved of Ben's own limit was given back.
    await call({ amount: 50 }, as('ben'))
  })

  it('counts a call whose key is replayed once', async () => {
    const call = limited(daily)
    const meta = { idempotency_key: 'k' }
    for (let times = 0; times < 3; times++) await call({ amount: 60 }, { meta })
    await call({ amount: 40 })
    await expect(call({ amount: 1 })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it('gives back what a call took that was not sent, and keeps what one took whose outcome is unknown', async () => {
    let failure: GatewayError | undefined = new GatewayError('SERVER_UNAVAILABLE', 'down', { isUnsent: true })
    const call = limited(daily, async (made) => {
      if (failure) throw failure
      return answering(hello)(made)
    })
    await expect(call({ amount: 100 })).rejects.toEqual(refused('SERVER_UNAVAILABLE'))
    failure = new GatewayError('OPERATION_TIMEOUT', 'late')
    await expect(call({ amount: 90 })).rejects.toEqual(refused('OPERATION_TIMEOUT'))
    failure = undefined
    await expect(call({ amount: 20 })).rejects.toEqual(refused('QUOTA_EXHAUSTED', /10 of 100 are left/))
    await call({ amount: 10 })
  })

  it('holds while a server runs calls as tasks, each of which is charged once', async () => {
    const call = limited(daily, async (made) => {
      if (Object.keys(made.requestState).length > 0) return answering(hello)(made)
      return { kind: 'task', task: { taskId: 'x' }, requestState: { own: 1 } } as never
    })
    const begun = await call({ amount: 60 })
    await expect(call({ amount: 60 })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
    const { requestState } = begun as Extract<typeof begun, { kind: 'task' }>
    expect(requestState).toMatchObject({ own: 1 })
    await call({ amount: 60 }, { requestState })
    await call({ amount: 40 })
    await expect(call({ amount: 1 })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it('of all servers is one, also where a server has the default in a copy', async () => {
    const store = new MemoryStore()
    const rules: Rules = [{ tool: 't', sum: '$.amount', most: '100/day' }]
    const common = { arguments: rules }
    const make = (own: typeof common) => {
      const settings = (upstream?: string) => (upstream === undefined ? common : own)
      return chain([(deps) => argumentLimits.create(settings, deps)], answering(hello), { store })
    }
    await make(structuredClone(common))({}, { arguments: { amount: 60 } })
    await expect(make(common)({}, { arguments: { amount: 60 } })).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })

  it('holds among calls at the same time', async () => {
    const call = limited(daily)
    const made = await Promise.allSettled(Array.from({ length: 20 }, () => call({ amount: 10 })))
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(10)
  })

  it('refuses a call while the store cannot be asked', async () => {
    const store = new MemoryStore()
    const call = limited(daily, answering(hello), store)
    vi.spyOn(store, 'get').mockRejectedValue(new GatewayError('SERVER_UNAVAILABLE', 'no store'))
    await expect(call({ amount: 1 })).rejects.toEqual(refused('SERVER_UNAVAILABLE'))
  })

  it('leaves other tools alone', async () => {
    await limited([{ tool: 'pay_*', sum: '$.amount', most: 1 }])({ amount: 100 })
  })

  it('is checked by a dry run, which takes nothing', async () => {
    const deps = featureDeps({ store: new MemoryStore() })
    const { calls } = argumentLimits.create(() => ({ arguments: daily }), deps)
    const end = answering(hello)
    const amount = (value: number) => {
      const call = toolCall({ params: Payload.of({ name: 't', arguments: { amount: value } }) })
      const layer = typeof calls?.dryRun === 'function' ? calls.dryRun(call.target, end) : undefined
      return layer?.(end)(call)
    }
    for (let times = 0; times < 3; times++) await amount(100)
    await expect(amount(101)).rejects.toEqual(refused('QUOTA_EXHAUSTED'))
  })
})
