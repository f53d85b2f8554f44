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

describe('bounds of lists', () => {
  it('leave a list within them as it came', () => {
    const { cut, page, given } = cutOf(Array.from({ length: MAX_LIST_ENTRIES }, (_, at) => tool(`t${at}`)))
    expect(cut).toBeUndefined()
    expect(page).toBe(given)
  })

  it('leave out what is over the count, and keep the rest in order with its cursor', () => {
    const { cut, page } = cutOf(Array.from({ length: MAX_LIST_ENTRIES + 7 }, (_, at) => tool(`t${at}`)))
    expect(cut).toEqual({ entries: 7, oversized: 0 })
    expect(page.at('tools')?.items).toHaveLength(MAX_LIST_ENTRIES)
    expect(page.fields.nextCursor).toBe('x')
  })

  it('leave out an entry that is too long, and none beside it', () => {
    const { cut, page } = cutOf([tool('a'), tool('huge', 'x'.repeat(300_000)), tool('b')])
    expect(cut).toEqual({ entries: 1, oversized: 1 })
    expect(page.at('tools')?.items.map(({ fields }) => fields.name)).toEqual(['a', 'b'])
  })

  it('leave out what makes a page too long in all', () => {
    const { cut, page } = cutOf(Array.from({ length: 60 }, (_, at) => tool(`t${at}`, 'x'.repeat(200_000))))
    expect(cut?.oversized).toBe(0)
    expect(page.text.length).toBeLessThan(9 * 1024 * 1024)
  })
})
