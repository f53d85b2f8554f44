import { expect, it } from 'vitest'
import { displayName, displayUri } from '../../../src/observability/ending.ts'

it.each([
  ['file:///a/b', 'file:///a/b'],
  ['db://app:pass@host/table?token=x', 'db://host/table?…'],
  ['ui://page#state', 'ui://page#…'],
  ['https://host/a@b', 'https://host/a@b'],
])('C063 the URI %s is shown as %s', (uri, expected) => {
  expect(displayUri(uri)).toBe(expected)
})

it('names that are not URIs are unchanged', () => {
  expect(displayName('tools/call', 'is_it_so?')).toBe('is_it_so?')
  expect(displayName('resources/read', 'a://b?c')).toBe('a://b?…')
  expect(displayName('resources/list', undefined)).toBeUndefined()
})
