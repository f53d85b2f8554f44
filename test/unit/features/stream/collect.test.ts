import { acceptsTaskSlot, deadlineSlot } from '../../../../src/core/slot.ts'
import { offeredBy } from '../../../support/feature-deps.ts'
import { toolFacts } from '../../../../src/features/offers.ts'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { mask } from '../../../../src/features/mask/mask.ts'
import { rateLimit } from '../../../../src/features/rate-limit.ts'
import { stream } from '../../../../src/features/stream/stream.ts'
import { cost } from '../../../../src/features/cost/cost.ts'
import { usage } from '../../../../src/features/cost/usage.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { features } from '../../../../src/features/index.ts'
import { chain, on } from '../../../support/chain.ts'
import type { Json } from '../../../support/server/json.ts'
import {
  about,
  collecting,
  idsIn,
  listener,
  listing,
  paged,
  type PageOf,
  pagesTo,
  range,
  refusalOf,
  seal,
  STREAM,
  tool,
} from './bench.ts'

afterEach(() => void vi.useRealTimers())

describe('whether a call is collected', () => {
  it('only on request, unless the configuration says so', async () => {
    const { server, calls } = paged(pagesTo(3))
    const plain = await collecting({ server })({})
    expect(calls).toHaveLength(1)
    expect(() => about(plain)).toThrow('it says nothing')
    expect(idsIn(await collecting({ server })())).toEqual(range(6))
    expect(idsIn(await collecting({ server, settings: { collect: true } })({}))).toEqual(range(6))
    expect(idsIn(await collecting({ server, settings: { collect: true } })({ [STREAM]: false }))).toEqual([
      0, 1,
    ])
  })

  it('the server does not see the request, nor does a call without one change', async () => {
    const { server, calls } = paged(pagesTo(2))
    await collecting({ server })({ [STREAM]: true, other: 1 })
    for (const { params, meta } of calls) {
      expect(params.meta(STREAM)).toBeUndefined()
      expect(params.meta('other')).toBe(1)
      expect(meta[STREAM]).toBeUndefined()
    }
  })

  it('only tools that read, with an argument that selects a page', async () => {
    const write = { op: 'write', risk: 'reversible', idempotent: true, evidence: [] } as const
    for (const entry of [tool({ cursor: {} }, { classification: write }), tool({ query: {} })]) {
      const { server, calls } = paged(pagesTo(3))
      const outcome = await collecting({ server, entry })()
      expect(calls).toHaveLength(1)
      expect(about(outcome)).toEqual({ pages: 1, complete: false, stopped_by: 'not_collectable' })
      const unasked = await collecting({ server, entry, settings: { collect: true } })({})
      expect(idsIn(unasked)).toEqual([0, 1])
      expect(() => about(unasked)).toThrow('it says nothing')
    }
  })

  it('internal calls are not', async () => {
    const { server, calls } = paged(pagesTo(3))
    await collecting({ server, settings: { collect: true } })({}, { internal: 'read' })
    expect(calls).toHaveLength(1)
  })

  it.each<[unknown]>([
    ['yes'],
    [1],
    [null],
    [[]],
    [{ max_pages: 0 }],
    [{ max_pages: 1001 }],
    [{ max_pages: 1.5 }],
    [{ max_pages: '5' }],
    [{ checkpoint_token: 5 }],
    [{ pages: 3 }],
  ])('the request %j is refused before the server is called', async (requested) => {
    const { server, calls } = paged(pagesTo(3))
    const { code, message } = await refusalOf(collecting({ server })({ [STREAM]: requested }))
    expect(code).toBe('INVALID_INPUT')
    expect(message).toContain('_meta["dev.gatehouse/stream"]')
    expect(calls).toHaveLength(0)
  })

  it('the tool says that its pages can be collected', () => {
    const facts = (entry: typeof listing) => {
      const instance = stream.create(() => ({ collect: false, max_pages: 50 }), {} as never)
      return offeredBy(instance, toolFacts)?.(entry, [])
    }
    expect(facts(listing)).toEqual({ isCollectable: true })
    expect(facts(tool({ query: {} }))).toEqual({})
    expect(facts({ ...listing, classification: { ...listing.classification, op: 'write' } })).toEqual({})
  })
})

describe('the collected result', () => {
  it('has the items of all pages where the tool has its items, and says that it is complete', async () => {
    const { server, cursors } = paged(pagesTo(4))
    const outcome = await collecting({ server })()
    expect(cursors()).toEqual([undefined, '1', '2', '3'])
    expect(idsIn(outcome)).toEqual(range(8))
    expect(about(outcome)).toEqual({ pages: 4, items: 8, complete: true })
    if (outcome.kind !== 'result') throw new TypeError('no result')
    const { content, structuredContent } = JSON.parse(outcome.result.text) as Json & {
      content: { text: string }[]
    }
    expect(structuredContent).toMatchObject({ nextCursor: null })
    expect(content).toHaveLength(1)
    expect(JSON.parse(content[0]?.text ?? '')).toEqual(structuredContent)
  })

  it('a result with one page stays as the server wrote it, except for the data in _meta', async () => {
    const text =
      '{"content":[{"type":"text","text":"{ \\"items\\": [ 1 ] }"}],"structuredContent":{ "items": [ 1 ] }}'
    const server = async () => ({ kind: 'result' as const, result: Payload.text(text) })
    const outcome = await collecting({ server })()
    expect(
      outcome.kind === 'result' &&
        outcome.result.withMeta({ [STREAM]: undefined }).text.replace(',"_meta":{}', ''),
    ).toBe(text)
    expect(about(outcome)).toEqual({ pages: 1, items: 1, complete: true })
  })

  it('the other arguments are the same on every page', async () => {
    const { server, calls } = paged(pagesTo(3))
    await collecting({ server })(undefined, {}, { query: 'q' })
    expect(calls.map(({ params }) => params.fields['arguments'])).toEqual([
      { query: 'q' },
      { query: 'q', cursor: '1' },
      { query: 'q', cursor: '2' },
    ])
  })

  it('an error on the first page is the error itself', async () => {
    const failing = paged(() => {
      throw new GatewayError('UPSTREAM_ERROR', 'It broke.')
    })
    expect((await refusalOf(collecting(failing)())).message).toBe('It broke.')
    const result = Payload.of({ content: [{ type: 'text', text: 'no' }], isError: true })
    const erring = { server: async () => ({ kind: 'result' as const, result }) }
    expect(await collecting(erring)()).toEqual({ kind: 'result', result })
  })

  it('input that the first page needs is requested from the caller', async () => {
    const outcome = { kind: 'input_required', inputRequests: {}, requestState: { a: 1 } } as const
    expect(await collecting({ server: async () => outcome })()).toBe(outcome)
  })
})

describe('a later page', () => {
  it('is a call without the key, the state and the step of the first one, and requests no input', async () => {
    const { server, calls } = paged(pagesTo(2))
    const meta = { [STREAM]: true, 'dev.gatehouse/idempotency_key': 'k', 'dev.gatehouse/step_id': 's' }
    await collecting({ server })(meta, {
      requestState: { rate: 'ticket' },
      slots: acceptsTaskSlot.put(true),
      inputResponses: {},
    })
    const [first, second] = calls
    expect(first).toMatchObject({ requestState: { rate: 'ticket' } })
    expect(first && acceptsTaskSlot.of(first)).toBe(true)
    expect(first?.meta).toMatchObject({ 'dev.gatehouse/idempotency_key': 'k' })
    expect(second?.requestState).toEqual({})
    expect(second?.client.nonInteractive).toBe(true)
    expect(second && acceptsTaskSlot.of(second)).toBeUndefined()
    expect(second).not.toHaveProperty('inputResponses')
    expect(second?.meta).toEqual({})
    expect(second?.params.fields['_meta']).toBeUndefined()
  })

  it('costs a token of the rate limit each, and one that there is no token for ends the collection', async () => {
    const entry = () => listing
    const { server, calls } = paged(pagesTo(5))
    const make = chain(
      [on(stream, { collect: true, max_pages: 50 }), on(rateLimit, { rate: '3/minute' })],
      server,
      { entry, seal },
    )
    const outcome = await make()
    expect(calls).toHaveLength(3)
    expect(about(outcome)).toMatchObject({ pages: 3, items: 6, stopped_by: 'page_failed', failed_page: 4 })
    expect(about(outcome).error).toMatchObject({ code: 'RATE_LIMIT_EXCEEDED' })
    expect((await refusalOf(make())).code).toBe('RATE_LIMIT_EXCEEDED')
  })

  it('costs as much as a call, and the result says what all of them cost', async () => {
    const price = { category: 'metered', units: 5 } as const
    const settings = serverSettings({ name: 'one', tools: { t: { cost: price } } })
    const { server, calls } = paged(pagesTo(9))
    const parts = [
      on(usage, {}),
      on(stream, { collect: true, max_pages: 50 }),
      on(cost, { budget: { units: 17, per: 'day' } }),
    ]
    const make = chain(parts, server, {
      entry: () => listing,
      server: () => settings,
      seal,
      store: new MemoryStore(),
    })
    const outcome = await make()
    expect(calls).toHaveLength(3)
    expect(about(outcome)).toMatchObject({ pages: 3, failed_page: 4, error: { code: 'QUOTA_EXHAUSTED' } })
    expect(outcome.kind === 'result' && outcome.result.meta('dev.gatehouse/usage')).toMatchObject({
      units: 15,
      quota: { remaining: 2 },
    })
  })

  it('is masked like every result, in the result and in the chunk', async () => {
    const { server } = paged((cursor) => ({
      items: [{ id: Number(cursor ?? 0), mail: `person${cursor ?? 0}@example.com` }],
      nextCursor: cursor === undefined ? '1' : null,
    }))
    const { emit, notes } = listener()
    const masking = on(mask, { rules: [{ pattern: String.raw`\w+@example\.com`, replace: '***' }] })
    const make = chain([on(stream, { collect: true, max_pages: 50 }), masking], server, {
      entry: () => listing,
      seal,
    })
    const outcome = await make({ emit }, { _meta: { progressToken: 1 } })
    expect(idsIn(outcome)).toEqual([0, 1])
    const said =
      outcome.kind === 'result' ? outcome.result.text + notes.map(({ params }) => params?.text).join('') : ''
    expect(said).not.toContain('@example.com')
    expect(notes).toHaveLength(2)
    expect(outcome.kind === 'result' && outcome.result.meta('dev.gatehouse/masked')).toBe(2)
  })

  it('passes everything from the rate limit on: the feature is next above it', () => {
    const names = features.map(({ name }) => name)
    expect(names[names.indexOf('stream') + 1]).toBe('rate_limit')
    for (const below of ['permissions', 'validate', 'idempotency', 'cost', 'confirm', 'mask', 'result_limit'])
      expect(names.indexOf(below)).toBeGreaterThan(names.indexOf('stream'))
  })
})

/** Two pages with what a test wants the second to be. */
function second(page: (call: Parameters<PageOf>[1]) => ReturnType<PageOf>): PageOf {
  return (cursor, call) => (cursor === undefined ? { items: [{ id: 0 }], nextCursor: 'b' } : page(call))
}

describe('a collection that ends early', () => {
  it.each<[string, PageOf, Partial<{ pages: number; items: number; checkpoint_token: unknown }>]>([
    ['max_pages', pagesTo(9), { pages: 2, items: 4, checkpoint_token: expect.any(String) }],
    [
      'repeated_cursor',
      (cursor) => ({ items: [{ id: Number(cursor ?? 0) }], nextCursor: '1' }),
      { pages: 2, items: 2 },
    ],
    [
      'empty_page',
      second(() => ({ items: [], nextCursor: 'c' })),
      { pages: 2, items: 1, checkpoint_token: expect.any(String) },
    ],
    ['no_cursor', second(() => ({ items: [{ id: 1 }], has_more: true })), { pages: 2, items: 2 }],
    [
      'page_failed',
      second(() => ({ rows: [] })),
      { pages: 1, items: 1, checkpoint_token: expect.any(String) },
    ],
    [
      'page_failed',
      second(() => ({ kind: 'input_required', inputRequests: {}, requestState: {} })),
      { pages: 1, items: 1 },
    ],
  ])('because of %s says so, also in words', async (reason, pageOf, expected) => {
    const outcome = await collecting({ server: paged(pageOf).server })({
      [STREAM]: { max_pages: reason === 'max_pages' ? 2 : 9 },
    })
    expect(about(outcome)).toMatchObject({ ...expected, complete: false, stopped_by: reason })
    if (!('checkpoint_token' in expected) && reason !== 'page_failed')
      expect(about(outcome)).not.toHaveProperty('checkpoint_token')
    if (outcome.kind !== 'result') throw new TypeError('no result')
    const { content } = JSON.parse(outcome.result.text) as { content: { text: string }[] }
    expect(content.at(-1)?.text).toMatch(
      /^\[Collected by the gateway: \d pages? with \d items?\. This is not all: /,
    )
  })

  it('because a page failed says which, and why', async () => {
    const failed = { code: 'UPSTREAM_ERROR', message: 'The index is being rebuilt.' }
    const thrown = second(() => {
      throw new GatewayError('UPSTREAM_ERROR', failed.message)
    })
    const result = Payload.of({ content: [{ type: 'text', text: failed.message }], isError: true })
    const returned = second(() => ({ kind: 'result', result }))
    for (const pageOf of [thrown, returned]) {
      const outcome = await collecting({ server: paged(pageOf).server, stubs: { explained: () => failed } })()
      expect(about(outcome)).toMatchObject({ pages: 1, items: 1, failed_page: 2, error: failed })
      if (outcome.kind !== 'result') throw new TypeError('no result')
      expect(outcome.result.at('content')?.items.at(-1)?.fields['text']).toBe(
        '[Collected by the gateway: 1 page with 1 item. This is not all: page 2 failed: The index is being rebuilt. The rest begins with cursor="b".]',
      )
      expect(outcome.result.fields['isError']).toBeUndefined()
    }
  })

  it('never exceeds the limit of results, and leaves the page out that would', async () => {
    const row = 'x'.repeat(10_000)
    const { server, calls } = paged((cursor) => {
      const page = Number(cursor ?? 0)
      return { items: [{ id: page, row }], nextCursor: String(page + 1) }
    })
    const outcome = await collecting({ server, stubs: { resultLimit: () => 100_000 } })()
    if (outcome.kind !== 'result') throw new TypeError('no result')
    expect(Buffer.byteLength(outcome.result.text)).toBeLessThanOrEqual(100_000)
    expect(about(outcome)).toMatchObject({ pages: 4, items: 4, stopped_by: 'result_limit' })
    expect(calls).toHaveLength(5)
    const rest = await collecting({ server, stubs: { resultLimit: () => 100_000 } })({
      [STREAM]: { checkpoint_token: about(outcome).checkpoint_token },
    })
    expect(idsIn(rest)).toEqual([4, 5, 6, 7])
  })

  it('a page that the gateway shortened is left out', async () => {
    const { server } = paged(
      second(() => {
        const result = Payload.of({ ...fullPage, _meta: { 'dev.gatehouse/truncated': {} } })
        return { kind: 'result', result }
      }),
    )
    expect(about(await collecting({ server })())).toMatchObject({ pages: 1, stopped_by: 'result_limit' })
  })

  it('keeps to the output schema of the tool', async () => {
    const limited = (items: Json): typeof listing => ({
      ...listing,
      definition: { ...listing.definition, outputSchema: { type: 'object', properties: { items } } },
    })
    const { server, calls } = paged(pagesTo(5))
    const outcome = await collecting({ server, entry: limited({ type: 'array', maxItems: 4 }) })()
    expect(about(outcome)).toMatchObject({ pages: 2, items: 4, stopped_by: 'output_schema' })
    expect(calls).toHaveLength(2)
    const same = paged((cursor) => ({ items: [{ id: 0 }], nextCursor: cursor === undefined ? '1' : null }))
    const unique = await collecting({ ...same, entry: limited({ type: 'array', uniqueItems: true }) })()
    expect(about(unique)).toMatchObject({ pages: 1, items: 1, stopped_by: 'output_schema' })
    expect(idsIn(unique)).toEqual([0])
  })

  it('a caller cannot collect more pages than the configuration permits', async () => {
    const { server, calls } = paged(pagesTo(9))
    await collecting({ server, settings: { max_pages: 3 } })({ [STREAM]: { max_pages: 8 } })
    expect(calls).toHaveLength(3)
  })
})

const fullPage = { content: [], structuredContent: { items: [{ id: 1 }], nextCursor: null } }

describe('the time of a collection', () => {
  it('each page restarts the timeout of the call', async () => {
    const renewTimeout = vi.fn<() => void>()
    await collecting(paged(pagesTo(4)))(undefined, {
      slots: deadlineSlot.put({ renew: renewTimeout, pause: () => () => undefined }),
    })
    expect(renewTimeout.mock.calls.length).toBeGreaterThanOrEqual(3)
  })

  it('a page that does not come is given up before the call is, with what there is', async () => {
    vi.useFakeTimers()
    const aborted: unknown[] = []
    const { server } = paged(
      second((call) => {
        call.signal.addEventListener('abort', () => aborted.push(call.signal.reason))
        return new Promise(() => undefined)
      }),
    )
    const stubs = { callBounds: () => ({ silence: 30_000, total: 600_000 }) }
    const pending = collecting({ server, stubs })()
    await vi.advanceTimersByTimeAsync(29_500)
    const outcome = await pending
    expect(about(outcome)).toMatchObject({
      pages: 1,
      stopped_by: 'page_failed',
      error: { code: 'OPERATION_TIMEOUT' },
    })
    expect(aborted).toHaveLength(1)
  })

  it('is shorter than the longest duration of a call', async () => {
    vi.useFakeTimers()
    const { server } = paged(async (cursor) => {
      // By the fake clock.
      await new Promise((resolve) => setTimeout(resolve, 4000))
      return { items: [{ id: Number(cursor ?? 0) }], nextCursor: String(Number(cursor ?? 0) + 1) }
    })
    const stubs = { callBounds: () => ({ silence: 30_000, total: 15_000 }) }
    const pending = collecting({ server, stubs })()
    await vi.advanceTimersByTimeAsync(14_500)
    expect(about(await pending)).toMatchObject({
      pages: 3,
      stopped_by: 'deadline',
      checkpoint_token: expect.any(String),
    })
  })

  it('a cancelled call stops at once, and its page with it', async () => {
    const controller = new AbortController()
    const started = Promise.withResolvers<void>()
    let signal: AbortSignal | undefined
    const { server, calls } = paged(
      second((call) => {
        signal = call.signal
        started.resolve()
        return new Promise(() => undefined)
      }),
    )
    const pending = collecting({ server })(undefined, { signal: controller.signal })
    await started.promise
    const reason = new GatewayError('CANCELLED', 'No more.')
    controller.abort(reason)
    expect(await refusalOf(pending)).toBe(reason)
    expect(signal?.aborted).toBe(true)
    expect(calls).toHaveLength(2)
  })
})
