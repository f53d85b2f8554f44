import type { Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { method } from '../wire/methods.ts'
import { ownCall } from '../wire/own-call.ts'

/** What a server answered. */
export type Answer =
  | { readonly result: Payload; readonly error?: undefined }
  | { readonly error: GatewayError; readonly result?: undefined }

/** Asks a server something. Never throws. */
export type Ask = (method: string, params?: Readonly<Record<string, unknown>>) => Promise<Answer>

/** How long one answer may take, in milliseconds. */
const RESPONSE_TIMEOUT_MS = 10_000

/** Asks one server through its handler, as a client that can not be asked anything. */
export function asker(handle: Handler, { name: upstream }: UpstreamSettings): Ask {
  return async (name, fields = {}) => {
    const { nameIn } = method(name)
    const subject = nameIn === undefined ? undefined : fields[nameIn]
    const controller = new AbortController()
    const late = new GatewayError(
      'OPERATION_TIMEOUT',
      `It did not answer within ${RESPONSE_TIMEOUT_MS / 1000} seconds.`,
    )
    const timer = setTimeout(() => controller.abort(late), RESPONSE_TIMEOUT_MS)
    try {
      const call = ownCall({
        method: name,
        params: Payload.of(fields),
        target: { method: name, upstream, ...(typeof subject === 'string' && { name: subject }) },
        signal: controller.signal,
        abort: (reason) => controller.abort(reason),
      })
      const outcome = await handle({ ...call, client: { ...call.client, nonInteractive: true } })
      if (outcome.kind === 'result') return { result: outcome.result }
      return { error: new GatewayError('UPSTREAM_ERROR', 'It answered with a question.') }
    } catch (error) {
      return { error: controller.signal.aborted ? late : asGatewayError(error) }
    } finally {
      clearTimeout(timer)
    }
  }
}

/** An error as evidence. */
export function told({ rpc, message }: GatewayError): string {
  return `${rpc} ${message.slice(0, 120)}`
}
