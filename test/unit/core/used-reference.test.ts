// Places of references in arguments: each one leads to one value, and its text to one place.
import { describe, expect, it } from 'vitest'
import { follow } from '../../../src/core/json/path.ts'
import { changedAt, comparableArguments, placeText } from '../../../src/core/used-reference.ts'
import { Payload } from '../../../src/core/payload.ts'

describe('a place', () => {
  const given = {
    a: { b: 1 },
    'a.b': 2,
    paths: ['x'],
    'paths[0]': 'y',
    '': { '': 3 },
    ['__proto__']: { a: 4 },
  }

  it.each([
    [['a', 'b'], 1, 'a.b'],
    [['a.b'], 2, '["a.b"]'],
    [['paths', 0], 'x', 'paths[0]'],
    [['paths[0]'], 'y', '["paths[0]"]'],
    [['', ''], 3, '[""][""]'],
    [['__proto__', 'a'], 4, '__proto__.a'],
    [[], given, ''],
    [['paths', '0'], undefined, 'paths.0'],
    [['toString'], undefined, 'toString'],
  ])('%j leads to one value', (place, value, text) => {
    expect(follow(given, place)).toEqual(value)
    expect(placeText(place)).toBe(text)
    if (value === undefined) expect(changedAt(given, place, () => 'new')).toEqual(given)
    else
      expect(
        follow(
          changedAt(given, place, () => 'new'),
          place,
        ),
      ).toBe('new')
  })

  it('is replaced by the hash of its data alone, in arguments to compare calls by', () => {
    const used = {
      place: ['paths[0]'],
      path: '["paths[0]"]',
      written: 'ref://one?as=url',
      isOutside: true as const,
      id: 'one',
      server: 'one',
      createdAt: 0,
      name: 'data',
      type: 'text/plain',
      size: 1,
      sha256: 'hash',
    }
    expect(
      comparableArguments(
        { paths: ['/etc'], 'paths[0]': 'https://x' },
        { used: [used], written: Payload.of({}) },
      ),
    ).toEqual({ paths: ['/etc'], 'paths[0]': { sha256: 'hash', part: '' } })
  })
})
