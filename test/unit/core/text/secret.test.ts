import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'

const secret = new Secret('hunter2')

test('a secret reveals its value only on request', () => {
  expect(secret.reveal()).toBe('hunter2')
})

test.each([
  ['a template', `${secret.toString()}`],
  ['String', String(secret)],
  ['JSON', JSON.stringify({ secret })],
  ['inspect', inspect({ secret }, { depth: 5, showHidden: true })],
  ['inspect without custom formatting', inspect(secret, { customInspect: false, showHidden: true })],
  ['its own keys', Object.entries(secret).join()],
])('a secret is masked when it is converted to text by %s', (_way, text) => {
  expect(text).not.toContain('hunter2')
})
