import { expect } from 'vitest'
import type { Reply } from './client/options.ts'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

const categories = ['transient', 'permanent', 'auth_required', 'invalid_input', 'rate_limited']

/** The error of a reply, which must have all that every error of the gateway has; gives its code. */
export function codeOf(reply: Pick<Reply, 'error' | 'result' | 'text'>): string {
  const told = objectAt(objectAt(reply.result, '_meta'), 'dev.gatehouse/error')
  const error = reply.error ?? { code: 0, message: told['message'], data: told }
  const isTold = reply.error !== undefined || reply.result?.['isError'] === true
  expect(isTold, `an error instead of ${reply.text.slice(0, 300)}`).toBe(true)
  return structured(error)
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

/** Checks that an HTTP answer refuses with this status and this error. */
export function expectError(
  status: number | undefined,
  text: string,
  expected: { readonly status: number; readonly code: number; readonly error: string },
): void {
  const message = parse(text)
  const error = isObject(message) && isObject(message['error']) ? message['error'] : {}
  expect({ status, message }).toMatchObject({ status: expected.status, message: { jsonrpc: '2.0' } })
  expect(error['code']).toBe(expected.code)
  // A server's own refusal of a method is relayed as it came.
  if (isObject(error['data'])) expect(structured(error)).toBe(expected.error)
}
