/** Serves one request of a 2026-07-28 client, over any transport: decrypts its request state, and encrypts the next. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, GatewayError, isCancelled } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import type { Headers } from '../protocol/headers.ts'
import {
  encodeErrorObject,
  encodeNotification,
  encodeResult,
  type JsonRpcRequest,
} from '../protocol/jsonrpc.ts'
import { lift, readInputResponses } from '../protocol/lift.ts'
import { isListening } from '../protocol/methods.ts'
import { modernError, modernResult, readClient } from '../protocol/modern.ts'
import { lowerNote } from '../protocol/projection.ts'
import { latestModern } from '../core/revisions.ts'
import type { AnswerDelivery } from '../core/slot.ts'
import { type RequestStateCodec, bindingOf } from '../protocol/request-state.ts'
import { drainOf, ProgressThrottle, type ResponseSink } from './session/response-sink.ts'

interface Options {
  readonly handle: Handler
  readonly seal: RequestStateCodec
  readonly upstream: string | undefined
  readonly principal: Principal
  /** The HTTP headers, which must match the request; absent on other transports. */
  readonly headers?: Headers
  /** The client of the connection, if the transport has only one. */
  readonly session?: string
  /** Aborted when the client cancels the request. */
  readonly controller: AbortController
  /** Keeps the call running when the client gives the request up. */
  readonly retain?: () => void
  /** What becomes of the answer. */
  readonly delivery?: AnswerDelivery
  /** Checks the call before it is made. */
  check?(call: Call): Call | Promise<Call>
  /** The other processes that share the store; absent where no call can rely on them. */
  readonly others?: OtherPlaces | undefined
}

/** The processes that may have what a call relies on. */
interface OtherPlaces {
  /** The process that has it; undefined if any can make the call. */
  placeOf(call: Call): Promise<string | undefined> | undefined
  /** Has the request answered by another process; false if that one is gone. */
  forward(process: string): Promise<boolean>
}

/** Serves one request of 2026-07-28. @throws only errors from before the call is made */
export async function serveStateless(
  request: JsonRpcRequest,
  reply: ResponseSink,
  options: Options,
): Promise<void> {
  const { handle, seal, upstream, principal, headers, session, controller } = options
  const { signal } = controller
  const client = { ...readClient(request, headers), ...(session !== undefined && { session }) }
  const isLasting = isListening(request.method)
  const id = Payload.text(request.id)
  const pace = new ProgressThrottle((each) => {
    const note = lowerNote(each, latestModern)
    if (!note) return
    const params = isLasting
      ? (note.params ?? Payload.of({})).withMeta({ [metaKeys.subscription]: id })
      : note.params
    reply.emit(encodeNotification(note.method, params), note.mustArrive)
  })
  const { emit } = pace
  const lifted = lift(request, {
    ...reply.request,
    upstream,
    client,
    principal,
    controller,
    retain: options.retain,
    delivery: request.method === 'tools/call' ? options.delivery : undefined,
    rateLimitReporter: reply,
    emit,
    ...drainOf(reply),
  })
  const checked = options.check?.(lifted) ?? lifted
  const unopened = checked instanceof Promise ? await checked : checked
  const { others } = options
  const place = others && placeOf(unopened, seal, others)
  const process = place instanceof Promise ? await place : place
  if (process !== undefined && (await others?.forward(process))) return
  const call = withState(unopened, seal)
  try {
    const outcome = await handle(call)
    pace.end()
    reply.end(encodeResult(request.id, resultOf(call, outcome, isLasting ? id : undefined, seal)))
  } catch (error) {
    if (isCancelled(signal)) reply.end()
    else {
      // The subscription only sees the abort, not the reason.
      const failure = asGatewayError(isLasting && signal.aborted ? signal.reason : error)
      reply.refuse?.(failure)
      const object = modernError(failure, reply.request.requestId)
      reply.end(encodeErrorObject(request.id, object), object.fields.code)
    }
  } finally {
    pace.stop()
  }
}

function resultOf(
  call: Call,
  outcome: Outcome,
  subscription: Payload | undefined,
  seal: RequestStateCodec,
): Payload {
  const result = modernResult(call, outcome, (state) => seal.close(state, bindingOf(call)))
  return subscription ? result.withMeta({ [metaKeys.subscription]: subscription }) : result
}

/** The process in which the first part of a call ran, or that has its context. Nearly no call has one. */
function placeOf(
  call: Call,
  seal: RequestStateCodec,
  others: OtherPlaces,
): string | Promise<string | undefined> | undefined {
  const { requestState } = call.params.fields
  if (typeof requestState === 'string') return seal.processOf(requestState, bindingOf(call))
  return others.placeOf(call)
}

/** Restores the request state of a repeated call. @throws STATE_INVALID, STATE_EXPIRED */
function withState(call: Call, seal: RequestStateCodec): Call {
  const answers = readInputResponses(call.params)
  const { requestState } = call.params.fields
  if (requestState === undefined) return answers ? { ...call, inputResponses: answers } : call
  if (typeof requestState !== 'string') {
    throw new GatewayError('STATE_INVALID', 'Invalid params: requestState must be a string.')
  }
  return { ...call, inputResponses: answers ?? {}, requestState: seal.open(requestState, bindingOf(call)) }
}
