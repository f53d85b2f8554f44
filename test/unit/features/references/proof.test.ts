// What stamps, receipts and logs say of data that was kept, and of data that arguments referred to.
import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { provenance } from '../../../../src/features/provenance/provenance.ts'
import { receipts } from '../../../../src/features/provenance/receipts.ts'
import { largeResults } from '../../../../src/features/references/keep.ts'
import { references } from '../../../../src/features/references/references.ts'
import { References } from '../../../../src/records/references.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { ada, recordSettings as settings } from '../../../support/reference-world.ts'
import { chain, fieldsOf, on } from '../../../support/chain.ts'
import { type Json, objectAt } from '../../../support/server/json.ts'
import { serverSettings } from '../../../support/server-settings.ts'
import { bytesOf } from '../../../support/bytes-of.ts'

const text = 'some text'
const sha256 = createHash('sha256').update(text).digest('hex')

function world(result: Json = { content: [{ type: 'text', text: 'ok' }] }) {
  const store = new MemoryStore()
  const logFields = new Map<string, unknown>()
  const claims: Json[] = []
  const counted: [string, number][] = []
  const run = chain(
    [
      on(receipts, {}),
      on(references, settings),
      on(provenance, { always: false, hash: false, compat: false }),
      on(largeResults, settings),
    ],
    async (): Promise<Outcome> => ({ kind: 'result', result: Payload.of(result) }),
    {
      store,
      servers: () => ['one', 'origin'],
      referenced: (outcome, count = 1) => void counted.push([outcome, count]),
      server: () => serverSettings({ name: 'one' }),
      sign: async (signed) => {
        claims.push(signed)
        return 'a.b.c'
      },
    },
  )
  const keep = async (facts: Json = {}): Promise<void> => {
    const all = {
      server: 'origin',
      tool: 'read',
      requestId: 'r0',
      name: 'data.txt',
      type: 'text/plain',
      id: 'one',
    }
    await new References(store, settings).add(ada, { ...all, ttl: 60_000, ...facts }, bytesOf(text))
  }
  const call = async (args: Json = {}, params: Json = {}, more: Partial<Call> = {}): Promise<Json> =>
    fieldsOf(await run({ principal: ada, logFields, ...more }, { arguments: args, ...params }))
  return { keep, call, logFields, claims, counted }
}

function stampsOf(result: Json): unknown {
  return objectAt(result, '_meta')['dev.gatehouse/provenance']
}

const origin = {
  source: 'origin:read',
  retrieved_at: expect.stringMatching(/^\d{4}-/),
  confidence: 'exact',
  content_hash: `sha256:${sha256}`,
  argument: 'values[1].text',
  reference: 'ref://one?bytes=0-3',
  request_id: 'r0',
  attested_by: 'gatehouse',
}

describe('the provenance of a result', () => {
  it('has the origin of data that its arguments referred to, without being requested', async () => {
    const { keep, call } = world()
    await keep()
    const result = await call({ values: [0, { text: 'ref://one?bytes=0-3' }] })
    expect(stampsOf(result)).toEqual([
      origin,
      { source: 'one:t', retrieved_at: expect.any(String), confidence: 'exact', attested_by: 'gatehouse' },
    ])
  })

  it('has no tool and no request where no call returned the data', async () => {
    const { keep, call } = world()
    await keep({ tool: undefined, requestId: undefined })
    const [first] = stampsOf(await call({ text: 'ref://one' })) as Json[]
    expect(first).toMatchObject({ source: 'origin', reference: 'ref://one' })
    expect(first).not.toHaveProperty('request_id')
  })

  it('says that parts were kept, and never names a reference as the source', async () => {
    const { call } = world({ content: [{ type: 'text', text: 'x'.repeat(5000) }] })
    expect(stampsOf(await call())).toMatchObject({
      source: 'one:t',
      confidence: 'derived',
      transformation: 'large parts were replaced by references to them',
    })
  })

  it('is as ever without references', async () => {
    const { call } = world()
    expect(await call({ text: 'plain' })).toEqual({ content: [{ type: 'text', text: 'ok' }] })
  })
})

it('a receipt has the hashes of data in the arguments and of kept data', async () => {
  const { keep, call, claims } = world({ content: [{ type: 'text', text: 'x'.repeat(5000) }] })
  await keep()
  await call({ text: 'ref://one' }, { receipt: true })
  expect(claims[0]).toMatchObject({
    references_used: [{ path: 'text', id: 'one', server: 'origin', tool: 'read', request_id: 'r0', sha256 }],
    references: [
      { id: expect.stringMatching(/^ref_/), size: 5000, sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    ],
  })
  expect(JSON.stringify(claims)).not.toContain('xxxx')
})

it('log fields have what was used and what was kept', async () => {
  const { keep, call, logFields } = world({ content: [{ type: 'text', text: 'x'.repeat(5000) }] })
  await keep()
  await call({ text: 'ref://one' })
  expect(logFields.get('references_used')).toEqual([
    {
      path: 'text',
      id: 'one',
      server: 'origin',
      name: 'data.txt',
      type: 'text/plain',
      size: text.length,
      sha256,
      tool: 'read',
      request_id: 'r0',
    },
  ])
  expect(logFields.get('references')).toMatchObject([{ name: 'result.txt', size: 5000 }])
})

it('metrics count what was used, kept and refused', async () => {
  const { keep, call, counted } = world({ content: [{ type: 'text', text: 'x'.repeat(5000) }] })
  await keep()
  await call({ a: 'ref://one', b: 'ref://one' })
  await expect(call({ a: 'ref://gone' })).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  await call()
  expect(counted).toEqual([
    ['used', 2],
    ['kept', 1],
    ['refused', 1],
    ['kept', 1],
  ])
})
