// Results whose long strings are in the store before the result is there.
import { createHash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import type { Call } from '../../../../src/core/call.ts'
import { spoolSlot, isPageSlot } from '../../../../src/core/spool.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { mask } from '../../../../src/features/mask/mask.ts'
import { largeResults } from '../../../../src/features/references/keep.ts'
import { SpoolingReader } from '../../../../src/protocol/spooling.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import type { ServiceStubs } from '../../../support/feature-deps.ts'
import { ada, referenceSettings } from '../../../support/reference-world.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'

const limits = { total: 100_000_000 }
const settings = { ...referenceSettings, ...limits }
const line = 'one "line" of 2 Mégabytes\n'
const text = line.repeat(80_000)

/** A result as it arrives from a server, in pieces. */
function arriving(result: Json, call: Call): Payload {
  const spool = spoolSlot.of(call)
  const passed: Buffer[] = []
  const reader = new SpoolingReader({
    spool: () => spool,
    pass: (bytes) => passed.push(Buffer.from(bytes)),
    pause: () => undefined,
    resume: () => undefined,
  })
  const bytes = Buffer.from(JSON.stringify(result))
  for (let at = 0; at < bytes.length; at += 65_536) reader.write(bytes.subarray(at, at + 65_536))
  reader.end()
  return Payload.text(Buffer.concat(passed).toString())
}

function world(result: Json, given: ServiceStubs & { total?: number; rules?: Json[] } = {}) {
  const store = given.store ?? new MemoryStore()
  const sizes: number[] = []
  const parts = [on(largeResults, { ...settings, ...(given.total && { total: given.total }) })]
  if (given.rules) parts.push(on(mask, { rules: given.rules as never }))
  const run = chain(
    parts,
    async (call) => {
      const arrived = arriving(result, call)
      sizes.push(arrived.text.length)
      return { kind: 'result', result: arrived }
    },
    { store, servers: () => ['one'], ...given },
  )
  const call = async (more: Partial<Call> = {}): Promise<Json> =>
    fieldsOf(await run({ principal: ada, ...more }))
  const kept = new References(store, limits)
  const read = async (id: unknown) => {
    const reference = await kept.find(ada, String(id))
    return { reference, bytes: reference ? await buffer(await kept.open(reference)) : Buffer.alloc(0) }
  }
  return { call, read, store, sizes }
}

const blocks = (result: Json): Json[] => result['content'] as Json[]
const facts = (result: Json): Json => objectAt(objectAt(result, '_meta'), 'dev.gatehouse/data_reference')
const sha256 = (bytes: string | Buffer): string => createHash('sha256').update(bytes).digest('hex')

describe('a long string of a result', () => {
  it('is kept while it arrives, and the result has a link to it', async () => {
    const { call, read, sizes } = world({
      content: [
        { type: 'text', text },
        { type: 'text', text: 'end' },
      ],
    })
    const result = await call()
    expect(sizes[0]).toBeLessThan(1000)
    const [link, preview, end] = blocks(result)
    expect(link).toMatchObject({
      type: 'resource_link',
      mimeType: 'text/plain',
      size: Buffer.byteLength(text),
    })
    expect(preview?.['text']).toContain(line)
    expect(end).toEqual({ type: 'text', text: 'end' })
    expect(facts(result)).toMatchObject({ checksum: { algorithm: 'sha256', value: sha256(text) } })
    expect(sha256((await read(facts(result)['ref_id'])).bytes)).toBe(sha256(text))
  })

  it('is decoded if it is the data of an image, and has its type', async () => {
    const image = randomBytes(1_500_000)
    const block = { type: 'image', mimeType: 'image/png', data: image.toString('base64') }
    const { call, read } = world({ content: [block] })
    const result = await call()
    expect(blocks(result)[0]).toMatchObject({
      type: 'resource_link',
      mimeType: 'image/png',
      name: 'image.png',
    })
    const { bytes, reference } = await read(facts(result)['ref_id'])
    expect(bytes.equals(image)).toBe(true)
    expect(reference?.sha256).toBe(sha256(image))
  })

  it('is kept once if structured content has it too, where its URI takes its place', async () => {
    const { call, store } = world({
      content: [{ type: 'text', text }],
      structuredContent: { result: text, n: 1 },
    })
    const result = await call()
    const uri = `ref://${String(facts(result)['ref_id'])}`
    expect(result['structuredContent']).toEqual({ result: uri, n: 1 })
    expect(blocks(result)[0]).toMatchObject({ uri })
    expect(await store.blobs.list()).toHaveLength(1)
  })

  it('is JSON if it is', async () => {
    const rows = JSON.stringify(Array.from({ length: 60_000 }, (_none, n) => ({ n, name: `row ${n}` })))
    const result = await world({ content: [{ type: 'text', text: rows }] }).call()
    expect(facts(result)['mime_type']).toBe('application/json')
    expect(blocks(result)[1]?.['text']).toContain('60000 rows with n, name')
  })

  it('has the id that the caller chose', async () => {
    const meta = { 'dev.gatehouse/ref_id': 'mine' }
    const result = await world({ content: [{ type: 'text', text }] }).call({ meta })
    expect(facts(result)['ref_id']).toBe('mine')
  })

  it('is kept in the result of a failed tool', async () => {
    const result = await world({ content: [{ type: 'text', text }], isError: true }).call()
    expect(result['isError']).toBe(true)
    expect(facts(result)['checksum']).toMatchObject({ value: sha256(text) })
  })

  it('is put back where there is no room, with the reason', async () => {
    const { call, store } = world(
      { content: [{ type: 'text', text }], structuredContent: { text } },
      { total: 8_000_000 },
    )
    const result = await call()
    expect(blocks(result)).toEqual([{ type: 'text', text }])
    expect(result['structuredContent']).toEqual({ text })
    expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/not_kept')['code']).toBe('QUOTA_EXHAUSTED')
    expect(await store.blobs.list()).toEqual([])
  })

  it('is put back for a caller who may not read resources of the server', async () => {
    const { call, store } = world({ content: [{ type: 'text', text }] }, { isPermitted: async () => false })
    expect(await call()).toEqual({ content: [{ type: 'text', text }] })
    expect(await store.blobs.list()).toEqual([])
  })

  it('is left out if it can neither be kept nor put back', async () => {
    const store = new MemoryStore()
    store.blobs.put = async (_id, bytes) => {
      await bytes[Symbol.asyncIterator]().next()
      throw new GatewayError('QUOTA_EXHAUSTED', 'The disk is full.')
    }
    const text = line.repeat(700_000)
    const result = await world({ content: [{ type: 'text', text }] }, { store }).call()
    expect(blocks(result)[0]?.['text']).toMatch(/^\[Left out by the gateway/)
    expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/not_kept')['code']).toBe('QUOTA_EXHAUSTED')
  })

  it('is put back if the store fails and it is not very long', async () => {
    const store = new MemoryStore()
    store.blobs.put = async () => {
      throw new GatewayError('QUOTA_EXHAUSTED', 'The disk is full.')
    }
    const result = await world({ content: [{ type: 'text', text }] }, { store }).call()
    expect(sha256(String(blocks(result)[0]?.['text']))).toBe(sha256(text))
    expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/not_kept')['code']).toBe('QUOTA_EXHAUSTED')
  })

  it('is shortened in structured content whose schema does not take a URI', async () => {
    const result = { content: [{ type: 'text', text }], structuredContent: { text } }
    const properties = { text: { type: 'string', minLength: 1000 } }
    const { call } = world(result, {
      entry: () => ({ definition: { name: 't', outputSchema: { type: 'object', properties } } }) as never,
    })
    const called = await call()
    expect(blocks(called)[0]).toMatchObject({ type: 'resource_link' })
    const short = String(objectAt(called, 'structuredContent')['text'])
    expect(short.length).toBeGreaterThanOrEqual(1000)
    expect(text.startsWith(short.slice(0, 900))).toBe(true)
  })

  it('is base64 in structured content whose schema does not take the URI of an image', async () => {
    const data = randomBytes(1_500_000).toString('base64')
    const block = { type: 'image', mimeType: 'image/png', data }
    const properties = { data: { type: 'string', minLength: 1000 } }
    const { call, read } = world(
      { content: [block], structuredContent: { data } },
      {
        entry: () => ({ definition: { name: 't', outputSchema: { type: 'object', properties } } }) as never,
      },
    )
    const called = await call()
    const links = blocks(called).filter(({ type }) => type === 'resource_link')
    expect(links.map(({ mimeType }) => mimeType)).toEqual(['application/json', 'image/png'])
    const { bytes } = await read(String(links[0]?.['uri']).slice('ref://'.length))
    expect(sha256(bytes)).toBe(sha256(JSON.stringify({ data })))
    const short = String(objectAt(called, 'structuredContent')['data'])
    expect(short.length).toBeGreaterThanOrEqual(1000)
    expect(data.startsWith(short.slice(0, 900))).toBe(true)
  })

  it('is one of ten at most', async () => {
    const texts = Array.from({ length: 12 }, (_none, n) => `${n} ${'x'.repeat(1_300_000)}`)
    const { call, store } = world({ content: texts.map((each) => ({ type: 'text', text: each })) })
    const result = await call()
    expect(blocks(result).filter(({ type }) => type === 'resource_link')).toHaveLength(10)
    expect(blocks(result).filter(({ text: each }) => String(each).length > 1_000_000)).toHaveLength(2)
    expect(objectAt(objectAt(result, '_meta'), 'dev.gatehouse/not_kept')['code']).toBe('QUOTA_EXHAUSTED')
    expect(await store.blobs.list()).toHaveLength(10)
  })

  it.each([
    ['a call of the gateway itself', { internal: 'read' as const }],
    ['a page', { slots: isPageSlot.put(true) }],
  ])('stays in the result of %s', async (_what, more) => {
    const { call, sizes } = world({ content: [{ type: 'text', text }] })
    expect(blocks(await call(more))).toEqual([{ type: 'text', text }])
    expect(sizes[0]).toBeGreaterThan(text.length)
  })

  it('stays in a result that is masked', async () => {
    const rules = [{ pattern: 'Még', replace: '***' }]
    const { call, sizes } = world({ content: [{ type: 'text', text }] }, { rules })
    expect(JSON.stringify(await call())).not.toContain('Még')
    expect(sizes[0]).toBeGreaterThan(text.length)
  })
})
