/**
 * Records of operations: long calls, whose outcome outlives their request. Field names are persisted and do not
 * change.
 *
 * Invariant: an operation belongs to one caller, and its state only moves along this diagram; every move is a
 * compare-and-swap.
 *
 *     working ⇄ input_required
 *        │            │
 *        └──┬─────────┴──▶ completed | failed | cancelled | unknown
 *
 * `unknown`: the process that ran it ended, and what became of the call cannot be found out.
 */
import { world } from '../core/world.ts'
import type { Client, InputRequest, InputResponse, InputResponses, RequestState } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { asObject, isObject, readJson } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import type { Seal, SealUse } from '../core/seal.ts'
import { Slot } from '../core/slot.ts'
import type { Store } from '../store/store.ts'
import { decodeFailure, encodeFailure } from './calls.ts'
import { Collection, type RecordDecision, hasMembers, type RecordKind } from '../durable/collection.ts'
import { callerHash, type StoredPrincipal } from './principal.ts'

/** Where an operation stands. */
export type OperationState = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled' | 'unknown'

/** What a call needs to be made again by another process. */
export interface OperationRequest {
  readonly params: Payload
  readonly meta: Readonly<Record<string, unknown>>
  readonly client: Client
  readonly requestState: RequestState
}

/** An operation of another process that a call continues. */
export interface OperationRef {
  /** Its id for its caller, and the key of its record. */
  readonly id: string
  readonly key: string
  /** When the call began that was lost, in milliseconds since 1970; absent where its own key or its server's task is known. */
  readonly lostSince?: number
  /** Set if its caller has it as a task. Without one, no client can answer input requests of the call. */
  readonly isTask?: true
}

/** The operation that the call continues, after the process that ran it ended. */
export const operationSlot = new Slot<OperationRef>('operation')

/** What the call waits for: input requests of one round, and the responses that came so far. */
interface OperationInput {
  readonly round: number
  readonly requests: Readonly<Record<string, InputRequest>>
  readonly responses: InputResponses
  /** The server has begun, and waits for the responses. */
  readonly isOpen?: true
}

/** An operation. Kept under `operation:<caller>/<name>` as JSON; times are milliseconds since 1970. */
export interface OperationRecord {
  readonly expiresAt: number
  /** The id its caller has: clients compare ids, so that every answer has to give the same one. */
  readonly id: string
  readonly state: OperationState
  /** The process that runs it (`Membership.id`). */
  readonly owner: string
  readonly startedAt: number
  readonly updatedAt: number
  readonly upstream: string
  readonly tool: string
  readonly principal: StoredPrincipal
  /** The session of a caller that is known by nothing else. */
  readonly session?: string
  readonly requestId: string
  /** Set where its caller sees a task, with the time it is kept, in milliseconds. */
  readonly taskTtl?: number
  /** The last message of its server, for its caller. */
  readonly message?: string
  readonly input?: OperationInput
  /** The approval that it waits for, before it is sent: its server has got nothing as long as that can still be used. */
  readonly approval?: string
  /** Present until it ends, where another process may take it up; after that, where more pages can be requested. */
  readonly request?: OperationRequest
  readonly result?: Payload
  readonly failure?: GatewayError
}

/** An operation with its key in the store. */
export interface StoredOperation {
  readonly key: string
  readonly record: OperationRecord
}

/** The collection that holds all operations of a caller. */
export function operationsOf(principal: string): string {
  return `${operationKind.prefix}${callerHash(principal)}`
}

/** The name of an operation for logs and operators: with it alone nothing can be read. */
export function operationName(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}

/** When an operation that ends now expires: after `keep` milliseconds, and not before the lifetime of its task is over. */
export function expiryOf({ startedAt, taskTtl = 0 }: OperationRecord, keep: number): number {
  return Math.max(startedAt + taskTtl, world.now() + keep)
}

/** Whether an operation has come to its end. */
export function isEnded({ state }: Pick<OperationRecord, 'state'>): boolean {
  return state !== 'working' && state !== 'input_required'
}

/** How long a caller is named in the store after its last operation began, in milliseconds. */
const CALLER_TTL_MS = 31 * 86_400_000

/** The id of an operation for its caller, and the key of its record. */
export interface OperationKey {
  readonly id: string
  readonly key: string
}

/**
 * The ids of operations: they name the process that minted them and the record, sealed, so that they cannot be guessed
 * and are valid for one caller only. At most 200 characters.
 */
export class OperationIds {
  readonly #seal: Seal
  readonly #owner: string

  /** `owner` is the id of this process among those that share the store. */
  constructor(seal: Seal, owner: string) {
    this.#seal = seal
    // The random part of it: another one for each process that is started.
    this.#owner = owner.split('.', 1)[0] ?? ''
  }

  /** A new id, and the key of its record. */
  mint({ id: principal }: Principal): OperationKey {
    const name = world.randomBytes(12).toString('base64url')
    const id = this.#seal.close([this.#owner, name], useOf(principal), 0)
    return { id, key: keyOf(principal, name) }
  }

  /** Whether a new id is valid in every process that shares the store, and after a restart. */
  get areLasting(): boolean {
    return this.#seal.isShared()
  }

  /**
   * The key of the record an id names; undefined for a forged id, and for the id of another caller.
   * @throws SERVER_UNAVAILABLE while the shared keys are unknown: until then, ids of other processes look forged
   */
  keyOf({ id: principal }: Principal, id: string): string | undefined {
    if (id.length > MAX_ID_LENGTH || !isCanonical(id)) return undefined
    const opened = this.#seal.open(id, useOf(principal))
    const name: unknown = opened.kind === 'valid' && Array.isArray(opened.value) ? opened.value[1] : undefined
    if (typeof name === 'string') return keyOf(principal, name)
    if (!this.#seal.isShared())
      throw new GatewayError(
        'SERVER_UNAVAILABLE',
        'The operation cannot be looked up: the store is not available.',
      )
    return undefined
  }
}

/** How long an id may be, in characters. */
const MAX_ID_LENGTH = 200

/** Whether an id is spelled as it was made: other texts of base64 have the same bytes. */
function isCanonical(id: string): boolean {
  return Buffer.from(id, 'base64url').toString('base64url') === id
}

function useOf(principal: string): SealUse {
  return { purpose: 'operation', binding: principal }
}

function keyOf(principal: string, name: string): string {
  return `${operationsOf(principal)}/${name}`
}

/** The operations of all callers, in the store. */
export class Operations {
  readonly #kept: Collection<OperationRecord>
  readonly #callers: Collection<OperationCaller>
  readonly #now: () => number
  /** The callers that this process has named in the store, and when. */
  readonly #named = new Map<string, number>()

  constructor(store: Store, now: () => number) {
    this.#kept = new Collection(store, operationKind, now)
    this.#callers = new Collection(store, callerKind, now)
    this.#now = now
  }

  /** Writes down a new operation. Durable once this resolves, with the length of its text. @throws what the store throws */
  async create(key: string, record: OperationRecord): Promise<number> {
    await this.#nameCaller(record.principal)
    return this.#kept.put(this.#kept.idIn(key), record)
  }

  /** @throws what the store throws */
  async find(key: string): Promise<StoredOperation | undefined> {
    const record = await this.#kept.get(this.#kept.idIn(key))
    return record && { key, record }
  }

  /**
   * Changes an operation. `change` is called again if another process writes first; it returns undefined to leave the
   * record unchanged. `onSized` gets the number of characters by which the record grew, if it was changed. Resolves
   * with the record after that; undefined if there is none. @throws what the store throws
   */
  change(
    key: string,
    change: (record: OperationRecord) => OperationRecord | undefined,
    onSized?: (grownBy: number) => void,
  ): Promise<OperationRecord | undefined> {
    const decide = (before: OperationRecord | undefined): RecordDecision<OperationRecord> =>
      (before && change(before)) ?? 'keep'
    return this.#kept.update(this.#kept.idIn(key), decide, undefined, onSized)
  }

  async delete(key: string): Promise<void> {
    await this.#kept.remove(this.#kept.idIn(key))
  }

  /** The operations of one caller, the oldest first. @throws what the store throws */
  async of(principal: string): Promise<readonly StoredOperation[]> {
    const found = [...(await this.#kept.list(callerHash(principal)))]
    return found.map(([id, record]) => ({ key: this.#kept.keyOf(id), record })).toSorted(oldestFirst)
  }

  /** The operations of all callers, the oldest first. @throws what the store throws */
  async all(): Promise<readonly StoredOperation[]> {
    const found: StoredOperation[] = []
    for await (const own of this.byCaller()) found.push(...own)
    return found.toSorted(oldestFirst)
  }

  /** The operations of one caller after the other: all of them may be too much to hold at once. @throws what the store throws */
  async *byCaller(): AsyncGenerator<readonly StoredOperation[]> {
    for (const { principal } of await this.#callers.all()) yield this.of(principal)
  }

  async #nameCaller({ id: principal }: StoredPrincipal): Promise<void> {
    const namedAt = this.#named.get(principal)
    if (namedAt !== undefined && this.#now() - namedAt < CALLER_TTL_MS / 31) return
    await this.#callers.put(callerHash(principal), { principal })
    if (this.#named.size >= MAX_NAMED_CALLERS) this.#named.clear()
    this.#named.set(principal, this.#now())
  }
}

/** A running operation, cancelled: the gateway that runs it finds out by itself. */
export function cancelledOperation(before: OperationRecord, now: number): OperationRecord {
  const { request: _request, input: _input, ...rest } = before
  return { ...rest, state: 'cancelled', updatedAt: now }
}

function oldestFirst(one: StoredOperation, other: StoredOperation): number {
  return one.record.startedAt - other.record.startedAt
}

const operationKind: RecordKind<OperationRecord> = {
  name: 'operation',
  prefix: 'operation:',
  encode: encodeOperation,
  decode: decodeOperation,
  ttlOf: ({ expiresAt }, now) => expiresAt - now,
}

/** A caller who has operations: a store lists those of one caller only. */
interface OperationCaller {
  readonly principal: string
}

const callerKind: RecordKind<OperationCaller> = {
  name: 'caller',
  prefix: 'operations/',
  encode: ({ principal }) => principal,
  decode: (principal) => ({ principal }),
  ttlOf: () => CALLER_TTL_MS,
}

/** How many callers are remembered as named in the store. */
const MAX_NAMED_CALLERS = 10_000

/** A record as text. Params and results keep their own text, so that large integers survive. */
export function encodeOperation({ request, input, result, failure, ...head }: OperationRecord): string {
  return Payload.of(head).with({
    ...(request && {
      request: Payload.of({ ...request, params: undefined }).with({ params: request.params }),
    }),
    ...(input && { input: encodeInput(input) }),
    ...(result && { result }),
    ...(failure && { failure: Payload.text(encodeFailure(failure)) }),
  }).text
}

/** A record of text; undefined where it is none, which only another program can have written. */
export function decodeOperation(text: string): OperationRecord | undefined {
  const value = readJson(text)
  if (!isHead(value) || !states.has(value.state)) return undefined
  const payload = Payload.text(text, value)
  const { request: _request, input: _input, result: _result, failure: _failure, ...head } = value
  const request = payload.at('request')
  const input = payload.at('input')
  const result = payload.at('result')
  const failed = payload.at('failure')
  const failure = failed && decodeFailure(failed)
  return {
    ...head,
    ...(request && { request: decodeRequest(request) }),
    ...(input && { input: decodeInput(input) }),
    ...(result && { result }),
    ...(failure && { failure }),
  }
}

const isHead = hasMembers<OperationRecord>({
  string: ['id', 'state', 'owner', 'upstream', 'tool', 'requestId'],
  number: ['expiresAt', 'startedAt', 'updatedAt'],
  principal: ['principal'],
})

const states: ReadonlySet<string> = new Set<OperationState>([
  'working',
  'input_required',
  'completed',
  'failed',
  'cancelled',
  'unknown',
])

function decodeRequest(payload: Payload): OperationRequest {
  const { meta, client, requestState } = payload.fields
  return {
    params: payload.at('params') ?? Payload.of({}),
    meta: asObject(meta),
    client: decodeClient(client),
    requestState: asObject(requestState),
  }
}

function decodeClient(value: unknown): Client {
  const { era, revision, capabilities, info, session } = asObject(value)
  return {
    era: era === 'modern' ? 'modern' : 'legacy',
    revision: String(revision),
    capabilities: asObject(capabilities),
    ...(isObject(info) && { info }),
    ...(typeof session === 'string' && { session }),
  }
}

function encodeInput({ round, requests, responses, isOpen }: OperationInput): Payload {
  const requested = Object.entries(requests).map(([key, { method, params }]): [string, Payload] => [
    key,
    Payload.of({ method }).with({ ...(params && { params }) }),
  ])
  const answered = Object.entries(responses).map(([key, response]): [string, Payload] => [
    key,
    Payload.of({}).with({ ...response }),
  ])
  return Payload.of({ round, isOpen }).with({
    requests: Payload.of({}).with(Object.fromEntries(requested)),
    responses: Payload.of({}).with(Object.fromEntries(answered)),
  })
}

function decodeInput(payload: Payload): OperationInput {
  const { round, isOpen } = payload.fields
  const requests: Record<string, InputRequest> = {}
  const responses: Record<string, InputResponse> = {}
  const [requested, answered] = [payload.at('requests'), payload.at('responses')]
  for (const key of Object.keys(requested?.fields ?? {})) {
    const each = requested?.at(key)
    const params = each?.at('params')
    requests[key] = { method: String(each?.fields.method), ...(params && { params }) }
  }
  for (const key of Object.keys(answered?.fields ?? {})) {
    const [result, error] = [answered?.at(key)?.at('result'), answered?.at(key)?.at('error')]
    if (result) responses[key] = { result }
    else if (error) responses[key] = { error }
  }
  return {
    round: typeof round === 'number' ? round : 1,
    requests,
    responses,
    ...(isOpen === true && { isOpen }),
  }
}
