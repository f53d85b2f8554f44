import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'

const secret = new Secret('hunter2')

test('a secret gives its value only when asked', () => {
  expect(secret.reveal()).toBe('hunter2')
})

test.each([
  ['a template', `${secret.toString()}`],
  ['String', String(secret)],
  ['JSON', JSON.stringify({ secret })],
  ['inspect', inspect({ secret }, { depth: 5, showHidden: true })],
  ['inspect without customs', inspect(secret, { customInspect: false, showHidden: true })],
  ['its own keys', Object.entries(secret).join()],
])('a secret turned into text by %s does not show', (_way, text) => {
  expect(text).not.toContain('hunter2')
})
