// URLs of kept data: what they are valid for, and how often.
import { describe, expect, it } from 'vitest'
import { CallUrls, dataRoute, DataUrls } from '../../../../src/features/references/transfer/urls.ts'
import type { RequestState } from '../../../../src/core/call.ts'
import { type ByteExchange, byteExchangeSlot } from '../../../../src/core/http-paths.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { type Reference, References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const ada = { id: 'ada', scopes: new Set(['read:one']) }
const data = { id: 'r1', sha256: 'a1' }
const invalid = expect.objectContaining({ code: 'FORBIDDEN' })

/** Two gateways that share a store and keys. */
function world() {
  let now = 1_700_000_000_000
  const clock = () => now
  const keys = [Buffer.alloc(32, 1)]
  const store = new MemoryStore()
  const gateway = () => new DataUrls(featureDeps({ store, seal: createSeal(clock, () => keys) }), clock)
  return { one: gateway(), other: gateway(), pass: (ms: number) => void (now += ms), now: clock }
}

function made(urls: DataUrls, { ttl, isOnce }: { ttl: number; isOnce?: true }): URL {
  return new URL(urls.of(ada, data, ttl, isOnce) ?? '')
}

describe('a URL of data', () => {
  it('names the data, its expiry in milliseconds, and the caller', () => {
    const { one, other, now } = world()
    const url = made(one, { ttl: 5000 })
    expect(url.pathname).toBe('/data/r1')
    expect(url.searchParams.get('exp')).toBe(String(now() + 5000))
    expect(url.href).not.toContain('ada')
    expect(other.open('r1', url.searchParams)).toMatchObject({ principal: ada, sha256: 'a1' })
  })

  it('is valid for one id and until its expiry', () => {
    const { one, pass } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    expect(() => one.open('r2', searchParams)).toThrow(invalid)
    pass(5000)
    expect(one.open('r1', searchParams)).toBeDefined()
    pass(1)
    expect(() => one.open('r1', searchParams)).toThrow(invalid)
  })

  it('cannot be made to last longer', () => {
    const { one, now } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    for (const exp of [String(now() + 6000), '', 'soon', '9'.repeat(40)]) {
      searchParams.set('exp', exp)
      expect(() => one.open('r1', searchParams)).toThrow(invalid)
    }
  })

  it('is no URL with a signature without one', () => {
    expect(world().one.open('r1', new URLSearchParams('exp=1'))).toBeUndefined()
  })

  it('works once for all gateways together, if it is to work once', async () => {
    const { one, other } = world()
    const { searchParams } = made(one, { ttl: 5000, isOnce: true })
    const uses = [one, other, one].map(async (urls) => urls.open('r1', searchParams)?.use())
    const results = await Promise.allSettled(uses)
    expect(results.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected', 'rejected'])
    const { searchParams: another } = made(one, { ttl: 5000, isOnce: true })
    await expect(other.open('r1', another)?.use()).resolves.toBeUndefined()
  })

  it('works any number of times otherwise', async () => {
    const { one } = world()
    const { searchParams } = made(one, { ttl: 5000 })
    for (let use = 0; use < 3; use++)
      await expect(one.open('r1', searchParams)?.use()).resolves.toBeUndefined()
  })

  it('does not exist where the gateway does not listen', () => {
    const urls = new DataUrls(featureDeps({ page: () => undefined }))
    expect(urls.of(ada, data, 5000)).toBeUndefined()
  })
})

describe('a URL in the arguments of a call', () => {
  const calls = async () => {
    const store = new MemoryStore()
    const references = new References(store, { total: 1000 })
    const facts = { server: 'one', name: 'data', type: 'text/plain', ttl: 1000 }
    const reference = await references.add(ada, facts, bytesOf('data'))
    const urls = new DataUrls(featureDeps({ store }))
    /** A round of the call with the state of the one before: its URL, and the state for the next one. */
    const round = async (requestState: RequestState = {}, given: Reference = reference) => {
      const call = new CallUrls(toolCall({ principal: ada, requestState }), urls, references)
      const url = new URL((await call.of(given, 'value')) ?? '')
      const outcome = call.after({ kind: 'input_required', inputRequests: {}, requestState: {} })
      return { url, state: outcome.kind === 'result' ? {} : outcome.requestState }
    }
    const use = async (url: URL) => urls.open(reference.id, url.searchParams)?.use()
    return { round, use, reference, references }
  }

  it('is the same in the next round, until it was used or the data is other data', async () => {
    const { round, use, reference } = await calls()
    const first = await round()
    const second = await round(first.state)
    expect(second.url.href).toBe(first.url.href)
    expect((await round(first.state, { ...reference, sha256: 'other' })).url.href).not.toBe(first.url.href)
    await use(first.url)
    const third = await round(second.state)
    expect(third.url.href).not.toBe(first.url.href)
    await expect(use(third.url)).resolves.toBeUndefined()
  })

  it('works as long as its data is kept', async () => {
    const { round, reference, references } = await calls()
    const { url } = await round()
    const kept = await references.find(ada, reference.id)
    expect(kept?.expiresAt).toBeGreaterThanOrEqual(Number(url.searchParams.get('exp')))
  })
})

it('a URL is not for other data that has the same id', async () => {
  const store = new MemoryStore()
  const references = new References(store, { total: 1000 })
  const urls = new DataUrls(featureDeps({ store }))
  const keep = (text: string) => {
    const facts = { id: 'r1', server: 'one', name: 'data', type: 'text/plain', ttl: 1000 }
    return references.add(ada, facts, bytesOf(text))
  }
  const first = await keep('data')
  const query = new URL(urls.of(ada, first, 5000) ?? '').searchParams
  const sent: unknown[] = []
  const exchange: ByteExchange = {
    name: 'r1',
    query,
    verb: 'HEAD',
    headers: {},
    body: (async function* () {})(),
    isFromHere: false,
    signInLink: undefined,
    person: async () => undefined,
    sendPage: () => expect.unreachable(),
    send: async ({ status }) => void sent.push(status),
  }
  const { handle } = dataRoute({ references, urls, mayRead: async () => true, log: silentLog })
  await handle(toolCall({ principal: ada, slots: byteExchangeSlot.put(exchange) }))
  await references.drop(first)
  await keep('other data')
  await expect(
    handle(toolCall({ principal: ada, slots: byteExchangeSlot.put(exchange) })),
  ).rejects.toMatchObject({
    code: 'RESOURCE_NOT_FOUND',
  })
  expect(sent).toEqual([200])
})
