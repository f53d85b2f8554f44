import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { about, collecting, idsIn, listener, paged, type PageOf, range, STREAM } from './bench.ts'

/** Pages with so many items each, numbered through. */
function pagesWith(sizes: readonly number[], failing: ReadonlySet<number> = new Set()): PageOf {
  return (cursor) => {
    const page = cursor === undefined ? 0 : Number(cursor)
    if (failing.has(page)) throw new Error('down')
    const start = sizes.slice(0, page).reduce((sum, size) => sum + size, 0)
    const items = range(start + (sizes[page] ?? 0), start).map((id) => ({ id }))
    return { items, nextCursor: page + 1 < sizes.length ? String(page + 1) : null }
  }
}

const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 12 })

describe('any pages', () => {
  it('are collected in parts of any length without a loss or a repetition, and chunks are numbered through', async () => {
    await fc.assert(
      fc.asyncProperty(
        sizes,
        fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1 }),
        async (each, parts) => {
          const make = collecting({ server: paged(pagesWith(each)).server })
          const { emit, chunks } = listener()
          const ids: unknown[] = []
          let token: string | undefined
          for (let part = 0; ; part++) {
            const request = {
              max_pages: parts[part % parts.length],
              ...(token !== undefined && { checkpoint_token: token }),
            }
            const outcome = await make({ [STREAM]: request, progressToken: 'p' }, { emit })
            ids.push(...idsIn(outcome))
            token = about(outcome).checkpoint_token
            if (token === undefined) break
          }
          const total = each.reduce((sum, size) => sum + size, 0)
          expect(ids).toEqual(range(total))
          expect(chunks().map(({ sequence }) => sequence)).toEqual(range(each.length))
          expect(chunks().flatMap(({ data }) => data?.items.map(({ id }) => id))).toEqual(range(total))
        },
      ),
      { numRuns: 100 },
    )
  })

  it('of which one fails give those before it, and its token the rest', async () => {
    await fc.assert(
      fc.asyncProperty(sizes, fc.nat(11), async (each, at) => {
        fc.pre(at > 0 && at < each.length)
        const broken = await collecting({ server: paged(pagesWith(each, new Set([at]))).server })()
        expect(about(broken)).toMatchObject({ pages: at, failed_page: at + 1 })
        const request = { checkpoint_token: about(broken).checkpoint_token }
        const rest = await collecting({ server: paged(pagesWith(each)).server })({ [STREAM]: request })
        expect([...idsIn(broken), ...idsIn(rest)]).toEqual(range(each.reduce((sum, size) => sum + size, 0)))
      }),
      { numRuns: 100 },
    )
  })
})
