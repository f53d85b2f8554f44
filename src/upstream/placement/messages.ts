/**
 * Calls and their outcomes between processes, as lines of JSON: everything of a call that a server or its connection may depend
 * on. Params, results and errors of servers keep their text. What is missing stays with the process that has the client: its
 * streams, deadlines and credentials.
 *
 * Invariant: processes of several versions may share a store, so a line that cannot be read is ignored, and so is a member.
 */
import {
  type Call,
  type Client,
  type InputRequest,
  type InputResponse,
  type Notification,
  type Outcome,
  type Task,
} from '../../core/call.ts'
import { type Extra, GatewayError, isCategory, isErrorCode } from '../../core/error.ts'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { acceptsTaskSlot, type ClientConnection, connectionSlot, contextSlot } from '../../core/slot.ts'
import { noParams } from '../../protocol/jsonrpc.ts'
import { singleLine } from '../../protocol/lines.ts'
import type { ConnectionFacts } from './placement.ts'

/** A call as one text. */
export function encodeCall(call: Call): string {
  const { requestId, rpcId, method, params, target, client, meta, requestState, inputResponses } = call
  const own = connectionSlot.of(call)
  const watch = contextSlot.of(call)
  return Payload.of({
    requestId,
    rpcId,
    method,
    name: target.name,
    client,
    meta,
    requestState,
    inputResponses,
    internal: call.internal,
    acceptsTask: acceptsTaskSlot.of(call),
    connection: own && { id: own.id, isKnown: own.isKnown, mayReplace: own.mayReplace },
    context: watch && { expected: watch.expected?.id, mayReplace: watch.mayReplace },
  }).with({ params }).text
}

/** A call of another process, without what belongs to its request. */
export type ReceivedCall = Omit<Call, 'principal' | 'signal' | 'abort' | 'emit' | 'slots' | 'logFields'> & {
  readonly acceptsTask: boolean
  readonly connection?: Omit<ClientConnection, 'onOpen'> | undefined
  readonly context?: { readonly expected?: string | undefined; readonly mayReplace: boolean } | undefined
}

/** Reads a call for a server; undefined if it is none. */
export function readCall(text: string, upstream: string): ReceivedCall | undefined {
  const payload = payloadOf(text)
  const params = payload?.at('params')
  if (!payload || !params) return undefined
  const { requestId, rpcId, method, name, client, meta, requestState, internal } = payload.fields
  if (typeof requestId !== 'string' || typeof method !== 'string' || !isClient(client)) return undefined
  const { acceptsTask, connection, context } = payload.fields
  const inputResponses = payload.at('inputResponses')
  return {
    requestId,
    ...(typeof rpcId === 'string' && { rpcId }),
    method,
    params,
    target: { upstream, method, ...(typeof name === 'string' && { name }) },
    client,
    meta: asObject(meta),
    requestState: asObject(requestState),
    ...(inputResponses && { inputResponses: responsesOf(inputResponses) }),
    ...((internal === 'read' || internal === 'compensate') && { internal }),
    acceptsTask: acceptsTask === true,
    ...(isObject(connection) &&
      typeof connection.id === 'string' && {
        connection: {
          id: connection.id,
          isKnown: connection.isKnown === true,
          mayReplace: connection.mayReplace === true,
        },
      }),
    ...(isObject(context) && {
      context: {
        ...(typeof context.expected === 'string' && { expected: context.expected }),
        mayReplace: context.mayReplace === true,
      },
    }),
  }
}

function isClient(value: unknown): value is Client {
  return (
    isObject(value) &&
    (value.era === 'legacy' || value.era === 'modern') &&
    typeof value.revision === 'string' &&
    isObject(value.capabilities)
  )
}

function responsesOf(given: Payload): Record<string, InputResponse> {
  const responses: Record<string, InputResponse> = {}
  for (const key of Object.keys(given.fields)) {
    const result = given.at(key)?.at('result')
    const error = given.at(key)?.at('error')
    if (result) responses[key] = { result }
    else if (error) responses[key] = { error }
  }
  return responses
}

/** One line of an answer. */
export type Line =
  | { readonly kind: 'facts'; readonly facts: ConnectionFacts }
  | { readonly kind: 'note'; readonly note: Notification }
  /** A connection was opened for the client of the call. */
  | { readonly kind: 'opened'; readonly id: string; readonly isLost: boolean }
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'error'; readonly error: GatewayError }

export function encodeLine(line: Line): string {
  return singleLine(textOf(line))
}

function textOf(line: Line): string {
  const { kind } = line
  switch (kind) {
    case 'note': {
      const { method, params, mustArrive } = line.note
      return Payload.of({ kind, method, mustArrive }).with({
        params: params === noParams ? undefined : params,
      }).text
    }
    case 'outcome': {
      const { outcome } = line
      if (outcome.kind === 'input_required') return JSON.stringify({ ...outcome, withdrawn: undefined })
      if (outcome.kind === 'task') return JSON.stringify(outcome)
      const { result } = outcome
      return Payload.of({ kind: 'result', isRedacted: result.isRedacted }).with({ result }).text
    }
    case 'error': {
      const { code, message, extra } = line.error
      const { relayed, cause: _cause, ...rest } = extra
      return Payload.of({ kind, code, message, extra: rest }).with({ relayed }).text
    }
    default:
      return JSON.stringify(line)
  }
}

/** Reads a line; undefined if it says nothing that is known. */
export function readLine(text: string): Line | undefined {
  const payload = payloadOf(text)
  if (!payload) return undefined
  const { kind, facts, method, mustArrive, id, isLost } = payload.fields
  switch (kind) {
    case 'facts':
      return areFacts(facts) ? { kind, facts } : undefined
    case 'note': {
      const params = payload.at('params')
      if (typeof method !== 'string') return undefined
      const must = mustArrive === true ? ({ mustArrive } as const) : {}
      return { kind, note: { method, ...(params && { params }), ...must } }
    }
    case 'opened':
      return typeof id === 'string' ? { kind, id, isLost: isLost === true } : undefined
    case 'error':
      return { kind, error: errorOf(payload) }
    default: {
      const outcome = outcomeOf(payload)
      return outcome && { kind: 'outcome', outcome }
    }
  }
}

function areFacts(value: unknown): value is ConnectionFacts {
  if (!isObject(value)) return false
  const { era, revision, canAsk, context } = value
  const isContext =
    context === undefined ||
    (isObject(context) && typeof context.id === 'string' && typeof context.since === 'number')
  const isEra = era === 'legacy' || era === 'modern'
  return isEra && typeof revision === 'string' && typeof canAsk === 'boolean' && isContext
}

function outcomeOf(payload: Payload): Outcome | undefined {
  const { kind, isRedacted, task, requestState, isOpen } = payload.fields
  if (kind === 'result') {
    const result = payload.at('result')
    return result && { kind, result: isRedacted === true ? result.asRedacted() : result }
  }
  if (kind === 'task' && isTask(task)) return { kind, task, requestState: asObject(requestState) }
  if (kind !== 'input_required') return undefined
  return {
    kind,
    inputRequests: requestsOf(payload.at('inputRequests')),
    requestState: asObject(requestState),
    ...(isOpen === true && { isOpen }),
  }
}

function isTask(value: unknown): value is Task {
  return isObject(value) && typeof value.id === 'string' && typeof value.status === 'string'
}

function requestsOf(given: Payload | undefined): Record<string, InputRequest> {
  const requests: Record<string, InputRequest> = {}
  for (const key of Object.keys(given?.fields ?? {})) {
    const method = given?.at(key)?.fields.method
    const params = given?.at(key)?.at('params')
    if (typeof method === 'string') requests[key] = { method, ...(params && { params }) }
  }
  return requests
}

function errorOf(payload: Payload): GatewayError {
  const { code, message, extra } = payload.fields
  const relayed = payload.at('relayed')
  if (!isErrorCode(code) || typeof message !== 'string')
    return new GatewayError('SERVER_ERROR', 'Another process of the gateway failed to handle this request.')
  return new GatewayError(code, message, { ...extraOf(asObject(extra)), ...(relayed && { relayed }) })
}

const texts = ['field', 'reason', 'suggestion', 'body', 'forOperator'] as const
const objects = ['data', 'details', 'meta'] as const
const numbers = ['retryAfterSeconds', 'rpc', 'status'] as const
const flags = ['isUserActionable', 'isResult', 'isOfSession', 'isUnsent'] as const

function extraOf(given: Readonly<Record<string, unknown>>): Extra {
  const known = [
    ...texts.filter((key) => typeof given[key] === 'string'),
    ...objects.filter((key) => isObject(given[key])),
    ...numbers.filter((key) => typeof given[key] === 'number'),
    ...flags.filter((key) => given[key] === true),
    ...(['category'] as const).filter((key) => isCategory(given[key])),
  ]
  // Each member was checked to have its type.
  return Object.fromEntries(known.map((key) => [key, given[key]]))
}

function payloadOf(text: string): Payload | undefined {
  const value = readJson(text)
  return isObject(value) ? Payload.text(text, value) : undefined
}
