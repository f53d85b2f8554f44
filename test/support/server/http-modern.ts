import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomUUID } from 'node:crypto'
import { RpcError } from './call.ts'
import { bodyOf, headersOf, httpReply, refusalOf, refuse } from './http-reply.ts'
import { type Incoming, sort } from './incoming.ts'
import { objectAt } from './json.ts'
import { checkHeaders } from './modern-headers.ts'
import { receiveModern } from './modern.ts'
import { type Pace, pacing } from './pacing.ts'
import type { World } from './world.ts'

/** Serves 2026-07-28 over HTTP: one POST per request, nothing kept between them. */
export function modernHttp(world: World) {
  const { journal, options } = world
  const pace = pacing(options)
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const headers = headersOf(request)
    for (const name of ['mcp-session-id', 'last-event-id']) {
      if (headers[name] !== undefined) journal.violation(`${name} sent to ${options.revision}`)
    }
    if (request.method !== 'POST') {
      journal.record({ kind: request.method === 'DELETE' ? 'delete' : 'get', text: '', headers })
      journal.violation(`${request.method} sent to ${options.revision}`)
      return refuse(response, 405, new RpcError(-32000, 'Method not allowed'))
    }
    const incoming = sort(await bodyOf(request), headers, journal)
    const refusal = refusalOf(headers)
    if (refusal) {
      journal.violation(refusal.reason)
      return refuse(response, refusal.status, new RpcError(-32000, refusal.reason))
    }
    if (incoming.kind === 'request') return answerPost(world, pace, incoming, response)
    refuseOther(world, incoming, response)
  }
}

async function answerPost(
  world: World,
  pace: Pace,
  incoming: Extract<Incoming, { kind: 'request' }>,
  response: ServerResponse,
): Promise<void> {
  const { journal, options } = world
  const { id, method, params, headers } = incoming
  const claimed = objectAt(params, '_meta')['io.modelcontextprotocol/protocolVersion']
  const wrong = claimed === undefined ? undefined : checkHeaders(method, params, headers, world)
  if (wrong) {
    journal.violation(`${wrong.message} (${method})`)
    return refuse(response, 400, wrong, id)
  }
  const isJson = options.jsonOnly && method !== 'subscriptions/listen'
  const form = isJson ? 'json' : options.sseOnly ? 'sse' : 'auto'
  const controller = new AbortController()
  response.on('close', () => {
    if (response.writableFinished) return
    journal.record({ kind: 'cancelled', text: JSON.stringify(id), headers: {} })
    controller.abort()
  })
  const channel = pace(httpReply(response, { options, headers: {}, form, name: randomUUID() }))
  await receiveModern(world, incoming, channel, controller.signal)
}

function refuseOther(
  world: World,
  incoming: Exclude<Incoming, { kind: 'request' }>,
  response: ServerResponse,
): void {
  const { journal, options } = world
  if (incoming.kind === 'notification') {
    // Closing the response is how a request is cancelled over HTTP (2026-07-28 basic/utilities/cancellation).
    if (!incoming.method.startsWith('notifications/vendor')) {
      journal.violation(`${incoming.method} posted to ${options.revision}`)
    }
    response.writeHead(options.notificationStatus ?? 202).end(options.notificationBody)
    return
  }
  if (incoming.kind === 'response') {
    journal.violation(`a response sent to ${options.revision}`)
    return refuse(response, 400, new RpcError(-32600, 'A response is no request'))
  }
  if (Array.isArray(incoming.value)) journal.violation(`a batch sent to ${options.revision}`)
  refuse(response, 400, new RpcError(incoming.code, incoming.reason))
}
