import { expect, test } from 'vitest'
import { parseWords } from '../../../src/cli/words.ts'

const known = { 'gateway-key': { type: 'string' }, json: { type: 'boolean' } } as const

test.each([
  '-fJOsp9yiMuTWWcbEtnYkfAgrHeCzZfuhl9lHXPHhPw',
  '--Osp9yiMuTWWcbEtnYkfAgrHeCzZfuhl9lHXPHhPwx',
  'k1',
])('a gateway key is accepted whatever character it begins with: %s', (key) => {
  const { values, positionals } = parseWords(['http://a.example/mcp', '--gateway-key', key, '--json'], known)
  expect({ ...values }).toEqual({ 'gateway-key': key, json: true })
  expect(positionals).toEqual(['http://a.example/mcp'])
})

test('an option after --gateway-key is not read as the key', () => {
  expect(() => parseWords(['--gateway-key', '--json'], known)).toThrow(
    "Option '--gateway-key' argument is ambiguous",
  )
})
