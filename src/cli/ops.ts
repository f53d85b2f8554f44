/**
 * `gatehouse ops`: lists operations (tool calls that last), shows one, cancels one. It works on the store; the gateway
 * that runs a cancelled operation finds out by itself.
 *
 * Invariant: what a caller sent, what it gets and its session are not printed, only sizes.
 */
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { openLog } from '../observability/log.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import type { Audit } from '../observability/audit/audit.ts'
import {
  isEnded,
  operationName,
  type OperationRecord,
  type OperationRequest,
  Operations,
  type StoredOperation,
} from '../records/operations.ts'
import { readStored } from './config-file.ts'
import { tableLines, timeText } from './table.ts'
import { didYouMean, parseWords, UsageError, userName } from './words.ts'
import { type Io, print } from './io.ts'

/** The options of the command. */
const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  store: { type: 'string' },
  json: { type: 'boolean' },
} as const

/** An operation, and where it is kept. */
type Operation = Pick<StoredOperation, 'key' | 'record'>

/** `gatehouse ops list | show | cancel`: lists the tool calls that last, and cancels them. */
export async function ops(args: readonly string[], io: Io): Promise<number> {
  const options = parse(args)
  const settings = readStored(options, io)
  const log = openLog('warn', io)
  const store = await openSharedStore(settings, log)
  try {
    const withAudit: WithAudit = (change) => audited(settings, log, change)
    const text = await act(options, new Operations(store, Date.now), withAudit)
    print(text, io)
  } finally {
    await store.close()
  }
  return 0
}

/** Makes a change with the audit log it is recorded in. */
type WithAudit = (change: (audit: Audit | undefined) => Promise<Operation>) => Promise<Operation>

async function act(
  { action, name, isJson }: OpsOptions,
  operations: Operations,
  withAudit: WithAudit,
): Promise<string> {
  const all = (await operations.all()).toSorted(runningFirst)
  if (action === 'list') {
    if (isJson) return JSON.stringify({ operations: all.map(operationView) }, null, 2)
    return all.length === 0 ? 'No operations.' : operationList(all, Date.now())
  }
  const found = all.find(({ key }) => operationName(key) === name)
  if (!found) throw unknownOperation(name)
  const shown = action === 'cancel' ? await cancel(found, operations, withAudit) : found
  return isJson ? JSON.stringify(operationView(shown), null, 2) : operationText(shown)
}

/** Running operations come first; within both groups the newest is last. */
function runningFirst({ record: one }: Operation, { record: other }: Operation): number {
  return Number(isEnded(one)) - Number(isEnded(other)) || one.startedAt - other.startedAt
}

/** Cancels an operation that has not ended. @throws Error */
async function cancel(
  { key, record }: Operation,
  operations: Operations,
  withAudit: WithAudit,
): Promise<Operation> {
  const name = operationName(key)
  requireRunning(name, record)
  return withAudit(async (audit) => {
    const after = await operations.change(key, (before) => {
      requireRunning(name, before)
      const { request: _request, input: _input, ...rest } = before
      return { ...rest, state: 'cancelled', updatedAt: Date.now() }
    })
    // It can expire between the two.
    if (!after) throw unknownOperation(name)
    audit?.ordered({ order: 'cancel', by: userName(), operation: name, caller: after.principal.id })
    return { key, record: after }
  })
}

/** @throws Error */
function requireRunning(name: string, record: OperationRecord): void {
  if (isEnded(record))
    throw new Error(`${name} cannot be cancelled: it has ended already, and is ${stateText(record)}`)
}

function unknownOperation(name: string): Error {
  return new Error(`no such operation: ${escapeHidden(JSON.stringify(name))}. See gatehouse ops list`)
}

interface OpsOptions {
  readonly action: 'list' | 'show' | 'cancel'
  readonly name: string
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly store: string | undefined
  readonly isJson: boolean
}

function parse(args: readonly string[]): OpsOptions {
  const { values, positionals } = parseWords(withNamesLast(args), optionTypes)
  const [word, name, ...more] = positionals
  const actions = ['list', 'show', 'cancel'] as const
  const action = actions.find((each) => each === word)
  if (!action)
    throw new UsageError(`use gatehouse ops list, show or cancel${didYouMean(word ?? '', actions)}`)
  if (action !== 'list' && name === undefined)
    throw new UsageError(`${action} needs the name of an operation`)
  if (more.length > 0 || (action === 'list' && name !== undefined))
    throw new UsageError('give one operation at a time')
  const { config, 'env-file': envFile, store, json = false } = values
  if (store !== undefined && config !== undefined) throw new UsageError('give either --config or --store')
  return { action, name: name ?? '', config, envFile, store, isJson: json }
}

/** Moves names to the end, after `--`: a name may begin with a hyphen, which `parseArgs` reads as an option. */
function withNamesLast(args: readonly string[]): readonly string[] {
  const isName = (word: string): boolean => /^-[\w-]{15}$/.test(word)
  if (args.includes('--') || !args.some(isName)) return args
  return [...args.filter((word) => !isName(word)), '--', ...args.filter(isName)]
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
  const fields: readonly (readonly [label: string, value: string])[] = [
    ['tool', `${upstream}/${tool}`],
    ['of', principal.id],
    ...(principal.scopes ? [['scopes', principal.scopes.join(' ')] as const] : []),
    ['kind', taskTtl === undefined ? 'call' : `task, kept for ${ageText(taskTtl)}`],
    ['began', timeText(record.startedAt)],
    ['changed', timeText(record.updatedAt)],
    ['expires', timeText(record.expiresAt)],
    ['process', record.owner],
    ['request id', record.requestId],
    ...(record.session === undefined ? [] : [['session', 'recorded, not shown'] as const]),
    ...(message === undefined ? [] : [['message', message] as const]),
    ...(request ? requestFields(request) : []),
    ...inputRequests(input).map(({ name, method, isAnswered }): readonly [string, string] => {
      return ['input', `${name} ${method}, ${isAnswered ? 'answered' : 'not answered'}`]
    }),
    ...(result ? [['result', sizeText(result.text)] as const] : []),
    ...(failure ? [['failure', `${failure.code}: ${failure.message}`] as const] : []),
  ]
  const lines = fields.map(([label, value]) => `  ${label.padEnd(12)} ${value}`)
  return [`${operationName(key)}: ${stateText(record)}`, ...lines].map(oneLine).join('\n')
}

function requestFields({ client, params, meta, requestState }: OperationRequest): [string, string][] {
  return [
    ['client', [clientName(client), client.revision].filter((word) => word !== '').join(', ')],
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
    ...(principal.scopes && { scopes: principal.scopes }),
    kind: kindOf(record),
    ...(taskTtl !== undefined && { task_ttl_ms: taskTtl }),
    started_at: isoText(record.startedAt),
    updated_at: isoText(record.updatedAt),
    expires_at: isoText(record.expiresAt),
    owner: record.owner,
    request_id: record.requestId,
    has_session: record.session !== undefined,
    ...(message !== undefined && { message }),
    ...(request && {
      request: {
        client: clientName(request.client),
        revision: request.client.revision,
        params_bytes: Buffer.byteLength(request.params.text),
        meta_bytes: Buffer.byteLength(JSON.stringify(request.meta)),
        state_bytes: Buffer.byteLength(JSON.stringify(request.requestState)),
      },
    }),
    ...(input && {
      input_requests: inputRequests(input).map(({ name, method, isAnswered }) => {
        return { name, method, is_answered: isAnswered }
      }),
    }),
    ...(result && { result_bytes: Buffer.byteLength(result.text) }),
    ...(failure && { error: { code: failure.code, message: failure.message } }),
  }
}

/** What an operation waits for, without the content of requests and responses. */
function inputRequests(input: OperationRecord['input']) {
  return Object.entries(input?.requests ?? {}).map(([name, { method }]) => {
    return { name, method, isAnswered: Object.hasOwn(input?.responses ?? {}, name) }
  })
}

function clientName({ info }: OperationRequest['client']): string {
  return [info?.name, info?.version].filter((word) => typeof word === 'string').join(' ')
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

/** A time in milliseconds since 1970 as ISO 8601. */
function isoText(at: number): string {
  return new Date(at).toISOString()
}
