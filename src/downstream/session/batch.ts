/** JSON-RPC batches, which exist only in 2025-03-26. */
import { GatewayError } from '../../core/error.ts'
import { type Batch, parseMessage, type JsonRpcRequest } from '../../protocol/jsonrpc.ts'
import { drainOf, type ResponseSink } from './response-sink.ts'
import type { ClientSession } from './session.ts'

/** The maximum number of messages in a batch. */
const MAX_BATCH = 100

/**
 * Handles the notifications and responses of a batch, and returns its requests, which the caller serves with
 * `serveBatch`. @throws INVALID_REQUEST, PARSE_ERROR; then none of the messages was handled
 */
export function takeBatch(session: ClientSession, { texts }: Batch): JsonRpcRequest[] {
  if (!session.takesBatches) throw invalid('batches are not part of this protocol version')
  if (texts.length === 0 || texts.length > MAX_BATCH)
    throw invalid(`a batch must have 1 to ${MAX_BATCH} messages`)
  const messages = texts.map((text) => [parseMessage(text), text] as const)
  const requests = messages.flatMap(([message]) => (message.kind === 'request' ? [message] : []))
  if (requests.some((each) => each.method === 'initialize'))
    throw invalid('initialize must not be in a batch')
  for (const [message, text] of messages) {
    if (message.kind === 'notification') session.notification(message)
    else if (message.kind === 'response') session.response(message, text)
  }
  return requests
}

/** Serves the requests of a batch concurrently; the responses are one array, or separate events if `isStream`. */
export async function serveBatch(
  session: ClientSession,
  requests: readonly JsonRpcRequest[],
  reply: ResponseSink & { readonly isStream: boolean },
): Promise<void> {
  const joined = joinReplies(reply, requests.length)
  await Promise.all(requests.map((request) => session.request(request, joined)))
}

function joinReplies(reply: ResponseSink & { readonly isStream: boolean }, count: number): ResponseSink {
  const answers: string[] = []
  let left = count
  return {
    requestId: reply.requestId,
    principal: reply.principal,
    peer: reply.peer,
    trace: reply.trace,
    gatewayMetadata: reply.gatewayMetadata,
    emit: (message, mustArrive) => reply.emit(message, mustArrive),
    ...drainOf(reply),
    end: (message) => {
      if (message !== undefined) answers.push(message)
      if (--left > 0) return
      if (!reply.isStream) return reply.end(answers.length > 0 ? `[${answers.join(',')}]` : undefined)
      for (const answer of answers) reply.emit(answer)
      reply.end()
    },
  }
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `Invalid request: ${why}.`)
}
