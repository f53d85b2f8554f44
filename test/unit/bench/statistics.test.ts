import { describe, expect, it } from 'vitest'
import { ratioOf, spread } from '../../bench/statistics.ts'

describe('a spread', () => {
  it('is the median and the quartiles, between two numbers where they fall there', () => {
    expect(spread([4, 1, 3, 2])).toEqual({ median: 2.5, low: 1.75, high: 3.25 })
    expect(spread([7])).toEqual({ median: 7, low: 7, high: 7 })
    expect(spread([])).toBeUndefined()
  })
})

const pair = (own: number, base: number) => ({ own, base })

describe('a ratio', () => {
  it('is the ratio of the medians of a launch, which one wild turn does not move', () => {
    const ratio = ratioOf([[pair(200, 100), pair(220, 110), pair(180, 90), pair(4000, 100), pair(200, 100)]])
    expect(ratio?.median).toBe(2)
  })

  it('is the median over launches, of which each counts once, however many turns it had', () => {
    const long = Array.from({ length: 50 }, () => pair(300, 100))
    expect(ratioOf([long, [pair(150, 100)], [pair(200, 100)]])?.median).toBe(2)
  })

  it('has an interval that is as wide as launches differ, and repeats', () => {
    const equal = Array.from({ length: 5 }, () => [pair(150, 100), pair(151, 100), pair(149, 100)])
    const unlike = [1.2, 1.4, 1.5, 1.6, 1.8].map((factor) => [pair(100 * factor, 100)])
    const [narrow, wide] = [ratioOf(equal), ratioOf(unlike)]
    expect(narrow?.low).toBeGreaterThanOrEqual(1.49)
    expect(narrow?.high).toBeLessThanOrEqual(1.51)
    expect(wide).toMatchObject({ median: 1.5, low: 1.2, high: 1.8 })
    expect(ratioOf(unlike)).toEqual(wide)
  })

  it('is absent where there are no pairs, and ignores launches without one', () => {
    expect(ratioOf([])).toBeUndefined()
    expect(ratioOf([[]])).toBeUndefined()
    expect(ratioOf([[], [pair(3, 2)]])?.median).toBe(1.5)
  })
})
