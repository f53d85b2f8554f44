/** Converts a message to a `Call`: target, meta, trace, state. Also creates the gateway's own calls. */
import type {
  ClientStream,
  InputResponse,
  InputResponses,
  Call,
  Client,
  Notification,
  Target,
} from '../core/call.ts'
import { type ClientPeer, type RateLimitReporter, peerSlot, rateLimitSlot } from '../core/exchange.ts'
import { newRequestId, self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { type Principal, anonymous } from '../core/principal.ts'
import { type AnswerDelivery, deliverySlot, type Slots, retainSlot } from '../core/slot.ts'
import type { JsonRpcNotification, JsonRpcRequest } from './jsonrpc.ts'
import { type GatewayMetadata, noMeta, withGatewayMetadata } from './meta-keys.ts'
import { method } from './methods.ts'
import { latestLegacy } from '../core/revisions.ts'
import { type TraceContext, withTrace } from './trace-context.ts'

/** What a transport knows of a request. */
export interface RequestFacts {
  /** Identifies the request in logs and errors. */
  readonly requestId: string
  /** The connection it came on, over HTTP. */
  readonly peer?: ClientPeer | undefined
  /** The trace context its transport carried. */
  readonly trace?: TraceContext | undefined
  /** Values for features that its transport carried. */
  readonly gatewayMetadata?: GatewayMetadata | undefined
  /** The caller with its present rights, where they can change. */
  readonly presentCaller?: Call['presentCaller'] | undefined
}

interface CallContext extends RequestFacts {
  /** The server in the client's URL; absent if the URL is that of all servers. */
  readonly upstream?: string | undefined
  readonly client: Client
  readonly principal: Principal
  readonly controller: AbortController
  /** Keeps the call from ending with its request. */
  readonly retain?: (() => void) | undefined
  /** What becomes of the answer. */
  readonly delivery?: AnswerDelivery | undefined
  readonly rateLimitReporter?: RateLimitReporter | undefined
  readonly stream?: ClientStream | undefined
  emit(note: Notification): void
  /** Resolves once the client has read what was emitted. */
  drained?(): Promise<void>
}

/** A client's message as a call. */
export function lift(message: JsonRpcRequest | JsonRpcNotification, context: CallContext): Call {
  const { params } = message
  const meta = params.fields._meta
  return {
    requestId: context.requestId,
    method: message.method,
    params,
    target: targetOf(message, context.upstream),
    principal: context.principal,
    client: context.client,
    meta: withGatewayMetadata(
      withTrace(isObject(meta) ? meta : noMeta, context.trace),
      context.gatewayMetadata,
    ),
    requestState: {},
    signal: context.controller.signal,
    abort: (reason) => context.controller.abort(reason),
    ...(message.kind === 'request' && { rpcId: message.id }),
    logFields: new Map(),
    emit: context.emit,
    ...(context.drained && { drained: context.drained }),
    ...(context.presentCaller && { presentCaller: context.presentCaller }),
    ...(context.stream && { stream: context.stream }),
    slots: slotsOf(context),
  }
}

function slotsOf({ peer, rateLimitReporter, retain, delivery }: CallContext): Slots | undefined {
  let slots: Slots | undefined
  if (peer) slots = peerSlot.put(peer, slots)
  if (rateLimitReporter) slots = rateLimitSlot.put(rateLimitReporter, slots)
  if (delivery) slots = deliverySlot.put(delivery, slots)
  return retain ? retainSlot.put(retain, slots) : slots
}

/** The input responses a 2026-07-28 client sends. */
export function readInputResponses(params: Payload): InputResponses | undefined {
  const responses = params.at('inputResponses')
  if (!responses) return undefined
  const answers: Record<string, InputResponse> = {}
  for (const key of Object.keys(responses.fields)) {
    const result = responses.at(key)
    if (result) answers[key] = { result }
  }
  return answers
}

function targetOf(message: JsonRpcRequest | JsonRpcNotification, upstream: string | undefined): Target {
  const { nameIn } = method(message.method)
  const name = nameIn === undefined ? undefined : message.params.fields[nameIn]
  return {
    method: message.method,
    ...(upstream !== undefined && { upstream }),
    ...(typeof name === 'string' && { name }),
  }
}

/** A call of the gateway itself, with a client without capabilities: by default `server/discover` of all servers. */
export function ownCall(given: Partial<Call> = {}): Call {
  const controller = new AbortController()
  return {
    requestId: newRequestId(),
    method: 'server/discover',
    params: Payload.of({}),
    target: { method: 'server/discover' },
    principal: anonymous,
    client: { era: 'legacy', revision: latestLegacy.name, capabilities: {}, info: self },
    meta: {},
    requestState: {},
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    logFields: new Map(),
    emit: () => undefined,
    ...given,
  }
}
