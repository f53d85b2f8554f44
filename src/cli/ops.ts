/**
 * `gatehouse ops`: lists operations (tool calls that last), shows one, cancels one. It works on the store; the gateway
 * that runs a cancelled operation finds out by itself.
 *
 * Invariant: what a caller sent, what it gets and its session are not printed, only sizes.
 */
import { clientName } from '../core/text/words.ts'
import { isoTime } from '../core/time/waiting.ts'
import {
  cancelledOperation,
  isEnded,
  operationName,
  type OperationRecord,
  type OperationRequest,
  Operations,
  type StoredOperation,
} from '../records/operations.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, userName, withAudit, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { detailLines, type Output, quoted, tableLines, timeText } from './output.ts'

type Commands = typeof commands

/** An operation, and where it is kept. */
type Operation = Pick<StoredOperation, 'key' | 'record'>

/** `gatehouse ops list`. */
export function list(given: Given<Commands['ops list']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const all = (await new Operations(store, Date.now).all()).toSorted(runningFirst)
    const text = all.length === 0 ? 'No operations.' : operationList(all, Date.now())
    return { json: { operations: all.map(operationView) }, text }
  })
}

/** `gatehouse ops show NAME`. */
export function show(given: Given<Commands['ops show']>, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) =>
    printed(await named(given.name, new Operations(store, Date.now))),
  )
}

/** `gatehouse ops cancel NAME`. */
export function cancel(given: Given<Commands['ops cancel']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  const { name } = given
  return withStore(settings, io, async (store) => {
    const operations = new Operations(store, Date.now)
    const { key, record } = await named(name, operations)
    requireRunning(name, record)
    return withAudit(settings, io, async (audit) => {
      const after = await operations.change(key, (before) => {
        requireRunning(name, before)
        return cancelledOperation(before, Date.now())
      })
      // It can expire between the two.
      if (!after) throw unknownOperation(name)
      audit?.ordered({ order: 'cancel', by: userName(), operation: name, caller: after.principal.id })
      return printed({ key, record: after })
    })
  })
}

/** The operation of a name. @throws Error */
async function named(name: string, operations: Operations): Promise<Operation> {
  const found = (await operations.all()).find(({ key }) => operationName(key) === name)
  if (found) return found
  throw unknownOperation(name)
}

function printed(operation: Operation): Output {
  return { json: operationView(operation), text: operationText(operation) }
}

/** Running operations come first; within both groups the newest is last. */
function runningFirst({ record: one }: Operation, { record: other }: Operation): number {
  return Number(isEnded(one)) - Number(isEnded(other)) || one.startedAt - other.startedAt
}

/** @throws Error */
function requireRunning(name: string, record: OperationRecord): void {
  if (isEnded(record))
    throw new Error(`${name} cannot be cancelled: it has ended already, and is ${stateText(record)}`)
}

function unknownOperation(name: string): Error {
  return new Error(`no such operation: ${quoted(name)}. See gatehouse ops list`)
}

// Operations as text for a terminal. Text from servers and callers is escaped.

/** Operations as text, one line each, in aligned columns; `now` is in milliseconds since 1970. */
export function operationList(operations: readonly Operation[], now: number): string {
  const rows = operations.map(({ key, record }) => {
    const { upstream, tool, principal, startedAt } = record
    const what = [operationName(key), stateText(record), `${upstream}/${tool}`, principal.id]
    return [...what, ageText(now - startedAt), kindOf(record)]
  })
  return tableLines(rows).join('\n')
}

/** The details of an operation as text. */
export function operationText({ key, record }: Operation): string {
  const { upstream, tool, principal, taskTtl, message, input, request, result, failure } = record
  return detailLines(`${operationName(key)}: ${stateText(record)}`, [
    ['tool', `${upstream}/${tool}`],
    ['of', principal.id],
    ['scopes', principal.scopes?.join(' ')],
    ['kind', taskTtl === undefined ? 'call' : `task, kept for ${ageText(taskTtl)}`],
    ['began', timeText(record.startedAt)],
    ['changed', timeText(record.updatedAt)],
    ['expires', timeText(record.expiresAt)],
    ['process', record.owner],
    ['request id', record.requestId],
    ['session', record.session === undefined ? undefined : 'recorded, not shown'],
    ['message', message],
    ...(request ? requestDetails(request) : []),
    ...inputRequests(input).map(({ name, method, is_answered: isAnswered }): [string, string] => {
      return ['input', `${name} ${method}, ${isAnswered ? 'answered' : 'not answered'}`]
    }),
    ['result', result && sizeText(result.text)],
    ['failure', failure && `${failure.code}: ${failure.message}`],
  ]).join('\n')
}

function requestDetails({ client, params, meta, requestState }: OperationRequest): [string, string][] {
  return [
    ['client', [clientName(client) ?? '', client.revision].filter((word) => word !== '').join(', ')],
    ['params', sizeText(params.text)],
    ['metadata', sizeText(JSON.stringify(meta))],
    ['state', sizeText(JSON.stringify(requestState))],
  ]
}

/** The same as JSON. */
export function operationView({ key, record }: Operation): Readonly<Record<string, unknown>> {
  const { state, upstream, tool, principal, taskTtl, message, input, request, result, failure } = record
  return {
    name: operationName(key),
    state,
    upstream,
    tool,
    principal: principal.id,
    scopes: principal.scopes,
    kind: kindOf(record),
    task_ttl_ms: taskTtl,
    started_at: isoTime(record.startedAt),
    updated_at: isoTime(record.updatedAt),
    expires_at: isoTime(record.expiresAt),
    owner: record.owner,
    request_id: record.requestId,
    has_session: record.session !== undefined,
    message,
    request: request && {
      client: clientName(request.client) ?? '',
      revision: request.client.revision,
      params_bytes: Buffer.byteLength(request.params.text),
      meta_bytes: Buffer.byteLength(JSON.stringify(request.meta)),
      state_bytes: Buffer.byteLength(JSON.stringify(request.requestState)),
    },
    input_requests: input && inputRequests(input),
    result_bytes: result && Buffer.byteLength(result.text),
    error: failure && { code: failure.code, message: failure.message },
  }
}

/** What an operation waits for, without the content of requests and responses. */
function inputRequests(input: OperationRecord['input']) {
  return Object.entries(input?.requests ?? {}).map(([name, { method }]) => {
    return { name, method, is_answered: Object.hasOwn(input?.responses ?? {}, name) }
  })
}

function kindOf({ taskTtl }: OperationRecord): 'task' | 'call' {
  return taskTtl === undefined ? 'call' : 'task'
}

function stateText({ state }: OperationRecord): string {
  return state.replaceAll('_', ' ')
}

function sizeText(text: string): string {
  return `${Buffer.byteLength(text)} bytes, not shown`
}

/** A duration in milliseconds, in the largest unit that it fills. */
function ageText(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
