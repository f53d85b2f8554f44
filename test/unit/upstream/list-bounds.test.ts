import { describe, expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { boundedPage, type Cut, MAX_LIST_ENTRIES } from '../../../src/upstream/tool-index.ts'

function cutOf(tools: readonly unknown[]): { cut: Cut | undefined; page: Payload; given: Payload } {
  let cut: Cut | undefined
  const given = Payload.text(JSON.stringify({ tools, nextCursor: 'x' }))
  const page = boundedPage(given, 'tools', (each) => (cut = each))
  return { cut, page, given }
}

const tool = (name: string, description = 'd') => ({ name, description })

describe('limits on lists', () => {
  it('a list within the limits is the same object', () => {
    const { cut, page, given } = cutOf(Array.from({ length: MAX_LIST_ENTRIES }, (_, at) => tool(`t${at}`)))
    expect(cut).toBeUndefined()
    expect(page).toBe(given)
  })

  it('entries beyond the count are dropped, and the others keep their order and cursor', () => {
    const { cut, page } = cutOf(Array.from({ length: MAX_LIST_ENTRIES + 7 }, (_, at) => tool(`t${at}`)))
    expect(cut).toEqual({ entries: 7, oversized: 0 })
    expect(page.at('tools')?.items).toHaveLength(MAX_LIST_ENTRIES)
    expect(page.fields.nextCursor).toBe('x')
  })

  it('an oversized entry is dropped, and no other', () => {
    const { cut, page } = cutOf([tool('a'), tool('huge', 'x'.repeat(300_000)), tool('b')])
    expect(cut).toEqual({ entries: 1, oversized: 1 })
    expect(page.at('tools')?.items.map(({ fields }) => fields.name)).toEqual(['a', 'b'])
  })

  it('entries beyond the total size of a page are dropped', () => {
    const { cut, page } = cutOf(Array.from({ length: 60 }, (_, at) => tool(`t${at}`, 'x'.repeat(200_000))))
    expect(cut?.oversized).toBe(0)
    expect(page.text.length).toBeLessThan(9 * 1024 * 1024)
  })
})
