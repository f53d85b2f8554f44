import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseJson } from '../../../../src/core/json/read.ts'
import { differenceLines, maskedDifference } from '../../../../src/core/text/difference.ts'

describe('the difference between two values', () => {
  test.each([
    [{ a: 1 }, { a: 1 }, []],
    ['one', 'two', ['- one', '+ two']],
    ['a\nb\nc\nd', 'a\nc\nx\nd', ['line 2:', '- b', '+ x']],
    [{ text: 'a\nb' }, { text: 'a\nb\nc' }, ['text, line 3:', '+ c']],
    [{ a: { b: [1, 2] } }, { a: { b: [1, 3, 4] } }, ['a.b[1]:', '- 2', '+ 3', 'a.b[2]:', '+ 4']],
    [{ a: null }, { b: 'x' }, ['a:', '- null', 'b:', '+ "x"']],
    [undefined, 'x', ['+ "x"']],
    [{ text: 'a\n"b"' }, {}, ['text:', '- a', '- "b"']],
    [{}, { constructor: 1, toString: null }, ['constructor:', '+ 1', 'toString:', '+ null']],
  ])('of %j and %j is named', (before, after, lines) => {
    expect(differenceLines(before, after)).toEqual(lines)
  })

  test('has all digits of numbers', () => {
    const [before, after] = ['{"id":9007199254740993}', '{"id":9007199254740992}'].map(parseJson)
    expect(differenceLines(before, after)).toEqual(['id:', '- 9007199254740993', '+ 9007199254740992'])
  })

  test('is bounded, however long the values are', () => {
    const lines = differenceLines('a\n'.repeat(50_000), 'b\n'.repeat(50_000))
    expect(lines).toHaveLength(41)
    expect(lines.at(-1)).toBe('… and 99961 more lines')
    expect(differenceLines('x'.repeat(100_000), 'y').every((line) => line.length <= 200)).toBe(true)
  })

  test('of texts has the lines that are not in both, in their order', () => {
    const text = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = differenceLines(before.join('\n'), after.join('\n'))
        const removed = lines.filter((line) => line.startsWith('- ')).length
        const added = lines.filter((line) => line.startsWith('+ ')).length
        expect(before.length - removed).toBe(after.length - added)
        expect(lines.length === 0).toBe(before.join('\n') === after.join('\n'))
      }),
    )
  })
})

describe('the difference between two values that are not shown as they are', () => {
  const hidden = 'Lines that look the same differ in what is masked.'

  test.each([
    ['equal', { a: 'x' }, { a: '***' }, { a: 'x' }, { a: '***' }, []],
    ['moved', 'x\nb', '***\nb', 'b\nx', 'b\n***', ['line 1:', '- ***', '+ ***']],
    ['of one line', 'id x', 'id ***', 'id y', 'id ***', [hidden, '- id ***', '+ id ***']],
    ['with another number of lines', 'x\ny\nz', '***\nz', 'q\nz', 'q\nz', ['- ***', '- z', '+ q', '+ z']],
    [
      'masked as a whole',
      { k: { x: 1 } },
      { k: '***' },
      { k: { x: 2 } },
      { k: '***' },
      [hidden, 'k:', '- "***"', '+ "***"'],
    ],
    ['with masked names', { x: 1 }, { '***': 1 }, { x: 2 }, { '***': 2 }, ['- {"***":1}', '+ {"***":2}']],
    [
      'left out',
      { a: 'x', b: 1 },
      { b: 1 },
      { a: 'y', b: 1 },
      { a: 'y', b: 1 },
      ['- {"b":1}', '+ {"a":"y","b":1}'],
    ],
    ['a text that was masked before', 'x', '***', '***', '***', [hidden, '- ***', '+ ***']],
  ])('has only what is shown: %s', (...[, before, shownBefore, after, shownAfter, lines]) => {
    const [old, now] = [
      { real: before, shown: shownBefore },
      { real: after, shown: shownAfter },
    ]
    expect(maskedDifference(old, now)).toEqual(lines)
  })

  test('says which *** is the text that a call writes', () => {
    const written = { real: 'id *** b', shown: 'id *** b', isWritten: true } as const
    const [note, ...lines] = maskedDifference({ real: 'id x a', shown: 'id *** a' }, written)
    expect(note).toMatch(/^\*\*\* after - stands for a secret.* \*\*\* after \+ is this text itself/)
    expect(lines).toEqual(['- id *** a', '+ id *** b'])
  })
})
