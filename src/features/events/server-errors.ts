/** The errors of a server's own events, in either column of codes, as those of the gateway. */
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { forbidden, notFound, resourceExhausted, unsupported } from './errors.ts'
import { inSepColumn } from './error-columns.ts'

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
  const { code, data } = isObject(error) ? error : {}
  return knownError(code, data) ?? forbidden('terminated', 'The server ended the subscription.')
}

function knownError(code: unknown, given: unknown): GatewayError | undefined {
  if (typeof code !== 'number') return undefined
  const data = isObject(given) ? given : {}
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
