import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Registry } from '../../../src/core/registry.ts'

describe('a registry', () => {
  it('a registry behaves like a map after any operations', () => {
    const step = fc.record({ key: fc.integer({ min: 0, max: 5 }), value: fc.option(fc.string()) })
    const property = fc.property(fc.array(step), (steps) => {
      const registry = new Registry<number, string>()
      const map = new Map<number, string>()
      for (const { key, value } of steps) {
        if (value === null) expect(registry.delete(key)).toBe(map.delete(key))
        else {
          registry.set(key, value)
          map.set(key, value)
        }
      }
      expect(registry.size).toBe(map.size)
      expect(registry.values().toSorted()).toEqual([...map.values()].toSorted())
      expect(registry.only).toBe(map.size === 1 ? [...map.values()][0] : undefined)
      for (let key = 0; key <= 5; key++) {
        expect(registry.get(key)).toBe(map.get(key))
        expect(registry.has(key)).toBe(map.has(key))
      }
    })
    fc.assert(property)
  })

  it.each([
    ['ascending, sparse numbers', fc.integer({ min: 0, max: 4 }).map((at) => at * 256 + (at % 2))],
    [
      'digits and other text',
      fc.constantFrom('0', '00', '256', '7', '"7"', '', 'a', '999999999', '1000000000'),
    ],
  ])('a registry behaves like a map with keys that are %s', (_name, keys) => {
    const step = fc.record({ key: keys as fc.Arbitrary<string | number>, value: fc.option(fc.integer()) })
    const property = fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const registry = new Registry<string | number, number>()
      const map = new Map<string | number, number>()
      for (const { key, value } of steps) {
        if (value === null) expect(registry.delete(key)).toBe(map.delete(key))
        else {
          registry.set(key, value)
          map.set(key, value)
        }
        expect(registry.size).toBe(map.size)
      }
      for (const { key } of steps) {
        expect(registry.get(key)).toBe(map.get(key))
        expect(registry.has(key)).toBe(map.has(key))
      }
      expect(registry.values().toSorted(ascending)).toEqual([...map.values()].toSorted(ascending))
    })
    fc.assert(property)
  })

  it('a registry returns values in numeric order of their keys', () => {
    const registry = new Registry<number, string>()
    for (const key of [300, 44, 2, 556]) registry.set(key, `${key}`)
    expect(registry.values()).toEqual(['2', '44', '300', '556'])
  })
})

function ascending(one: number, other: number): number {
  return one - other
}
