import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isoTime } from '../../../../src/core/time/waiting.ts'

it('any time is formatted as by Date.toISOString, whatever was formatted before', () => {
  const property = fc.property(
    fc.array(fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 }), { minLength: 1 }),
    (times) => {
      for (const time of times) expect(isoTime(time)).toBe(new Date(time).toISOString())
    },
  )
  fc.assert(property)
  expect(() => isoTime(Number.NaN)).toThrow(RangeError)
  expect(isoTime(999)).toBe('1970-01-01T00:00:00.999Z')
})
