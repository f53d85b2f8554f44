import { expect, test } from 'vitest'
import { anonymous, hasReachedShare } from '../../../src/core/principal.ts'

test.each([
  ['has less than a quarter', 9, 'one', false],
  ['has a quarter', 10, 'one', true],
  ['has nothing, while others have all', 40, 'other', false],
  ['is anonymous among many', 40, 'anonymous', false],
])('a principal that %s has reached its share: %i of %s', (_what, count, holder, expected) => {
  const holders = new Map(Array.from({ length: count }, (_, index) => [index, holder]))
  const principal = holder === 'anonymous' ? anonymous : { id: 'one' }
  expect(hasReachedShare(principal, holders, (each) => each, 40)).toBe(expected)
})
