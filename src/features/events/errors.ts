/**
 * The errors of the events extension, with the codes of SEP-3415, those of the design sketch that preceded it, which
 * deployed clients such as ChatGPT follow, and what the gateway makes of the errors of a server's own events. The gateway
 * uses the codes of SEP-3415; a client of the sketch gets the others.
 */
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { asObject } from '../../core/json/json.ts'

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

/** The error for an invalid parameter. */
export function invalid(field: string, why: string): GatewayError {
  const end = why.endsWith('.') ? '' : '.'
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${why}${end}`, {
    field,
    reason: 'invalid',
  })
}

/** The error for a field that events of a type do not have. */
export function unknownField(path: string, what: string, known: readonly string[], hint = ''): GatewayError {
  const names = known.length > 0 ? `These are known: ${known.join(', ')}.` : 'It has none.'
  return invalid(path, `${what}. ${names.slice(0, 1000)}${hint}`)
}

// The two columns of codes

/** The error codes of SEP-3415, or those of the sketch. */
export type Column = 'sep' | 'sketch'

/** The codes of SEP-3415, and the distance to those of the sketch: -32023 is -32011 there, and so on to -32027. */
const FIRST_CODE = -32023
const LAST_CODE = -32027
const DISTANCE = 12

/** A code of either column in that of SEP-3415; other codes are not changed. */
function inSepColumn(code: number): number {
  const moved = code - DISTANCE
  return moved <= FIRST_CODE && moved >= LAST_CODE ? moved : code
}

/** Whether an error says that there is no such subscription. */
export function isUnknownSubscription({ rpc, extra }: GatewayError): boolean {
  return rpc === codes.NotFound && extra.data?.kind === 'subscription'
}

/** A failure with the code of a column. */
export function inColumn(error: GatewayError, column: Column): GatewayError {
  const { rpc } = error.extra
  const isOfExtension = rpc !== undefined && rpc <= FIRST_CODE && rpc >= LAST_CODE
  return isOfExtension && column === 'sketch' ? error.with({ rpc: rpc + DISTANCE }) : error
}

// The errors of servers

/** Codes after which the same subscription fails again, until something else changes. */
const finalCodes: ReadonlySet<number> = new Set([-32601, -32602, -32023, -32024, -32025, -32026])

/** Whether an error of `errorOfServer` refuses or ends a subscription. */
export function isFinal({ rpc }: GatewayError): boolean {
  return finalCodes.has(rpc)
}

/** Whether the server cannot deliver to the webhook of the gateway. */
export function isCallbackFailure({ extra }: GatewayError): boolean {
  return extra.reason === CALLBACK_FAILED
}

const CALLBACK_FAILED = 'callback_failed'

/** What a request to a server failed with. Its words are replaced where its code says everything. */
export function errorOfServer(thrown: unknown): GatewayError {
  const error = asGatewayError(thrown)
  const { relayed } = error.extra
  return (relayed && knownError(relayed.fields.code, relayed.fields.data)) ?? error
}

/** The error with which a server ended a subscription. */
export function terminationOf(error: unknown): GatewayError {
  const { code, data } = asObject(error)
  return knownError(code, data) ?? forbidden('terminated', 'The server ended the subscription.')
}

function knownError(code: unknown, given: unknown): GatewayError | undefined {
  if (typeof code !== 'number') return undefined
  const data = asObject(given)
  switch (inSepColumn(code)) {
    case -32023:
      return notFound('event')
    case -32024:
      return forbidden(wordOf(data.reason) ?? 'refused', 'The server does not permit this subscription.')
    case -32025:
      return resourceExhausted(
        wordOf(data.limit) ?? 'subscriptions',
        typeof data.max === 'number' ? data.max : 0,
        'The server does not permit more subscriptions.',
      )
    case -32026:
      return unsupported(
        wordOf(data.feature) ?? 'subscription',
        wordOf(data.value) ?? '',
        'The server does not support this subscription.',
      )
    case -32027:
      return new GatewayError(
        'SERVER_UNAVAILABLE',
        `The server cannot deliver these events to the gateway: ${wordOf(data.reason) ?? 'failed'}.`,
        {
          reason: CALLBACK_FAILED,
          suggestion: 'Check that listen.public_url leads to the gateway.',
        },
      )
    default:
      return undefined
  }
}

/** A short name that a server sent; undefined for anything else. */
function wordOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^[\w.-]{1,64}$/.test(value) ? value : undefined
}
