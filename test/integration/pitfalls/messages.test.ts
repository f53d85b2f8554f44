import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import type { ServerOptions } from '../../support/server/options.ts'
import { startVariants, type Variants } from '../../support/variants.ts'

const servers: Readonly<Record<string, Partial<ServerOptions>>> = {
  coerces: { coerceIds: true },
  'coerces-stdio': { coerceIds: true, transport: 'stdio' },
  'out-of-order': { outOfOrder: true, transport: 'stdio' },
  'out-of-order-sse': { outOfOrder: true, transport: 'sse', revision: '2024-11-05' },
  plain: {},
  'empty-cursor': { emptyLastCursor: true, pageSize: 5 },
  'empty-cursor-stdio': { emptyLastCursor: true, pageSize: 5, transport: 'stdio' },
}

let all: Variants
beforeAll(async () => {
  all = await startVariants(servers)
})
afterAll(() => all.close())

describe.each(['2025-11-25', '2026-07-28'] as const)('to a client of %s', (revision) => {
  test.each(['coerces', 'coerces-stdio'])(
    'ids that the server "%s" converts to strings still match their calls',
    async (name) => {
      for (const ids of ['number', 'string'] as const) {
        const client = await all.client(name, { revision, ids })
        const replies = await Promise.all(
          [1, 2, 3].map((bytes) => client.request('tools/call', { name: 'big', arguments: { bytes } })),
        )
        expect(replies.map(textOf)).toEqual(['x', 'xx', 'xxx'])
        expect(client.violations).toEqual([])
      }
    },
  )

  test.each(['out-of-order', 'out-of-order-sse'])(
    'responses out of order from "%s" match their calls',
    async (name) => {
      const client = await all.client(name, { revision })
      const sizes = [5, 4, 3, 2]
      const replies = await Promise.all(
        sizes.map((bytes) => client.request('tools/call', { name: 'big', arguments: { bytes } })),
      )
      expect(replies.map((reply) => textOf(reply).length)).toEqual(sizes)
    },
  )

  test('unknown fields of tools, results and content are kept', async () => {
    const client = await all.client('plain', { revision })
    const { result } = await client.request('tools/list')
    const tools = result?.['tools']
    expect(tools).toContainEqual(
      expect.objectContaining({
        name: 'vendor',
        'x-tool': { kept: true },
        _meta: { 'com.example/tool': [1, 2] },
      }),
    )
    const reply = await client.request('tools/call', { name: 'vendor' })
    expect(reply.result).toMatchObject({
      content: [{ 'x-block': 1, annotations: { 'x-annotation': 2 } }],
      'x-result': { float: 1 },
      _meta: { 'com.example/result': { kept: true } },
    })
  })

  test('params that are null are omitted in the request to the server', async () => {
    const client = await all.client('plain', { revision: '2025-11-25' })
    const link = client.link
    const before = all.server('plain').received('tools/list').length
    await link
      .send({ jsonrpc: '2.0', id: 'null-params', method: 'tools/list', params: null })
      .catch(() => undefined)
    await all.server('plain').until(() => all.server('plain').received('tools/list').length > before)
    expect(all.server('plain').violations).toEqual([])
  })

  test.each(['empty-cursor', 'empty-cursor-stdio'])('an empty cursor of "%s" ends the list', async (name) => {
    const client = await all.client(name, { revision })
    let cursor: unknown
    let pages = 0
    do {
      const { result } = await client.request('tools/list', cursor === undefined ? {} : { cursor })
      cursor = result?.['nextCursor']
    } while (cursor !== undefined && ++pages < 20)
    expect(pages).toBeLessThan(20)
    expect(cursor).toBeUndefined()
  })

  test('structured content is forwarded whether or not it fits its schema, and never required', async () => {
    const client = await all.client('plain', { revision })
    const reply = await client.request('tools/call', { name: 'structured' })
    expect(reply.result).toMatchObject({
      structuredContent: { city: 'Paris', degrees: 21.5 },
      content: [{ type: 'text' }],
    })
    const failed = await client.request('tools/call', { name: 'fail' })
    expect(failed.result).toMatchObject({ isError: true })
    expect(failed.result).not.toHaveProperty('structuredContent')
  })
})
