import { expect } from 'vitest'
import type { Reply } from './client/options.ts'
import { type Json, isObject } from './server/json.ts'

const categories = ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited']

/** The error of a reply, which must have all that every error of the gateway has; gives its code. */
export function codeOf(reply: Pick<Reply, 'error' | 'text'>): string {
  const { error } = reply
  expect(isObject(error), `an error instead of ${reply.text.slice(0, 300)}`).toBe(true)
  return structured(error ?? {})
}

/** The code of an error of the gateway, after a look at everything that goes with it. */
export function structured(error: Json): string {
  const data: unknown = error['data']
  expect(error).toMatchObject({ code: expect.any(Number), message: expect.stringMatching(/./) })
  expect(data).toMatchObject({ code: expect.stringMatching(/^[A-Z_]+$/), message: error['message'] })
  if (!isObject(data)) return ''
  expect(categories).toContain(data['category'])
  expect(data['user_actionable']).toBeTypeOf('boolean')
  if (data['category'] === 'transient') expect(data['retry_after_seconds']).toBeGreaterThanOrEqual(0)
  return String(data['code'])
}
