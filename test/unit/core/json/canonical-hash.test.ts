import { hash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalHash } from '../../../../src/core/json/canonical-hash.ts'
import { canonical } from '../../../../src/core/json/json.ts'

describe('the hash of a value', () => {
  it('is that of its canonical text', () => {
    const text = fc.string({ unit: 'binary' })
    fc.assert(
      fc.property(fc.jsonValue({ stringUnit: 'binary' }), text, (value, name) => {
        const whole = { value, [name]: [value, undefined, name], none: undefined }
        expect(canonicalHash(whole)).toBe(hash('sha256', canonical(whole)))
      }),
    )
  })

  it('is the same for long texts, wherever pairs of surrogates and lone ones are', () => {
    for (const filler of [0, 1, 2, 65_534, 65_535, 65_536, 131_071])
      for (const end of ['😀', '\ud83d', '\ude00', '"\\', '\ud83d😀'])
        for (const value of [`${'x'.repeat(filler)}${end.repeat(40_000)}`])
          expect(canonicalHash({ value })).toBe(hash('sha256', canonical({ value })))
  })
})
