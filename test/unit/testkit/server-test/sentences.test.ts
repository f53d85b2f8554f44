import { describe, expect, it } from 'vitest'
import { sentenceOf } from '../../../../src/testkit/server-test/results.ts'

describe('the sentence of a check', () => {
  it.each([
    ['tool/a', 'tool/a/valid/required', 'a answers a call with only the required arguments.'],
    ['tool/a', 'tool/a/valid/unit=celsius', 'a answers a call with unit=celsius.'],
    ['tool/a', 'tool/a/wrong-type/city/null', 'a refuses null for city.'],
    ['tool/a', 'tool/a/wrong-type/city', 'a refuses a value of another type for city.'],
    ['tool/a', 'tool/a/boundary/days/above-maximum', 'a keeps to the limits that its schema sets for days.'],
    ['tool/a', 'tool/a/hostile/city/sql', 'a answers a hostile text in city, and does not execute it.'],
    ['tool/a/b', 'tool/a/b/survives', 'The server goes on after the calls of a/b.'],
    ['tool/a', 'tool/a/success', 'A valid call of a succeeds.'],
    [
      'list/tools',
      'list/tools/names',
      'Names of tools have 1 to 128 characters of A-Z, a-z, 0-9, "_", "-" and ".".',
    ],
    ['list/tools', 'list/tools/unique', 'Nothing is twice in the list of tools.'],
    ['resource/file:///a', 'resource/file:///a/read', 'The resource file:///a can be read.'],
    ['protocol/ping', 'protocol/ping', 'The server answers ping.'],
    ['malformed/text', 'malformed/text/refused', 'A malformed message (text) is refused or ignored.'],
    ['constructor', '__proto__', 'The server passes the check __proto__.'],
    ['constructor/a', 'constructor/a/b', 'The server passes the check constructor/a/b.'],
  ])('%s: %s', (subject, id, sentence) => {
    expect(sentenceOf(subject, id)).toBe(sentence)
  })
})
