import { GatewayError } from '../../core/error.ts'

/** How many scopes one request may name, and how long each may be. */
const MAX_ITEMS = 200
const MAX_LENGTH = 256

/** A list of scopes somebody sent, or nothing where it is absent. @throws INVALID_INPUT */
export function readStrings(value: unknown, name: string): readonly string[] | undefined {
  if (value === undefined) return undefined
  const isList = Array.isArray(value) && value.length <= MAX_ITEMS
  if (isList && value.every((each) => typeof each === 'string' && each.length <= MAX_LENGTH)) return value
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${name} must be a list of scopes.`, {
    field: name,
    reason: 'type',
  })
}
