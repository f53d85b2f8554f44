// Compares the removal of reserved member names from JSON text with a plain traversal of the value.
import { runInNewContext } from 'node:vm'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isObject } from '../../../src/core/json/json.ts'
import { isReservedKey, withoutReservedKeys } from '../../../src/protocol/meta-keys.ts'

const cleaned = (text: string): string => withoutReservedKeys(text).text

/** A traversal of the value: the result to which the cut text must parse. */
function walked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(walked)
  if (!isObject(value)) return value
  const kept = Object.entries(value).filter(([key]) => !isReservedKey(key))
  return Object.fromEntries(
    kept.map(([key, each]) => [key, key === 'structuredContent' ? each : walked(each)]),
  )
}

const names = fc.constantFrom('dev.gatehouse/approval', 'dev.gatehouse/error', 'dev.gatehouse', 'a', '_meta')
// `JSON.parse` of Node.js 24.21 confuses a key with escapes with an earlier one that ends in a backslash: there is none here, and
// those of other test files are in another realm.
const { parse } = runInNewContext('JSON') as typeof JSON
const plain = fc.string().map((text) => text.replaceAll('\\', '/'))
const key = fc.oneof(names, plain, fc.constantFrom('structuredContent', '"', '}{', ',', '\n'))
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom('text', 1.5, null, '{"dev.gatehouse/x":1}'),
    fc.array(tie('tree'), { maxLength: 3 }),
    fc.dictionary(key, tie('tree'), { maxKeys: 4 }),
  ),
}))

describe('reserved members in a message of a server', () => {
  test('exactly the reserved members of the gateway are removed', () => {
    fc.assert(
      fc.property(tree, fc.constantFrom(0, 1, '\t'), (value, space) => {
        const text = JSON.stringify(value, null, space)
        expect(parse(cleaned(text))).toEqual(walked(parse(text)))
      }),
      { numRuns: 500 },
    )
  })

  test('all other JSON text is preserved', () => {
    const own = '"dev.gatehouse/approval": {"by": ["root"]}'
    expect(cleaned(`{"a": 1.0, ${own} , "n": 9007199254740993}`)).toBe('{"a": 1.0, "n": 9007199254740993}')
    expect(cleaned(`{ ${own}, "a": 1e2 }`)).toBe('{  "a": 1e2 }')
    expect(cleaned(`{"a":[{${own}},{"b":1,${own}}]}`)).toBe('{"a":[{},{"b":1}]}')
    const untouched =
      '{"text":"dev.gatehouse/approval","list":["dev.gatehouse/error"],"dev.gatehousekeeper/a":1}'
    expect(cleaned(untouched)).toBe(untouched)
  })

  test.each([
    String.raw`{"\u0064ev.gatehouse/approval":1}`,
    String.raw`{"dev\u002Egatehouse/approval":1}`,
    String.raw`{"dev.gatehouse\/approval":1}`,
    String.raw`{"dev.gatehous\u0065\u002fapproval":1}`,
    '{"dev.gatehouse.sub/approval":1}',
  ])('reserved members are removed in every spelling of their names: %s', (text) => {
    expect(JSON.parse(cleaned(`{"_meta":${text},"id":1}`))).toEqual({ _meta: {}, id: 1 })
  })

  test('removed names are reported, limited in number and length', () => {
    const many = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`dev.gatehouse/${at}`, at]))
    const { removed } = withoutReservedKeys(
      JSON.stringify({ ...many, [`dev.gatehouse/${'x'.repeat(500)}`]: 1 }),
    )
    expect(removed).toHaveLength(10)
    expect(Math.max(...removed.map(({ length }) => length))).toBeLessThanOrEqual(80)
  })

  test('names that a trusted server may use are kept', () => {
    const text = '{"_meta":{"dev.gatehouse/receipt":"r","dev.gatehouse/approval":"a"}}'
    const { text: left } = withoutReservedKeys(text, (each) => each === 'dev.gatehouse/receipt')
    expect(left).toBe('{"_meta":{"dev.gatehouse/receipt":"r"}}')
  })

  test('a message is scanned in one pass for any nesting and number of members', () => {
    const nested = `${'{"a":['.repeat(200_000)}{"dev.gatehouse/x":1}${']}'.repeat(200_000)}`
    const wide = `[${Array.from({ length: 200_000 }, () => '{"a":1,"dev.gatehouse/x":1}').join(',')}]`
    const began = performance.now()
    expect(cleaned(nested)).not.toContain('gatehouse')
    expect(cleaned(wide)).not.toContain('gatehouse')
    expect(performance.now() - began).toBeLessThan(5000)
  })

  test('text that is not JSON is unchanged', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, other) => {
        expect(typeof cleaned(`${one}"dev.gatehouse/x":${other}`)).toBe('string')
      }),
    )
  })
})
