import { describe, expect, it } from 'vitest'
import {
  declaresPages,
  pageArguments,
  type PageReading,
  readLaterPage,
  readPage,
  mentionsPages,
} from '../../../../src/core/judgement/pages.ts'
import type { Json } from '../../../support/server/json.ts'

const text = { type: 'string' }
const whole = { type: 'integer' }

function inputs(properties: Json) {
  return pageArguments({ inputSchema: { type: 'object', properties } })
}

function read(properties: Json, value: unknown, given: Json = {}): PageReading | undefined {
  return readPage(value, given, inputs(properties))
}

const items = [{ id: 1 }, { id: 2 }]

describe('the arguments that select a page', () => {
  it.each([
    ['cursor', 'cursor'],
    ['page_token', 'cursor'],
    ['pageToken', 'cursor'],
    ['nextToken', 'cursor'],
    ['after', 'cursor'],
    ['startCursor', 'cursor'],
    ['continuation-token', 'cursor'],
    ['page', 'number'],
    ['pageNumber', 'number'],
    ['offset', 'offset'],
  ])('%s is one of the kind %s', (name, kind) => {
    expect(inputs({ [name]: text })).toMatchObject([{ name, kind }])
  })

  it('other arguments are none, nor is a point in time', () => {
    expect(inputs({ query: text, limit: whole, per_page: whole, pages: whole, token: text })).toEqual([])
    expect(inputs({ after: { type: 'string', format: 'date-time' } })).toEqual([])
    expect(inputs({ after: { type: 'string', description: 'Only messages after this date.' } })).toEqual([])
    expect(inputs({ after: { type: 'string', description: 'The cursor of the last page' } })).toHaveLength(1)
    expect(pageArguments({})).toEqual([])
    expect(pageArguments({ inputSchema: { properties: 'none' } })).toEqual([])
  })

  it('a cursor comes before a page number, and that before an offset', () => {
    expect(inputs({ offset: whole, page: whole, after: text }).map(({ kind }) => kind)).toEqual([
      'cursor',
      'number',
      'offset',
    ])
  })
})

describe('the next page', () => {
  it.each<[string, Json, unknown, Json, unknown]>([
    ['nextCursor', { cursor: text }, { items, nextCursor: 'b' }, {}, 'b'],
    ['next_page_token', { page_token: text }, { files: items, next_page_token: 'b' }, {}, 'b'],
    [
      'response_metadata',
      { cursor: text },
      { messages: items, has_more: true, response_metadata: { next_cursor: 'b' } },
      {},
      'b',
    ],
    [
      'pageInfo',
      { after: text },
      { issues: { nodes: items, pageInfo: { hasNextPage: true, endCursor: 'b' } } },
      {},
      'b',
    ],
    [
      'page_info',
      { after: text },
      { nodes: items, page_info: { has_next_page: true, end_cursor: 'b' } },
      {},
      'b',
    ],
    ['paging.next.after', { after: text }, { results: items, paging: { next: { after: 'b' } } }, {}, 'b'],
    ['a cursor that is a number', { cursor: text }, { items, next_cursor: 7 }, {}, '7'],
    ['a number as text', { cursor: whole }, { items, next_cursor: '7' }, {}, 7],
    ['next_page', { page: whole }, { items, next_page: 3 }, { page: 2 }, 3],
    ['has_more', { page: whole }, { items, has_more: true }, { page: 2 }, 3],
    ['has_more on the first page', { page: whole }, { items, has_more: true }, {}, 2],
    [
      'has_more with a default',
      { page: { type: 'integer', minimum: 0, default: 0 } },
      { items, has_more: true },
      {},
      1,
    ],
    ['total_pages', { page: whole }, { items, page: 2, total_pages: 3 }, {}, 3],
    ['is_last', { page: whole }, { values: items, is_last: false }, { page: 1 }, 2],
    ['next_offset', { offset: whole }, { items, next_offset: 20 }, {}, 20],
    ['an offset and has_more', { offset: whole }, { items, has_more: true }, { offset: 4 }, 6],
  ])('%s says what it is', (...[, properties, value, given, expected]) => {
    const [argument] = Object.keys(properties)
    expect(read(properties, value, given)?.next).toEqual({ argument, value: expected })
  })

  it.each<[string, Json, unknown]>([
    ['no cursor', { cursor: text }, { items }],
    ['null', { cursor: text }, { items, nextCursor: null }],
    ['an empty cursor', { cursor: text }, { items, next_cursor: '' }],
    [
      'an end cursor without a next page',
      { after: text },
      { nodes: items, pageInfo: { hasNextPage: false, endCursor: 'b' } },
    ],
    ['has_more: false', { page: whole }, { items, has_more: false }],
    ['the last page number', { page: whole }, { items, page: 3, total_pages: 3 }],
    ['next_page: null', { page: whole }, { items, next_page: null }],
  ])('%s says that there is none', (_name, properties, value) => {
    expect(read(properties, value)).toMatchObject({ path: expect.any(Array) })
    expect(read(properties, value)?.next).toBeUndefined()
    expect(read(properties, value)?.isOpen).toBeUndefined()
  })

  it('a page number counts only if the result says whether there is another page', () => {
    expect(read({ page: whole, per_page: whole }, { items })).toBeUndefined()
    expect(read({ page: whole }, { items, total: 90 })).toBeUndefined()
    expect(read({ offset: whole }, { items, total: 90 })).toBeUndefined()
  })

  it('more pages without a way to request them are reported as open', () => {
    expect(read({ cursor: text }, { data: items, has_more: true })).toEqual({ path: ['data'], isOpen: true })
    expect(read({ page: whole }, { items, nextCursor: 'b' })).toEqual({ path: ['items'], isOpen: true })
    expect(read({ page: { type: 'integer', minimum: 0 } }, { items, has_more: true })).toMatchObject({
      isOpen: true,
    })
    expect(read({ page: whole }, { items, next_page: 'https://example.com/?page=2' })).toMatchObject({
      isOpen: true,
    })
  })

  it('is not read from the items, nor from lists', () => {
    const edges = [{ node: {}, cursor: 'x' }]
    expect(read({ after: text }, { edges, pageInfo: { hasNextPage: false } })?.next).toBeUndefined()
  })
})

describe('the items of a page', () => {
  it.each<[unknown, readonly string[]]>([
    [{ items, nextCursor: 'b' }, ['items']],
    [{ issues: items, nextCursor: 'b' }, ['issues']],
    [{ columns: ['id'], rows: items, nextCursor: 'b' }, ['rows']],
    [{ columns: ['id'], people: items, nextCursor: 'b' }, ['people']],
    [{ data: { issues: { nodes: items, pageInfo: { endCursor: 'b' } } } }, ['data', 'issues', 'nodes']],
    [{ response: { messages: items }, next_cursor: 'b' }, ['response', 'messages']],
  ])('%j has them at %j', (value, path) => {
    expect(read({ cursor: text }, value)).toMatchObject({ path })
  })

  it('a result whose items are not clear is no page', () => {
    expect(read({ cursor: text }, { users: items, groups: items, nextCursor: 'b' })).toBeUndefined()
    expect(read({ cursor: text }, { total: 4, nextCursor: 'b' })).toBeUndefined()
    for (const value of [null, 'text', 7, [], [1]]) expect(read({ cursor: text }, value)).toBeUndefined()
  })

  it('a later page has them where the first page has them, or is none', () => {
    const cursor = inputs({ cursor: text })
    expect(readLaterPage({ items: [] }, ['items'], {}, cursor)).toEqual({ path: ['items'] })
    expect(readLaterPage({ rows: items }, ['items'], {}, cursor)).toBeUndefined()
    expect(readLaterPage('over', ['items'], {}, cursor)).toBeUndefined()
  })
})

describe('whether a tool returns pages', () => {
  it('its output schema says so, at any place near the root', () => {
    const output = (properties: Json) => declaresPages({ outputSchema: { type: 'object', properties } })
    expect(output({ items: {}, nextCursor: text })).toBe(true)
    expect(
      output({ issues: { type: 'object', properties: { pageInfo: { properties: { hasNextPage: {} } } } } }),
    ).toBe(true)
    expect(output({ items: {}, total: whole })).toBe(false)
    expect(declaresPages({})).toBe(false)
  })

  it('a result says so', () => {
    expect(mentionsPages({ nextCursor: null })).toBe(true)
    expect(mentionsPages({ issues: { pageInfo: { hasNextPage: false } } })).toBe(true)
    expect(mentionsPages({ before: 'a', after: 'b' })).toBe(false)
    expect(mentionsPages({ page: 3 })).toBe(false)
  })
})
