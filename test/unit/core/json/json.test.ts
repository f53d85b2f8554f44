import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { canonical, editMembers, elements, members, readJson } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'

const object = fc.dictionary(
  fc.oneof(fc.string(), fc.constantFrom('a', '__proto__', '"\\', 'é\u2028')),
  fc.jsonValue(),
)
const indent = fc.constantFrom(0, 1, '\t')

describe('JSON text', () => {
  test('JSON text is split into the members that a parser finds', () => {
    fc.assert(
      fc.property(object, indent, (value, space) => {
        const text = JSON.stringify(value, null, space)
        const parsed: Record<string, unknown> = JSON.parse(text)
        const found = members(text)
        expect(found.map(({ key }) => key).toSorted()).toEqual(Object.keys(parsed).toSorted())
        for (const { key, valueStart, end } of found)
          expect(JSON.parse(text.slice(valueStart, end))).toEqual(parsed[key])
      }),
    )
  })

  test('JSON text is split into the elements that a parser finds', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), indent, (value, space) => {
        const text = JSON.stringify(value, null, space)
        expect(elements(text).map((each): unknown => JSON.parse(each))).toEqual(JSON.parse(text))
      }),
    )
  })

  test('an edit changes the value and preserves all other characters', () => {
    fc.assert(
      fc.property(
        object,
        fc.string(),
        fc.option(fc.jsonValue(), { nil: undefined }),
        indent,
        (value, key, edit, space) => {
          const text = JSON.stringify(value, null, space)
          const edited = editMembers(
            text,
            new Map([[key, edit === undefined ? undefined : JSON.stringify(edit)]]),
          )
          const entries = Object.entries(JSON.parse(text)).filter(([name]) => name !== key)
          const expected = Object.fromEntries(
            edit === undefined ? entries : [...entries, [key, JSON.parse(JSON.stringify(edit))]],
          )
          expect(JSON.parse(edited)).toEqual(expected)
          const others = members(text).filter((member) => member.key !== key)
          for (const { start, end } of others) expect(edited).toContain(text.slice(start, end))
        },
      ),
    )
  })

  test('deeply nested JSON is handled', () => {
    const deep = `{"a":${'['.repeat(50_000)}${']'.repeat(50_000)},"b":1}`
    expect(members(deep).map(({ key }) => key)).toEqual(['a', 'b'])
    expect(Payload.text(deep).with({ b: 2 }).text).toBe(`${deep.slice(0, -2)}2}`)
  })
})

describe('readJson', () => {
  const strict = (text: string): unknown => {
    try {
      return JSON.parse(text)
    } catch {
      return undefined
    }
  }

  test('readJson agrees with JSON.parse and returns undefined for other text', () => {
    const space = fc.constantFrom('', ' ', '\n', '\t\r\n ')
    const value = fc.jsonValue().map((each) => JSON.stringify(each))
    const part = fc.oneof(
      value,
      space,
      fc.string(),
      fc.constantFrom('{', '}', '[', ']', '"', '-', '1e5', ','),
    )
    const text = fc.oneof(
      fc.tuple(space, value, space).map((parts) => parts.join('')),
      fc.array(part, { maxLength: 4 }).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(text, (each) => {
        expect(readJson(each)).toEqual(strict(each))
      }),
    )
  })

  test.each(['', ' ', 'done', '-', '{"a":1}\n{"a":2}\n', '{"a":', '[1', '"a', 'nul', 'truest', '\u00a01'])(
    'readJson returns undefined for %j',
    (text) => expect(readJson(text)).toBeUndefined(),
  )

  test('readJson recognizes JSON lines without a thrown exception', () => {
    const parse = vi.spyOn(JSON, 'parse')
    expect(readJson('{"path":"a"}\n{"path":"b"}\n')).toBeUndefined()
    expect(parse).not.toHaveBeenCalled()
    parse.mockRestore()
  })
})

test('equal values have one canonical text regardless of key order', () => {
  fc.assert(
    fc.property(object, (value) => {
      const turned = Object.fromEntries(Object.entries(value).toReversed())
      expect(canonical(turned)).toBe(canonical(value))
    }),
  )
})
