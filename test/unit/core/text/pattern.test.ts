import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { compilePattern } from '../../../../src/core/text/pattern.ts'

/** Each with texts of which some match. */
const patterns: readonly (readonly [string, ...string[]])[] = [
  [String.raw`^\S+\s\S+$`, '山　川', 'a b', 'a\u00a0b', 'ab'],
  [
    String.raw`^\s$`,
    ...'\t\n\v\f\r \u0085\u00a0\u1680\u180e\u2003\u2028\u2029\u202f\u205f\u3000\ufeffa'.split(''),
  ],
  [String.raw`^\S$`, ...'\v\u0085\u00a0\u3000\ufeffaé'.split(''), '😀'],
  [String.raw`^[\s,]+$`, ', \u3000', 'a'],
  [String.raw`^[^\s,]+$`, 'é山', 'a\u3000', ','],
  [String.raw`^[\S]$`, '\u3000', '\ufeff', 'é', '😀'],
  [String.raw`^[^\S]$`, '\u3000', 'a'],
  [String.raw`^[\s\S]+$`, 'a\n\u3000😀', ''],
  [String.raw`^\d$`, '7', '٣', '７'],
  [String.raw`^[^\D]$`, '7', '٣'],
  [String.raw`^\w+$`, 'aZ_9', 'é', '山', 'ſ'],
  [String.raw`^[\W]+$`, 'é山-', 'a'],
  [String.raw`\bé`, 'aé', ' é', 'é'],
  [String.raw`^.$`, 'a', '😀', '\n', '\r', '\u2028', '\u2029', '\u0085'],
  [String.raw`^[.]$`, '.', 'a'],
  [String.raw`^[^]$`, '\n', '😀', ''],
  ['^[]$|^b$', '', 'a', 'b'],
  [String.raw`^[\b]$`, '\b', 'b'],
  [String.raw`^a$`, 'a\n', 'a'],
  [String.raw`^\p{L}+$`, 'éß山', '1'],
  [String.raw`^\p{Letter}\P{Letter}$`, 'é1', 'éé'],
  [String.raw`^\p{gc=Lu}\p{General_Category=Lowercase_Letter}$`, 'Éé', 'éÉ'],
  [String.raw`^\p{Script=Greek}\p{sc=Cyrl}\p{scx=Han}$`, 'αя山', 'aя山'],
  [String.raw`^[\p{Script=Latin}\p{M}' -]+$`, "d'Évry", 'Ω'],
  [String.raw`^[^\p{Alphabetic}\s]$`, '1', '\u3000', 'é'],
  [String.raw`^[\P{ASCII}]$`, 'é', 'a'],
  [String.raw`^\p{Emoji}\p{White_Space}\p{ID_Start}\p{Cn}$`, '😀\u3000a\u0378', '😀a'],
  [String.raw`^\P{Any}|\p{Any}{2}$`, 'ab', ''],
  [String.raw`^\u{1F600}\ud83d\ude00$`, '😀😀', '😀'],
  [String.raw`^[\ud83d\ude00-\u{1F64F}]$`, '😀', '🙏', 'a'],
  [String.raw`^\u00e9\x41\cA\0\/\-$`.replace(String.raw`\-`, '-'), 'éA\u0001\0/-', 'x'],
  [String.raw`^(?<n>a)b|[[]$`, 'ab', '[', 'b'],
  [String.raw`^[\^a\]\\-]+$`, '^a]\\-', 'b'],
  [String.raw`^[^[]+\s$`, 'a ', 'a\u3000', '[ ', 'as'],
  [String.raw`^[a[]x&&y[^[^]$`, '[x&&ya', 'ax&&y^'],
  [String.raw`^(?:a|b)+?c{2,}$`, 'abcc', 'abc'],
]

describe('a pattern', () => {
  test.each(patterns)('%s matches what it matches in ECMA-262', (source, ...texts) => {
    const expected = texts.map((text) => RegExp(source, 'u').test(text))
    expect(new Set(expected).size).toBe(texts.length > 1 ? 2 : 1)
    expect(texts.map((text) => compilePattern(source)?.test(text, false))).toEqual(expected)
  })

  test('has the classes of ECMA-262 for any character', () => {
    const classes = String.raw`\s|\S|\d|\D|\w|\W|[\s]|[^\s]|[\S]|[^\S]|[\W\d]|.|\p{Zs}|[\p{Cc}\s]`.split('|')
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }),
        fc.constantFrom(...classes),
        (text, each) => {
          const source = `^${each}$`
          expect(compilePattern(source)?.test(text, false)).toBe(RegExp(source, 'u').test(text))
        },
      ),
    )
  })

  test.each([
    [String.raw`^a\-b\_\@\ \é$`, 'a-b_@ é'],
    [String.raw`^[\w-.]+$`, 'a-.b'],
    [String.raw`^[.-\w\@\&]+$`, 'a-.@&'],
    ['^{[a-z]+}$', '{ab}'],
    [String.raw`^\[ok]]$`, '[ok]]'],
  ])('%s, which is valid without the flag u alone, matches the same there: %s', (source, text) => {
    expect(() => RegExp(source, 'u')).toThrow(SyntaxError)
    expect(RegExp(source).test(text)).toBe(true)
    expect(compilePattern(source)?.test(text, false)).toBe(true)
    expect(compilePattern(source)?.test(`${text}~`, true)).toBe(false)
  })

  test.each(
    String.raw`^a\Z \A \h \z \Qa\E \R \pL \p{IsGreek} \x{41} \N{DIGIT} [[:alpha:]] [a-z&&[^b]] [a-z&&\d] a{,3} a++ (?>a) (?i)a (?P<n>a) ( *a [b-a] []a] [^]a] \1a`.split(
      ' ',
    ),
  )('%s of another dialect is not guessed at', (source) => {
    expect(() => compilePattern(source)).toThrow(SyntaxError)
  })

  test.each(['(?=a)b', '(?<!a)b', String.raw`(a)\1`, 'a{1,4000}', `${'a'.repeat(1001)}`])(
    '%s is valid, but cannot be matched in linear time',
    (source) => {
      expect(compilePattern(source)).toBeUndefined()
    },
  )

  test('ignores case as ECMA-262 does', () => {
    for (const [source, text] of [
      ['é', 'É'],
      ['k', '\u212a'],
      ['σ', 'ς'],
      [String.raw`^\p{Lu}$`, 'é'],
      ['i', 'İ'],
      ['[^x]', 'X'],
    ] as const)
      expect([source, compilePattern(source, { ignoreCase: true })?.test(text, false)]).toEqual([
        source,
        RegExp(source, 'iu').test(text),
      ])
  })
})
