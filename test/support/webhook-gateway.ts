import { onTestFinished } from 'vitest'
import type { Call } from '../../src/core/call.ts'
import { Payload } from '../../src/core/payload.ts'
import type { Principal } from '../../src/core/principal.ts'
import { createSeal } from '../../src/core/seal.ts'
import { Redactor } from '../../src/core/text/redactor.ts'
import { type EventCatalog, type EventType, forItsCaller } from '../../src/features/events/types.ts'
import { ServerEvents } from '../../src/features/events/server-events.ts'
import { WebhookDeliveries } from '../../src/features/events/sinks/webhook-deliveries.ts'
import type { Dialer } from '../../src/features/dialer.ts'
import { webhookMethods } from '../../src/features/events/sinks/webhook-methods.ts'
import type { Membership } from '../../src/durable/members.ts'
import { callerHash } from '../../src/records/principal.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { Store } from '../../src/store/store.ts'
import { fieldsOf } from './chain.ts'
import { featureDeps, type ServiceStubs } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { toolCall } from './tool-call.ts'
import { FakeReceivers, idle, ManualClock, secretOf } from './webhooks.ts'

export const ada: Principal = { id: 'ada' }
export const bob: Principal = { id: 'bob' }

export const HOOK = 'https://ada.example/hook?key=7'

/** The type of events that the server `one` has. */
export const noted: EventType = {
  ...forItsCaller,
  upstream: 'one',
  name: 'noted',
  description: 'Something was noted.',
  inputSchema: { type: 'object', properties: { list: {}, tag: {} }, additionalProperties: false },
  payloadSchema: { type: 'object' },
}

/** The parameters of a subscription. */
export function wanted(given: Json = {}, delivery: Json = {}): Json {
  const secret = secretOf(1).reveal()
  return {
    name: 'noted',
    arguments: {},
    delivery: { mode: 'webhook', url: HOOK, secret, ...delivery },
    ...given,
  }
}

interface ProcessOptions {
  readonly stubs?: ServiceStubs
  readonly dialer?: Dialer
  readonly allow?: readonly string[]
  readonly maxTtlMs?: number
}

/** What outlives a process of a gateway: its store, its keys, the receivers and the clock. */
export class WebhookGateway {
  readonly clock = new ManualClock(Date.now())
  readonly dialer = new FakeReceivers(this.clock)
  readonly seal = createSeal(() => this.clock.now())
  readonly outcomes: string[] = []
  /** The processes that are known to have ended. */
  readonly ended = new Set<string>()
  #processes = 0
  store: Store = new MemoryStore(() => this.clock.now())
  /** The types of the server; a failure where it cannot be asked. */
  types: () => readonly EventType[] = () => [noted]

  /** Starts a process. */
  async process({ stubs, dialer = this.dialer, allow = [], maxTtlMs = 86_400_000 }: ProcessOptions = {}) {
    const { store, seal, clock } = this
    const delivered = (outcome: string): void => void this.outcomes.push(outcome)
    const membership: Membership = {
      id: `process_${++this.#processes}`,
      register: () => Promise.resolve(),
      leave: () => undefined,
      isAlive: (id) => Promise.resolve(!this.ended.has(id)),
      hasEnded: () => false,
      hasOthers: () => false,
      term: 1,
      renew: () => Promise.resolve(),
      close: () => Promise.resolve(),
    }
    const deps = featureDeps({ store, seal, membership, servers: () => ['one'], delivered, ...stubs })
    const events = new ServerEvents(store, 'one', {
      ttl: 86_400_000,
      isShared: false,
      redactor: new Redactor(),
    })
    const parts: EventCatalog = {
      deps,
      sources: [{ name: 'test', types: async () => this.types() }],
      upstreams: () => ['one'],
      events: () => events,
    }
    const options = {
      deps,
      parts,
      dialer,
      clock,
      giveUpMs: 900_000,
      webhookId: 'event',
      random: () => 1,
    } as const
    const deliveries = new WebhookDeliveries(options)
    const methods = webhookMethods({ deps, parts, deliveries, allow, maxTtlMs })
    const request = async (method: string, params: Json, call: Partial<Call> = {}): Promise<Json> => {
      const target = { method, upstream: 'one', isBuiltin: true } as const
      const handle = methods[method]
      if (!handle) throw new TypeError(`there is no ${method}`)
      const given = { method, target, params: Payload.of(params), principal: ada, ...call }
      return fieldsOf(await handle(toolCall(given)))
    }
    onTestFinished(() => deliveries.close())
    await deliveries.start()
    await idle()
    return {
      id: membership.id,
      deliveries,
      events,
      subscribe: async (params: Json = wanted(), call: Partial<Call> = {}) => {
        const result = await request('events/subscribe', params, call)
        await idle()
        return result
      },
      unsubscribe: (params: Json = wanted(), call: Partial<Call> = {}) =>
        request('events/unsubscribe', params, call),
      /** Adds events with these numbers, caused by a caller. */
      note: async (...numbers: readonly number[]) => {
        for (const n of numbers) {
          await events.add({ name: 'noted', by: callerHash('ada'), data: { n, list: 'a' } })
          await idle()
        }
        await idle()
      },
    }
  }

  /** The bodies that arrived, without challenges. */
  get bodies(): readonly Json[] {
    return this.dialer.events.map(({ json }) => json)
  }

  /** The numbers of the events that arrived, in their order. */
  get numbers(): readonly unknown[] {
    return this.bodies.map(({ data }) => (data as Json | undefined)?.['n'])
  }

  get challenges(): number {
    return this.dialer.requests.length - this.dialer.events.length
  }
}
