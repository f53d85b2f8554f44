import type { Handler } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Payload } from '../core/payload.ts'
import { gatewayMetadataOf } from '../wire/extensions.ts'
import { lift } from '../wire/lift.ts'
import { latestModern } from '../wire/revisions.ts'
import { headerTrace } from '../wire/trace-context.ts'
import type { HttpContext } from './exchange.ts'

/** What is asked of the gateway itself. */
interface Asked {
  readonly method: string
  readonly params: Payload
}

/** Asks the gateway itself for what a request over plain HTTP is about. @throws what its answer throws */
export async function askOwn(
  { incoming, outgoing, upstream, principal, requestId }: HttpContext,
  { method, params }: Asked,
  handle: Handler,
): Promise<Payload> {
  const controller = new AbortController()
  outgoing.on('close', () => {
    if (!outgoing.writableFinished)
      controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
  })
  const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
  const { headers } = incoming
  const around = {
    requestId,
    trace: headerTrace(headers),
    gatewayMetadata: gatewayMetadataOf(headers),
    upstream,
  }
  const call = lift(
    { kind: 'request', id: '0', method, params },
    { ...around, client, principal, controller, emit: () => undefined },
  )
  const outcome = await handle({ ...call, target: { ...call.target, isBuiltin: true } })
  if (outcome.kind === 'input_required')
    throw new GatewayError('SERVER_ERROR', 'There is nobody to ask here.')
  return outcome.result
}
