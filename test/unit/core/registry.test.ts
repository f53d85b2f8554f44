import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Registry } from '../../../src/core/registry.ts'

describe('a registry', () => {
  it('holds what a map would hold, whatever is done to it', () => {
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
})
