import { describe, expect, it } from 'vitest'
import { chosen, shapesOf, targets } from '../../bench/targets.ts'

describe('the targets of a benchmark', () => {
  it('are measured together with what they are compared with', () => {
    expect(chosen(['default-stdio'])).toEqual(['line-mux', 'default-stdio'])
    expect(chosen(undefined)).toEqual(Object.keys(targets))
    expect(() => chosen(['none', 'nginx'])).toThrow('no target nginx: there are direct,bare,')
  })

  it('are compared with a bare program that meets the same load', () => {
    for (const [name, kind] of Object.entries(targets)) {
      const baseline = targets[kind.baseline ?? '']
      expect({ name, isCompared: baseline !== undefined }).toEqual({
        name,
        isCompared: kind.setup !== undefined,
      })
      if (baseline === undefined) continue
      expect({ name, client: baseline.client }).toEqual({ name, client: kind.client })
      const shapes = [...shapesOf(kind, false)]
      expect({ name, shapes: shapesOf(baseline, false) }).toEqual({
        name,
        shapes: expect.arrayContaining(shapes),
      })
    }
  })

  it('meet 16 and 64 calls at once, and large replies, but not in a quick run', () => {
    const kind = { title: '', client: 'legacy', server: 'legacy', hasLargeReplies: true } as const
    expect(shapesOf(kind, true)).toEqual([{ concurrency: 64, bytes: 1024 }])
    expect(shapesOf(kind, false).map((each) => Object.values(each))).toEqual([
      [16, 1024],
      [64, 1024],
      [16, 10_240],
      [16, 1_000_000],
    ])
  })
})
