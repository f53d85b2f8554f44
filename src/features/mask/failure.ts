import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { beginMasking } from './masking.ts'
import type { Rules } from './rules.ts'
import { maskMessage } from './shape.ts'

/** A failure without what is masked in its texts, the server's own error included. */
export function maskFailure(thrown: unknown, rules: Rules, uri: unknown): unknown {
  if (!(thrown instanceof GatewayError)) return thrown
  const masking = beginMasking(rules)
  const message = masking.text(thrown.message)
  const { suggestion, details, data, relayed, body, ...extra } = thrown.extra
  const masked = (value: unknown): unknown => maskMessage(value, masking, uri)
  const words = {
    ...(suggestion !== undefined && { suggestion: masking.text(suggestion) }),
    ...(body !== undefined && { body: masking.text(body) }),
    ...(details !== undefined && { details: objectOf(masked(details)) }),
    ...(data !== undefined && { data: objectOf(masked(data)) }),
    ...(relayed && {
      relayed: relayed.with({
        message: masked(relayed.fields.message),
        ...(relayed.fields.data !== undefined && { data: masked(relayed.fields.data) }),
      }),
    }),
  }
  return masking.count === 0 ? thrown : new GatewayError(thrown.code, message, { ...extra, ...words })
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}
