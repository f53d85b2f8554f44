import type { Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { anonymous } from '../core/principal.ts'
import { newRequestId } from '../core/request-id.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { method } from '../wire/methods.ts'
import { latestLegacy } from '../wire/revisions.ts'

/** What a server answered. */
export type Answer =
  | { readonly result: Payload; readonly error?: undefined }
  | { readonly error: GatewayError; readonly result?: undefined }

/** Asks a server something. Never throws. */
export type Ask = (method: string, params?: Readonly<Record<string, unknown>>) => Promise<Answer>

/** How long one answer may take, in milliseconds. */
const PATIENCE = 10_000

/** Asks one server through its handler, as a client that can not be asked anything. */
export function asker(handle: Handler, { name: upstream }: UpstreamSettings): Ask {
  return async (name, fields = {}) => {
    const { nameIn } = method(name)
    const subject = nameIn === undefined ? undefined : fields[nameIn]
    const controller = new AbortController()
    const late = new GatewayError('OPERATION_TIMEOUT', `It did not answer within ${PATIENCE / 1000} seconds.`)
    const timer = setTimeout(() => controller.abort(late), PATIENCE)
    try {
      const outcome = await handle({
        requestId: newRequestId(),
        method: name,
        params: Payload.of(fields),
        target: { method: name, upstream, ...(typeof subject === 'string' && { name: subject }) },
        principal: anonymous,
        client: { era: 'legacy', revision: latestLegacy.name, capabilities: {}, isMute: true },
        meta: {},
        state: {},
        signal: controller.signal,
        abort: (reason) => controller.abort(reason),
        facts: new Map(),
        emit: () => undefined,
      })
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
