import { expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'

function problemsOf(match: string): readonly string[] {
  const text = JSON.stringify({
    upstreams: { one: { url: 'https://one.example', errors: [{ match, code: 'CONFLICT' }] } },
  })
  try {
    loadSettings(text, { file: 'f', env: {} })
    return []
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ path, message }) => `${path}: ${message}`)
    throw error
  }
}

test('error rules are patterns', () => {
  expect(problemsOf('quota (exceeded|gone)')).toEqual([])
})

test.each([
  ['(', 'must be a regular expression: unterminated group, at character 1'],
  ['a|*b', 'must be a regular expression: nothing to repeat, at character 3'],
  ['(?=x)y', 'cannot be matched in bounded time: it has a lookahead, at character 1'],
  ['(x)\\1', 'cannot be matched in bounded time: it has a backreference, at character 4'],
])('the error rule %s is refused', (match, message) => {
  expect(problemsOf(match)).toEqual([`upstreams.one.errors[0].match: ${message}`])
})
