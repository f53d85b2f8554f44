import { describe, expect, it } from 'vitest'
import { readOptions } from '../../bench/options.ts'

describe('the options of a benchmark', () => {
  it('compare with several commits, each named by an option of its own', () => {
    expect(readOptions([])?.compare).toEqual([])
    expect(readOptions(['--compare', 'v0.3.0', '--compare', '555c833c'])?.compare).toEqual([
      'v0.3.0',
      '555c833c',
    ])
  })

  it('fail on a missed budget and pin processes, unless they say otherwise', () => {
    expect(readOptions([])).toMatchObject({ fail: true, pin: true })
    expect(readOptions(['--no-fail', '--no-pin'])).toMatchObject({ fail: false, pin: false })
  })

  it('have counts that are positive numbers', () => {
    expect(readOptions(['--rounds', '9'])?.rounds).toBe(9)
    for (const bad of ['0', '-1', 'many', '']) {
      expect(() => readOptions([`--rounds=${bad}`])).toThrow('--rounds must be a positive number')
    }
  })

  it('are none where only the usage is asked for', () => {
    expect(readOptions(['--help'])).toBeUndefined()
  })
})
