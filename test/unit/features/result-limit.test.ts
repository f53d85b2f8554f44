import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Handler } from '../../../src/core/call.ts'
import type { Descriptor } from '../../../src/core/descriptor.ts'
import { Payload } from '../../../src/core/payload.ts'
import { validator } from '../../../src/core/schema/schema.ts'
import { cut, shorten, sizeOf } from '../../../src/core/json/shorten.ts'
import { resultLimit } from '../../../src/features/result-limit.ts'
import { featureDeps, withTool } from '../../support/feature-deps.ts'
import { toolCall } from '../../support/tool-call.ts'

const LIMIT = 10_000

async function through(
  result: object,
  { outputSchema, method = 'tools/call' }: { outputSchema?: object; method?: string } = {},
): Promise<Payload> {
  const entry = { definition: { name: 't', ...(outputSchema && { outputSchema }) } } as unknown as Descriptor
  const deps = featureDeps({ entry: () => entry })
  const target = { method, upstream: 'one', name: 't' }
  const end: Handler = async () => ({ kind: 'result', result: Payload.text(JSON.stringify(result)) })
  const policy = withTool(
    resultLimit.create(() => ({ result: LIMIT }), deps),
    deps,
  ).calls?.middleware
  const outcome = await policy?.(target)?.(end)(toolCall({ method, target }))
  if (outcome?.kind !== 'result') throw new Error('no result')
  return outcome.result
}

const truncated = (result: Payload): unknown => result.at('_meta')?.fields['dev.gatehouse/truncated']
const texts = (result: Payload): unknown[] =>
  (result.fields['content'] as { text?: string }[]).map(({ text }) => text)

describe('oversized results', () => {
  it('C189 results within the limit are unchanged', async () => {
    const result = { content: [{ type: 'text', text: 'é'.repeat(4000) }] }
    const found = await through(result)
    expect(found.text).toBe(JSON.stringify(result))
  })

  it('C175 long text is truncated with a notice for model and program', async () => {
    const found = await through({
      content: [
        { type: 'text', text: 'first' },
        { type: 'text', text: 'long '.repeat(10_000), annotations: { priority: 1 } },
        { type: 'text', text: 'last' },
      ],
      _meta: { theirs: 1 },
    })
    expect(Buffer.byteLength(found.text)).toBeLessThanOrEqual(LIMIT)
    expect(Buffer.byteLength(found.text)).toBeGreaterThan(LIMIT * 0.8)
    const [first, long, ...rest] = texts(found)
    expect(first).toBe('first')
    expect(long).toMatch(/^long long .*…$/)
    expect(rest.at(-1)).toMatch(/Shortened by the gateway: this result has \d+ bytes, the limit is 10000/)
    expect(truncated(found)).toMatchObject({ original_bytes: expect.any(Number), limit_bytes: LIMIT })
    expect(found.at('_meta')?.fields['theirs']).toBe(1)
  })

  it('C175 arrays lose elements so that the result fits its schema', async () => {
    const outputSchema = {
      type: 'object',
      required: ['total', 'items'],
      additionalProperties: false,
      properties: {
        total: { type: 'integer' },
        items: {
          type: 'array',
          minItems: 1,
          items: {
            type: 'object',
            required: ['id'],
            properties: { id: { type: 'string', pattern: '^id-' } },
          },
        },
      },
    }
    const items = Array.from({ length: 3000 }, (_each, index) => ({ id: `id-${index}` }))
    const structuredContent = { total: 3000, items }
    const content = [{ type: 'text', text: JSON.stringify(structuredContent) }]
    const found = await through({ content, structuredContent }, { outputSchema })
    const structured = found.fields['structuredContent'] as typeof structuredContent
    expect(validator(outputSchema)(structured)).toEqual([])
    expect(structured.total).toBe(3000)
    expect(structured.items).toEqual(items.slice(0, structured.items.length))
    expect(structured.items.length).toBeGreaterThan(100)
    expect(Buffer.byteLength(found.text)).toBeLessThanOrEqual(LIMIT)
    expect(truncated(found)).toBeDefined()
  })

  it('C175 strings in structured content are truncated if shorter arrays do not suffice', async () => {
    const outputSchema = { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] }
    const found = await through(
      { content: [], structuredContent: { text: 'x'.repeat(50_000) } },
      { outputSchema },
    )
    expect(found.fields['structuredContent']).toMatchObject({ text: expect.stringMatching(/^x+…$/) })
  })

  it('C175 a result that cannot be shortened within its schema is refused as a tool result', async () => {
    const text = 'x'.repeat(50_000)
    const outputSchema = { type: 'object', properties: { text: { type: 'string', minLength: 50_000 } } }
    await expect(
      through({ content: [{ type: 'text', text }], structuredContent: { text } }, { outputSchema }),
    ).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE', isResult: true, rpc: -32005 })
  })

  it('binary content is replaced by a notice', async () => {
    const data = Buffer.alloc(20_000).toString('base64')
    const found = await through({
      content: [
        { type: 'image', mimeType: 'image/png', data },
        { type: 'resource', resource: { uri: 'file:///x', mimeType: 'application/zip', blob: data } },
        { type: 'resource_link', uri: 'file:///y', name: 'y' },
      ],
    })
    const [image, resource, link] = found.fields['content'] as unknown[]
    expect(image).toEqual({ type: 'text', text: expect.stringContaining('image/png, 20000 bytes, omitted') })
    expect(resource).toMatchObject({
      type: 'resource',
      resource: { uri: 'file:///x', mimeType: 'text/plain' },
    })
    expect(link).toEqual({ type: 'resource_link', uri: 'file:///y', name: 'y' })
  })

  it('resources are shortened too', async () => {
    const blob = Buffer.alloc(20_000).toString('base64')
    const contents = [
      { uri: 'file:///a', mimeType: 'text/plain', text: 'a'.repeat(30_000) },
      { uri: 'file:///b', mimeType: 'image/png', blob },
    ]
    const found = await through({ contents }, { method: 'resources/read' })
    expect(Buffer.byteLength(found.text)).toBeLessThanOrEqual(LIMIT)
    expect(found.fields['contents']).toMatchObject([
      { uri: 'file:///a', text: expect.stringMatching(/^a+…/) },
    ])
    expect(truncated(found)).toBeDefined()
  })

  it('any result is within the limit after shortening', async () => {
    const long = fc.tuple(fc.string({ unit: 'binary', maxLength: 8 }), fc.nat(1000))
    const block = long.map(([text, times]) => ({ type: 'text', text: text.repeat(times) }))
    const property = fc.asyncProperty(
      fc.array(block, { maxLength: 6 }),
      fc.jsonValue({ maxDepth: 4 }),
      async (content, structuredContent) => {
        const found = await through({ content, structuredContent: { a: structuredContent, b: content } })
        expect(Buffer.byteLength(found.text)).toBeLessThanOrEqual(LIMIT)
        expect(JSON.parse(found.text)).toEqual(found.value)
      },
    )
    await fc.assert(property, { numRuns: 20 })
  }, 30_000)
})

describe('shorten', () => {
  it('shorten returns a value within the budget or undefined', () => {
    const property = fc.property(fc.jsonValue(), fc.nat(200), (value, budget) => {
      const short = shorten(value, budget, true)
      if (short !== undefined) expect(sizeOf(short)).toBeLessThanOrEqual(budget)
      if (sizeOf(value) <= budget) expect(short).toBe(value)
    })
    fc.assert(property)
  })

  it('shorten never splits a character', () => {
    const property = fc.property(fc.string({ unit: 'grapheme' }), fc.nat(60), (text, budget) => {
      const start = cut(text, budget)
      if (start === undefined) return
      expect(sizeOf(start)).toBeLessThanOrEqual(budget)
      expect(start.isWellFormed()).toBe(true)
    })
    fc.assert(property)
  })

  it('shorten takes bounded time for deeply nested values', () => {
    let value: unknown = 'x'.repeat(1_000_000)
    for (let depth = 0; depth < 500; depth++) value = [value]
    const start = performance.now()
    expect(shorten(value, 1000, true)).toBeDefined()
    expect(performance.now() - start).toBeLessThan(3000)
  })
})
