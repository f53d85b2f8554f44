import { describe, expect, it } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { pageArguments, readPage } from '../../../../src/core/judgement/pages.ts'
import { documentsOf, mergePages, type Page } from '../../../../src/features/stream/merge.ts'
import type { Json } from '../../../support/server/json.ts'

const inputs = pageArguments({ inputSchema: { properties: { cursor: { type: 'string' } } } })

function pageOf(text: string): Page {
  const result = Payload.text(text)
  for (const document of documentsOf(result)) {
    const reading = readPage(document.json.value, {}, inputs, true)
    if (reading) return { result, document, reading }
  }
  throw new TypeError(`it is no page: ${text}`)
}

function merged(first: string, ...others: string[]): Json {
  return JSON.parse(mergedText(first, ...others)) as Json
}

function mergedText(first: string, ...others: string[]): string {
  return mergePages([pageOf(first), ...others.map(pageOf)]).text
}

const structured = (page: Json, more: Json = {}): string =>
  JSON.stringify({ content: [], structuredContent: page, ...more })
const asText = (page: Json): string =>
  JSON.stringify({ content: [{ type: 'text', text: JSON.stringify(page) }] })

describe('the items', () => {
  it('are put together in the structured content, with the end of the last page', () => {
    expect(
      merged(
        structured({ items: [1], nextCursor: 'b', total: 3 }),
        structured({ items: [2], nextCursor: 'c', total: 3 }),
        structured({ items: [3], total: 3 }),
      ),
    ).toEqual({ content: [], structuredContent: { items: [1, 2, 3], total: 3 } })
  })

  it('are put together at `result` too, where that repeats the first page, and only there', () => {
    const [first, second] = [{ items: [1], nextCursor: 'b' }, { items: [2] }]
    expect(merged(structured(first, { result: first }), structured(second))).toMatchObject({
      result: { items: [1, 2] },
    })
    expect(merged(structured(first, { result: 7 }), structured(second))).toMatchObject({ result: 7 })
  })

  it('are put together in a text that is JSON', () => {
    const result = merged(asText({ items: [1], nextCursor: 'b' }), asText({ items: [2], nextCursor: null }))
    expect(result).toEqual({ content: [{ type: 'text', text: '{"items":[1,2],"nextCursor":null}' }] })
  })

  it('are put together where they are nested, with the statement beside them', () => {
    const connection = (id: number, hasNextPage: boolean) => ({
      issues: { nodes: [{ id }], pageInfo: { hasNextPage, endCursor: String(id), startCursor: 's' } },
    })
    expect(merged(structured(connection(1, true)), structured(connection(2, false)))).toEqual({
      content: [],
      structuredContent: {
        issues: {
          nodes: [{ id: 1 }, { id: 2 }],
          pageInfo: { hasNextPage: false, endCursor: '2', startCursor: 's' },
        },
      },
    })
  })

  it('a statement that the last page does not make any more is left out', () => {
    const { structuredContent } = merged(
      structured({ results: [1], paging: { next: { after: 'b' } } }),
      structured({ results: [2] }),
    )
    expect(structuredContent).toEqual({ results: [1, 2] })
  })

  it('keep the text that the server sent', () => {
    const first =
      '{"content":[],"structuredContent":{"items":[{"id":12345678901234567890}],"nextCursor":"b"}}'
    const last = '{"content":[],"structuredContent":{"items":[{"id":1.10}]}}'
    expect(mergedText(first, last)).toContain('[{"id":12345678901234567890},{"id":1.10}]')
  })

  it('are repeated if two pages are the same', () => {
    const page = structured({ items: [1], nextCursor: 'b' })
    expect(merged(page, page)).toMatchObject({ structuredContent: { items: [1, 1] } })
  })
})

describe('what is beside the items', () => {
  it('lists that differ are put together, and a list that is the same on every page stays', () => {
    const page = (id: number) =>
      structured({ items: [id], included: [id * 10], columns: ['id'], nextCursor: 'b' })
    expect(merged(page(1), page(2))).toMatchObject({
      structuredContent: { items: [1, 2], included: [10, 20], columns: ['id'] },
    })
  })

  it('the number of items of a page becomes that of all', () => {
    const page = (items: number[], count: number) => structured({ items, count, total: 9, nextCursor: 'b' })
    expect(merged(page([1, 2], 2), page([3], 1))).toMatchObject({ structuredContent: { count: 3, total: 9 } })
    expect(merged(page([1, 2], 7), page([3], 7))).toMatchObject({ structuredContent: { count: 7 } })
  })

  it('the text with the same JSON follows, and other blocks of all pages are kept in order', () => {
    const page = (id: number) => {
      const own = { items: [id], nextCursor: null }
      const image = { type: 'image', data: `${id}`, mimeType: 'image/png' }
      return JSON.stringify({
        content: [{ type: 'text', text: JSON.stringify(own, undefined, 2) }, image],
        structuredContent: own,
      })
    }
    const { content } = merged(page(1), page(2)) as { content: Json[] }
    expect(content.map(({ type }) => type)).toEqual(['text', 'image', 'image'])
    expect(JSON.parse(String(content[0]?.['text']))).toEqual({ items: [1, 2], nextCursor: null })
    expect(content.map(({ data }) => data)).toEqual([undefined, '1', '2'])
  })

  it('texts for people are kept', () => {
    const page = (id: number) =>
      structured({ items: [id], nextCursor: 'b' }, { content: [{ type: 'text', text: `Found ${id}.` }] })
    expect(merged(page(1), page(2))['content']).toEqual([
      { type: 'text', text: 'Found 1.' },
      { type: 'text', text: 'Found 2.' },
    ])
  })

  it('a text that an SDK repeats as structured content stays the same', () => {
    const page = (id: number) => {
      const text = JSON.stringify({ items: [id], nextCursor: 'b' })
      return JSON.stringify({ content: [{ type: 'text', text }], structuredContent: { result: text } })
    }
    const text = '{"items":[1,2],"nextCursor":"b"}'
    expect(merged(page(1), page(2))).toEqual({
      content: [{ type: 'text', text }],
      structuredContent: { result: text },
    })
  })

  it('the sources of all pages are named, and the result is derived', () => {
    const stamp = {
      source: 'one:t',
      retrieved_at: 'x',
      confidence: 'exact',
      content_hash: 'sha256:0',
      attested_by: 'gatehouse',
    }
    const own = { source: 'wiki', attested_by: 'one' }
    const page = (id: number) =>
      structured(
        { items: [id], nextCursor: 'b' },
        {
          _meta: {
            'dev.gatehouse/provenance': [{ ...own, id }, stamp],
            'dev.gatehouse/rate_limit': { remaining: 9 - id },
          },
        },
      )
    expect(merged(page(1), page(2))['_meta']).toEqual({
      'dev.gatehouse/provenance': [
        { ...own, id: 1 },
        {
          source: 'one:t',
          retrieved_at: 'x',
          confidence: 'derived',
          transformation: 'pages were put together',
          attested_by: 'gatehouse',
        },
      ],
      'dev.gatehouse/rate_limit': { remaining: 7 },
    })
  })
})
