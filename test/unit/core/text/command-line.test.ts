import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { joinCommand, splitCommand } from '../../../../src/core/text/command-line.ts'

describe('splitCommand', () => {
  test.each([
    ['', []],
    ['  npx  -y\tx\n y ', ['npx', '-y', 'x', 'y']],
    [`a 'b c' "d e" f\\ g`, ['a', 'b c', 'd e', 'f g']],
    [`--name='b c'd"e"`, ['--name=b cde']],
    [`'' ""`, ['', '']],
    [`"a \\" \\\\ \\n"`, ['a " \\ \\n']],
    [`'a \\ "b"'`, ['a \\ "b"']],
    [`'a|b' "c;d" e\\&f`, ['a|b', 'c;d', 'e&f']],
    ['x ${A B:-c d} "${E}"', ['x', '${A B:-c d}', '${E}']],
    ['x \\${A} "\\${B}" $${C}', ['x', '$${A}', '$${B}', '$${C}']],
    ['cost $5 a=b #c *', ['cost', '$5', 'a=b', '#c', '*']],
    ['a \\\n b', ['a', 'b']],
    ['a\\\nb', ['ab']],
  ])('splitCommand splits %j', (line, words) => {
    expect(splitCommand(line)).toEqual({ words })
  })

  test.each([
    ['a | b', '`|` needs a shell'],
    ['a || b', '`||` needs a shell'],
    ['a && b', '`&&` needs a shell'],
    ['a & b', '`&` needs a shell'],
    ['a; b', '`;` needs a shell'],
    ['a > f', '`>` needs a shell'],
    ['a 2>>f', '`>>` needs a shell'],
    ['a <f', '`<` needs a shell'],
    ['a $(b)', '`$(` needs a shell'],
    ['a "$(b)"', '`$(` needs a shell'],
    ['a `b`', 'a backtick needs a shell'],
    ['a $HOME', 'with braces'],
    ['a ~/b', 'write ${HOME}'],
    ["a 'b", 'a single quote is not closed'],
    ['a "b', 'a double quote is not closed'],
    ['a \\', 'ends with a backslash'],
  ])('splitCommand refuses %j', (line, expected) => {
    const split = splitCommand(line)
    expect('problem' in split && split.problem).toContain(expected)
  })

  test('splitCommand inverts joinCommand for any words', () => {
    const word = fc.oneof(fc.string(), fc.stringMatching(/^[ \\"'$`|&;<>~{}a-z\n]*$/), fc.constant('${A_B}'))
    fc.assert(
      fc.property(fc.array(word), (words) => {
        expect(splitCommand(joinCommand(words))).toEqual({ words })
      }),
    )
  })

  test('splitCommand terminates for any text', () => {
    fc.assert(fc.property(fc.string(), (line) => typeof splitCommand(line) === 'object'))
  })
})
