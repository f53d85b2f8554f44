import type { Handler } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { carriedBy } from '../wire/extensions.ts'
import { parseJson } from '../wire/jsonrpc.ts'
import { lift } from '../wire/lift.ts'
import { latestModern } from '../wire/revisions.ts'
import { headerTrace } from '../wire/trace-context.ts'
import type { Exchange } from './exchange.ts'

type Method = 'permissions/check' | 'permissions/negotiate'

/** Answers a request about permissions as the method of MCP with the same params does. @throws what that throws */
export async function servePermissions(
  { incoming, outgoing, upstream, principal, requestId }: Exchange,
  method: Method,
  params: Payload,
  handle: Handler,
): Promise<void> {
  const controller = new AbortController()
  outgoing.on('close', () => {
    if (!outgoing.writableFinished)
      controller.abort(new GatewayError('CANCELLED', 'The client closed the request.'))
  })
  const client = { era: 'modern', revision: latestModern.name, capabilities: {} } as const
  const { headers } = incoming
  const around = { requestId, trace: headerTrace(headers), carried: carriedBy(headers), upstream }
  const call = lift(
    { kind: 'request', id: '0', method, params },
    { ...around, client, principal, controller, emit: () => undefined },
  )
  const outcome = await handle({ ...call, target: { ...call.target, isOwn: true } })
  if (outcome.kind === 'ask') throw new GatewayError('SERVER_ERROR', 'There is nobody to ask here.')
  const type = { 'content-type': 'application/json', 'cache-control': 'no-store' }
  outgoing.writeHead(200, { ...type, 'x-request-id': requestId }).end(outcome.result.text)
}

/** What to check, from the query of a URL: `tool`, and `scopes_held` with spaces or commas between. */
export function queryParams(query: Readonly<Record<string, string>>): Payload {
  const { tool, scopes_held: held } = query
  return Payload.of({
    ...(tool !== undefined && { tool }),
    ...(held !== undefined && { scopes_held: held.split(/[\s,]+/).filter((scope) => scope !== '') }),
  })
}

/** What to check or negotiate, from the body of a request. @throws PARSE_ERROR, INVALID_INPUT */
export function bodyParams(text: string): Payload {
  const value = parseJson(text)
  if (isObject(value)) return Payload.text(text, value)
  throw new GatewayError('INVALID_INPUT', 'The body must be a JSON object.')
}
