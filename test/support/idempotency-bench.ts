import type { Call, Handler, Outcome } from '../../src/core/call.ts'
import type { Descriptor } from '../../src/core/descriptor.ts'
import { GatewayError } from '../../src/core/error.ts'
import { Payload } from '../../src/core/payload.ts'
import type { ToolSettings } from '../../src/core/settings.ts'
import { idempotency } from '../../src/features/idempotency/idempotency.ts'
import type { IdempotencySettings } from '../../src/features/settings/effect.ts'
import type { Membership } from '../../src/durable/members.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { featureDeps, type ServiceStubs, withTool } from './feature-deps.ts'
import { serverSettings } from './server-settings.ts'
import { toolCall } from './tool-call.ts'

const DAY = 86_400_000

/** What the feature is given where a test says nothing else. */
export const idempotencyDefaults: IdempotencySettings = {
  ttl: DAY,
  max_ttl: 7 * DAY,
  max_keys: 1000,
  max_bytes: 64 * 1024 ** 2,
  lost_answers: 60_000,
  compat: true,
}

interface Setup {
  readonly store?: Store
  readonly settings?: Partial<IdempotencySettings>
  readonly tool?: ToolSettings
  readonly entry?: Partial<Descriptor>
  readonly deps?: ServiceStubs
  /** Names the gateway, and says which others live. */
  readonly me?: string
  readonly alive?: { has(id: string): boolean | Promise<boolean> }
  /** Its present term. */
  readonly term?: { now: number }
  /** What the server does; counts itself where not given. */
  readonly server?: Handler
}

/** The feature before a server that counts. */
export interface Bench {
  readonly store: Store
  /** Every call the server got. */
  readonly seen: readonly Call[]
  make(given?: Partial<Call>, params?: Readonly<Record<string, unknown>>): Promise<Outcome>
  /** Ends as a gateway does that is stopped. */
  close(): Promise<void>
}

/** One gateway; two that are given the same store are two processes. */
export function bench(setup: Setup = {}): Bench {
  const store = setup.store ?? new MemoryStore()
  const seen: Call[] = []
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
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', inputSchema: { type: 'object' } },
    classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [] },
    ...setup.entry,
  }
  const deps = featureDeps({
    store,
    membership,
    entry: () => entry,
    server: () => serverSettings({ name: 'one', tools: setup.tool ? { t: setup.tool } : {} }),
    servers: () => ['one'],
    ...setup.deps,
  })
  const feature = withTool(
    idempotency.create(() => ({ ...idempotencyDefaults, ...setup.settings }), deps),
    deps,
  )
  const policy = feature.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't' })
  if (!policy) throw new TypeError('there is no policy')
  const server = setup.server ?? (async () => done(seen.length))
  const handle = policy((call) => {
    seen.push(call)
    return server(call)
  })
  return {
    store,
    seen,
    close: async () => feature.close?.(),
    make: (given = {}, params = {}) => {
      const whole = { name: 't', arguments: { x: 1 }, ...params }
      const { _meta: meta } = whole as { readonly _meta?: Readonly<Record<string, unknown>> }
      return handle(toolCall({ params: Payload.of(whole), meta: meta ?? {}, ...given }))
    },
  }
}

/** A result that says a number. */
export function done(value: number): Outcome {
  return { kind: 'result', result: Payload.of({ content: [{ type: 'text', text: String(value) }] }) }
}

/** The params that carry a key. */
export function keyed(key: string, more: Readonly<Record<string, unknown>> = {}) {
  return { _meta: { 'dev.gatehouse/idempotency_key': key }, ...more }
}

/** What a result says in its first text. */
export function textOf(outcome: Outcome): unknown {
  if (outcome.kind !== 'result') return outcome.kind
  const { content } = outcome.result.fields as { readonly content?: readonly { readonly text: string }[] }
  return content?.[0]?.text
}

/** The fields of a result. */
export function fieldsOf(outcome: Outcome): Readonly<Record<string, unknown>> {
  if (outcome.kind !== 'result') throw new TypeError('it is no result')
  return outcome.result.fields
}

/** What a call fails with. */
export async function failureOf(outcome: Promise<Outcome>): Promise<GatewayError> {
  const error: unknown = await outcome.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error instanceof GatewayError) return error
  throw new TypeError(`it did not fail as expected: ${String(error)}`)
}

/** A caller whose call can be ended. */
export function ending(): {
  readonly given: Partial<Call>
  end(code: 'CANCELLED' | 'OPERATION_TIMEOUT'): void
} {
  const controller = new AbortController()
  return {
    given: { signal: controller.signal, abort: (reason) => controller.abort(reason) },
    end: (code) => controller.abort(new GatewayError(code, code)),
  }
}
