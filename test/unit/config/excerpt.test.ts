import { expect, test } from 'vitest'
import { excerptOf } from '../../../src/config/excerpt.ts'

const at = (line: number, column: number) => ({ file: 'f', line, column, path: '', message: '' })

test.each([
  ['a line of its own', 'a: 1\n  b: 2\n', at(2, 3), '    2 |   b: 2\n      |   ^\n'],
  ['a value', 'listen:\n  port: much\n', at(2, 9), '    2 |   port: much\n      |         ^\n'],
  ['no line', 'a: 1\n', at(0, 0), ''],
  ['a line after the end', 'a: 1\n', at(9, 1), ''],
  ['an empty line', '\na: 1\n', at(1, 1), ''],
])('an excerpt shows %s', (_what, text, problem, shown) => {
  expect(excerptOf(problem, text)).toBe(shown)
})

const secret = 'hunter2hunter2'
test.each([
  ['a variable', `upstreams:\n  a:\n    env:\n      FOO: ${secret}\n`, at(4, 12)],
  ['its key', `upstreams:\n  a:\n    env:\n      FOO: ${secret}\n`, at(4, 7)],
  ['a missing quote', `upstreams:\n  a:\n    headers:\n      X: "${secret}\n`, at(4, 10)],
  ['a token', `upstreams:\n  a:\n    token: ${secret}\n`, at(3, 12)],
  ['a key of a token', `upstreams:\n  a:\n    token: ${secret}\n`, at(3, 5)],
  ['auth', `auth:\n  basic:\n    users:\n      - { name: x, password_hash: ${secret} }\n`, at(4, 9)],
  ['one line', `{"upstreams":{"a":{"env":{"FOO":"${secret}"},"url":"x"}}}`, at(1, 46)],
  ['the line before one line', `{"upstreams":{"a":{"url":"x","env":{"FOO":"${secret}"}}}}`, at(1, 20)],
  ['an argument', `upstreams:\n  a: run --token=${secret}\n`, at(2, 6)],
  ['a misspelt key', `upstreams:\n  a:\n    tokn: ${secret}\n`, at(3, 5)],
  ['a list under a token', `{"upstreams":{"a":{"token":["${secret}"],"oauth":{}}}}`, at(1, 28)],
  ['the line before a list', `{"upstreams":{"a":{"token":["${secret}"],"url":7}}}`, at(1, 48)],
  ['a line of a list', `upstreams:\n  a: { command: "true }\n   - ${secret}: [\n`, at(3, 4)],
  ['an item of a list', `upstreams:\n  a:\n    command:\n      - ${secret}\n`, at(4, 9)],
  ['multi-line text', `upstreams:\n  a:\n    about: |\n      ${secret}\n`, at(4, 7)],
  ['a connection', `store: redis://user:${secret}@host\n`, at(1, 8)],
])('an excerpt never shows a secret: %s', (_what, text, problem) => {
  expect(excerptOf(problem, text)).toMatch(/\^\n$/)
  expect(excerptOf(problem, text)).not.toContain(secret)
})

test.each([
  ['undo: delete_issue(id=$.result.id, x=1)', at(1, 7)],
  ['{ timeout: 30 sec, type: http }', at(1, 12)],
  ['confirm: no', at(1, 10)],
  ['command: "npx -y some-server --port 80"', at(1, 10)],
  ['tiemout: 30s', at(1, 1)],
  ['url: htp://example.com/mcp', at(1, 6)],
  ['{"upstreams":{"a":{"url":7}}}', at(1, 26)],
  ["pattern: '(a|b'", at(1, 10)],
  ['match: [1, 2', at(1, 8)],
])('an excerpt shows the wrong value: %s', (line, problem) => {
  const [shown, caret = ''] = excerptOf(problem, `${line}\n`).split('\n')
  expect(shown).toBe(`    1 | ${line}`)
  expect(caret.indexOf('^')).toBe('    1 | '.length + problem.column - 1)
})

test.each([
  ['an option and its value', `a: run --api-key ${'plainwords'} x\n`, at(1, 4)],
  ['an option in a list', `command: [run, --password, plainwords]\n`, at(1, 10)],
  ['a header of an option', `a: run -H plainwords\n`, at(1, 4)],
  ['a variable of a command', `a: docker run -e API_TOKEN=plainwords\n`, at(1, 4)],
  ['a misspelt parent', `haeders:\n  X: plainwords\n`, at(2, 6)],
  ['a query', `url: https://a.example/mcp?api_key=plainwords\n`, at(1, 6)],
  ['items below their key', `users:\n- { name: x, password_hash: plainwords }\n`, at(2, 3)],
  ['a comment', `port: 0x # plainwords\n`, at(1, 7)],
  ['a quoted key', `"client_secret": "plainwords"\n`, at(1, 18)],
])('an excerpt hides %s', (_what, text, problem) => {
  expect(excerptOf(problem, text)).toMatch(/\^\n$/)
  expect(excerptOf(problem, text)).not.toContain('plainwords')
})

test.each([
  ['braces', 'a: { url: https://x, headers: {\n  X: hunter2, Y: 1 }, z: 1 }\n', at(2, 21)],
  ['JSON without indentation', '{\n"env": {\n"FOO": "hunter2"\n}\n}', at(3, 8)],
])('an excerpt shows no value under a secret key that an earlier line opened: %s', (_what, text, problem) => {
  expect(excerptOf(problem, text)).toMatch(/\^\n$/)
  expect(excerptOf(problem, text)).not.toContain('hunter2')
})
