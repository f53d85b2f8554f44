/** Ids of transactions and steps as callers write them. */
import { GatewayError } from '../../core/error.ts'

/** How long an id may be, in characters. */
export const MAX_ID_LENGTH = 128

/** An id a client chose. @throws INVALID_INPUT */
export function readId(value: unknown, field: string): string {
  // Half a surrogate pair has no form in UTF-8.
  const isGood =
    typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH && !/\p{C}/u.test(value)
  if (isGood) return value
  throw new GatewayError(
    'INVALID_INPUT',
    `Invalid params: ${field} must be a text of 1 to ${MAX_ID_LENGTH} characters, without control characters.`,
    { field, reason: 'shape' },
  )
}
