import { tasksExtension } from '../../../../src/core/revisions.ts'
import type { Call, Client, Handler, Notification, Outcome } from '../../../../src/core/call.ts'
import type { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import type { ProgressSettings } from '../../../../src/features/settings/admit.ts'
import { progress } from '../../../../src/features/progress/progress.ts'
import type { Membership } from '../../../../src/durable/members.ts'
import { decodeOperation, type OperationRecord, operationsOf } from '../../../../src/records/operations.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { featureDeps, type ServiceStubs } from '../../../support/feature-deps.ts'
import type { Json } from '../../../support/server/json.ts'
import { toolCall } from '../../../support/tool-call.ts'

export const OPERATION_ID = 'dev.gatehouse/operation_id'
export const WAS_REPLAY = 'dev.gatehouse/was_replay'
export const RELATED_TASK = 'io.modelcontextprotocol/related-task'

export const alice = { id: 'alice' }
export const bob = { id: 'bob' }

/** A client of 2026-07-28 that takes tasks, one that does not, and one of 2025-11-25. */
export const taking: Client = {
  era: 'modern',
  revision: '2026-07-28',
  capabilities: { elicitation: {}, extensions: { [tasksExtension]: {} } },
}
export const plain: Client = { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } }
export const older: Client = {
  era: 'legacy',
  revision: '2025-11-25',
  capabilities: { elicitation: {} },
  session: 's1',
}

interface Setup {
  readonly server: Handler
  readonly store?: Store
  /** Names the process, and says which others live. */
  readonly me?: string
  readonly alive?: ReadonlySet<string>
  /** Its present term. */
  readonly term?: { now: number }
  readonly settings?: Partial<ProgressSettings>
  readonly deps?: ServiceStubs
}

/** The ids of one process are good in all others. */
const seal = createSeal(() => 0)

/** The feature in one process; two that are given the same store share it. */
export function process(setup: Setup) {
  const store = setup.store ?? new MemoryStore()
  const alive = setup.alive ?? new Set(['a', 'b', 'c'])
  const term = setup.term ?? { now: 1 }
  const membership: Membership = {
    id: setup.me ?? 'a',
    register: async () => undefined,
    leave: () => undefined,
    isAlive: async (id) => alive.has(id),
    hasEnded: () => false,
    hasOthers: () => false,
    get term() {
      return term.now
    },
    renew: async () => undefined,
    close: async () => undefined,
  }
  const relayed: Call[] = []
  const rests: Promise<Outcome>[] = []
  const deps = featureDeps({
    store,
    membership,
    seal,
    relay: (call) => {
      relayed.push(call)
      return handle(call)
    },
    observeRest: (_call, rest) => {
      rest.catch(() => undefined)
      rests.push(rest)
    },
    ...setup.deps,
  })
  const settings = {
    heartbeat: 5000,
    keep: 600_000,
    tasks: { after: 20_000 },
    compat: false,
    ...setup.settings,
  }
  const instance = progress.create(() => settings, deps)
  const policy = instance.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't' })
  if (!policy) throw new TypeError('there is no policy')
  const handle = policy(setup.server)
  return {
    instance,
    store,
    relayed,
    /** What was handed over to be observed to its end. */
    rests,
    /** Makes a call of the tool; its `_meta` is in both places, as in a gateway. */
    make(given: Partial<Call> = {}, params: Json = {}): Promise<Outcome> {
      const meta = params['_meta'] as Json | undefined
      const whole = Payload.of({ name: 't', arguments: {}, ...params })
      return handle(toolCall({ principal: alice, params: whole, meta: meta ?? {}, ...given }))
    },
    /** Makes another request of the caller. */
    async ask(method: string, params: Json, given: Partial<Call> = {}): Promise<Outcome> {
      const answer = instance.builtins?.methods?.[method]
      if (!answer) throw new TypeError(`there is no method ${method}`)
      const target = { method, upstream: 'one' }
      return answer(
        toolCall({ method, target, principal: alice, client: taking, params: Payload.of(params), ...given }),
      )
    },
    /** The records of a caller. */
    async records(principal = 'alice'): Promise<readonly OperationRecord[]> {
      const texts = await store.scan(operationsOf(principal))
      return [...texts.values()].flatMap((text) => decodeOperation(text) ?? [])
    },
  }
}

/** A server whose calls end when a test says so, and with their signal. */
export function pendingServer() {
  const calls: Call[] = []
  const open: PromiseWithResolvers<Outcome>[] = []
  const server: Handler = (call) => {
    const end = Promise.withResolvers<Outcome>()
    calls.push(call)
    open.push(end)
    call.signal.addEventListener('abort', () => end.reject(call.signal.reason))
    return end.promise
  }
  return {
    server,
    /** Every call it got. */
    calls,
    /** Ends the last call. */
    end: (outcome: Outcome): void => open.at(-1)?.resolve(outcome),
    fail: (error: Error): void => open.at(-1)?.reject(error),
  }
}

/** A result with one text, or of the given JSON text. */
export function result(text: string): Outcome {
  const json = text.startsWith('{') ? text : JSON.stringify({ content: [{ type: 'text', text }] })
  return { kind: 'result', result: Payload.text(json) }
}

/** An outcome that asks the user by the given keys. */
export function asking(keys: readonly string[], requestState: Json = {}): Outcome {
  const question = (key: string) => {
    const params = Payload.of({ message: `${key}?`, requestedSchema: { type: 'object', properties: {} } })
    return [key, { method: 'elicitation/create', params }] as const
  }
  return { kind: 'input_required', inputRequests: Object.fromEntries(keys.map(question)), requestState }
}

/** A caller that keeps what it hears. */
export function listener() {
  const notes: Notification[] = []
  return { notes, emit: (note: Notification): void => void notes.push(note) }
}

/** A promise, and whether and how it has settled. */
export function watched<Value>(promise: Promise<Value>) {
  const state: { isSettled: boolean; value?: Value; error?: unknown } = { isSettled: false }
  promise.then(
    (value) => Object.assign(state, { isSettled: true, value }),
    (error: unknown) => Object.assign(state, { isSettled: true, error }),
  )
  return state
}

/** The fields of a result. */
export function fieldsOf(outcome: Outcome | undefined): Json {
  if (outcome?.kind !== 'result') throw new TypeError(`it is no result: ${outcome?.kind}`)
  return outcome.result.fields
}

/** The task a call was answered with. */
export function taskIn(outcome: Outcome | undefined) {
  if (outcome?.kind !== 'task') throw new TypeError(`it is no task: ${outcome?.kind}`)
  return outcome.task
}

/** The id of the operation in a result. */
export function operationIn(outcome: Outcome | undefined): string {
  const id = outcome?.kind === 'result' ? outcome.result.meta(OPERATION_ID) : undefined
  if (typeof id !== 'string') throw new TypeError('the result names no operation')
  return id
}

/** What a request fails with, without its stack. */
export async function failureOf(
  outcome: Promise<Outcome>,
): Promise<Pick<GatewayError, 'code' | 'message' | 'data'>> {
  const thrown: unknown = await outcome.then(
    (value) => new TypeError(`it did not fail: ${value.kind}`),
    (reason: unknown) => reason,
  )
  const { code, message, data } = thrown as GatewayError
  return { code, message, data }
}
