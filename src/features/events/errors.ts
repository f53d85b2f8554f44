/** The errors of the events extension, with the codes of SEP-3415. */
import { GatewayError } from '../../core/error.ts'

/** The codes by name. */
const codes = {
  NotFound: -32023,
  Forbidden: -32024,
  ResourceExhausted: -32025,
  Unsupported: -32026,
  CallbackEndpointError: -32027,
} as const

/** An unknown type of events, or one that the caller may not have; or an unknown subscription. */
export function notFound(kind: 'event' | 'subscription'): GatewayError {
  if (kind === 'subscription') {
    return new GatewayError('RESOURCE_NOT_FOUND', 'There is no such subscription.', {
      rpc: codes.NotFound,
      data: { kind },
    })
  }
  return new GatewayError('RESOURCE_NOT_FOUND', 'There are no events of this name.', {
    rpc: codes.NotFound,
    field: 'name',
    data: { kind },
    suggestion: 'List the events to see the available ones.',
  })
}

/** The caller may not do this, whatever its arguments. `reason` is one word. */
export function forbidden(reason: string, message: string): GatewayError {
  return new GatewayError('PERMISSION_DENIED', message, {
    rpc: codes.Forbidden,
    isUserActionable: true,
    data: { reason },
  })
}

/** The caller has too many of something, of which it may have `max`. */
export function resourceExhausted(limit: string, max: number, message: string): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', message, {
    rpc: codes.ResourceExhausted,
    data: { limit, max },
  })
}

/** The gateway does not support a value of a feature. */
export function unsupported(feature: string, value: string, message: string): GatewayError {
  return new GatewayError('INVALID_INPUT', message, {
    rpc: codes.Unsupported,
    field: feature,
    data: { feature, value: value.slice(0, 100) },
  })
}

/** A type has another schema, which what its clients know does not fit: they list the types and subscribe again. */
export function schemaChanged(feature: 'inputSchema' | 'payloadSchema'): GatewayError {
  return new GatewayError('INVALID_INPUT', `The ${feature} of these events has changed.`, {
    rpc: codes.Unsupported,
    data: { feature, reason: 'schema_changed' },
    suggestion: 'List the events, and subscribe again.',
  })
}

/** The receiver of a webhook cannot be used. `reason` is a category, without anything that the receiver wrote. */
export function callbackEndpointError(reason: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `The webhook receiver cannot be used: ${reason}.`, {
    rpc: codes.CallbackEndpointError,
    field: 'delivery.url',
    data: { reason },
    suggestion:
      'Check that the URL is reachable from the internet and echoes the challenge of a verification.',
  })
}
