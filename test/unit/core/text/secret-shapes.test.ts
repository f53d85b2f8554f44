import { expect, it } from 'vitest'
import { excerpt, withoutSecrets } from '../../../../src/core/text/redact.ts'

it.each([
  ['Cookie: session=abc; theme=dark', 'Cookie: [redacted]'],
  ['{"set-cookie":"sid=abc"}', '{"set-cookie":"[redacted]"}'],
  ['the cookie: missing', 'the cookie: missing'],
  ['token: expired', 'token: expired'],
  ['api_key=abc', 'api_key=[redacted]'],
])('C182 redaction of %j gives %j', (text, expected) => {
  expect(withoutSecrets(text)).toBe(expected)
})

it('an excerpt ends between words, so that it never contains half a secret', () => {
  expect(excerpt('short')).toBe('short')
  expect(excerpt(`${'a '.repeat(95)}canary-0123456789abcdef`)).toBe(`${'a '.repeat(95)}…`)
  expect(excerpt('x'.repeat(300))).toBe('…')
})
