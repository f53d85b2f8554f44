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
  ['(', 'must be a regular expression'],
  ['(?=x)y', 'must be short, without lookarounds and backreferences'],
  ['(x)\\1', 'must be short, without lookarounds and backreferences'],
])('the error rule %s is refused', (match, message) => {
  expect(problemsOf(match)).toEqual([`upstreams.one.errors[0].match: ${message}`])
})
