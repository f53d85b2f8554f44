import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isObject } from '../../../src/core/json/json.ts'
import { Payload } from '../../../src/core/payload.ts'

const objects = fc.dictionary(fc.string(), fc.jsonValue())

describe('a payload', () => {
  it('a payload preserves its source text, whether or not it was parsed', () => {
    const property = fc.property(fc.jsonValue(), fc.boolean(), (value, isLookedAt) => {
      const text = JSON.stringify(value)
      const payload = Payload.text(text)
      if (isLookedAt) expect(payload.value).toEqual(JSON.parse(text))
      expect(payload.text).toBe(text)
    })
    fc.assert(property)
  })

  it('a payload has the same value from its text as from its edits', () => {
    const property = fc.property(objects, objects, fc.array(fc.string()), (base, set, removed) => {
      const edits = { ...set, ...Object.fromEntries(removed.map((key) => [key, undefined])) }
      const payload = Payload.text(JSON.stringify(base)).with(edits)
      expect(JSON.parse(payload.text)).toEqual(JSON.parse(JSON.stringify(payload.value)))
      expect(JSON.parse(payload.text)).toEqual(JSON.parse(JSON.stringify({ ...base, ...edits })))
    })
    fc.assert(property)
  })

  it('a payload preserves the characters of unedited members', () => {
    const text = '{"big":12345678901234567890, "one":1.0,"s":"\\u0041"}'
    expect(Payload.text(text).with({ more: true }).text).toBe(
      '{"big":12345678901234567890, "one":1.0,"s":"\\u0041","more":true}',
    )
    expect(Payload.text(text).with({ one: undefined }).text).toBe(
      '{"big":12345678901234567890,"s":"\\u0041"}',
    )
  })

  it('a payload has its source text again after an edit is reverted', () => {
    const text = '{ "a": 1 }'
    expect(Payload.text(text).with({ b: 2 }).with({ b: undefined }).text).toBe(text)
  })

  it('a payload drops an emptied `_meta` and adds a filled one', () => {
    const payload = Payload.text('{"_meta":{"a":1},"b":2}')
    expect(payload.withMeta({ a: undefined }).value).toEqual({ b: 2 })
    expect(Payload.text('{}').withMeta({ a: 1 }).text).toBe('{"_meta":{"a":1}}')
  })

  it('a payload returns `_meta` members of any origin', () => {
    const property = fc.property(objects, objects, objects, fc.boolean(), (base, first, second, isParsed) => {
      const payload = Payload.text(JSON.stringify({ _meta: base }))
        .withMeta(first)
        .with({ b: 1 })
        .withMeta(second)
      if (isParsed) expect(payload.value).toBeDefined()
      const whole: Record<string, unknown> = { ...base, ...first, ...second }
      for (const key of Object.keys(whole))
        expect(JSON.stringify(payload.meta(key))).toBe(JSON.stringify(whole[key]))
    })
    fc.assert(property)
    expect(Payload.text('{"_meta":{"a":1}}').with({ _meta: undefined }).meta('a')).toBeUndefined()
    expect(
      Payload.text('{"_meta":{"a":1}}')
        .with({ _meta: { b: 2 } })
        .meta('b'),
    ).toBe(2)
    expect(Payload.text('{"_meta":[1]}').meta('0')).toBeUndefined()
    expect(Payload.of(7).meta('a')).toBeUndefined()
  })

  it('a payload returns members and elements with their source text', () => {
    const payload = Payload.text('{"list":[1.0, {"a":1e3}],"n":10000000000000000001}')
    expect(payload.at('n')?.text).toBe('10000000000000000001')
    expect(payload.at('list')?.items.map((each) => each.text)).toEqual(['1.0', '{"a":1e3}'])
    expect(payload.at('absent')).toBeUndefined()
  })

  it('a payload of a non-object has no fields and accepts edits', () => {
    expect(Payload.of(7).fields).toEqual({})
    expect(isObject(Payload.text('[1]').with({ a: 1 }).value)).toBe(true)
  })
})
