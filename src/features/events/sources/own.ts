/** What the gateway notices itself: whether servers can be reached, and what other features publish. */
import { world } from '../../../core/world.ts'
import { serverRequest } from '../../own-calls.ts'
import { background } from '../../../core/log.ts'
import { callerHash } from '../../../records/principal.ts'
import { FOREVER } from '../../../store/store.ts'
import type { Services } from '../../feature.ts'
import { type OwnEventName, type PublishedEvent, publish } from '../../offers.ts'
import {
  type EventSource,
  type EventType,
  type Fields,
  filterSchema,
  forEveryone,
  forItsCaller,
  type SourceContext,
} from '../types.ts'
import type { ServerEvents } from '../server-events.ts'

/** The events of the gateway itself. */
export function ownEvents({ deps }: SourceContext): EventSource {
  const reachability = new ReachabilityEvents(deps)
  const isOn = (feature: string, upstream: string | undefined): boolean =>
    deps.features.isOn(feature, upstream)
  const types = (upstream: string | undefined): readonly EventType[] => {
    if (upstream === undefined) {
      return [
        ...(isOn('rate_limit', upstream) || isOn('cost', upstream) ? [ownType(upstream, 'quota_low')] : []),
        ...(isOn('transactions', upstream) ? [ownType(upstream, 'transaction_timed_out')] : []),
      ]
    }
    const retain = async (): Promise<void> => reachability.probe(upstream)
    return [
      ...(isOn('contract', upstream) ? [ownType(upstream, 'contract_changed')] : []),
      ...(isOn('confirm', upstream) ? [ownType(upstream, 'confirmation_pending')] : []),
      { ...ownType(upstream, 'upstream_up'), retain },
      { ...ownType(upstream, 'upstream_down'), retain },
    ]
  }
  return { name: 'gateway', types, described: types }
}

/** Adds a published event to a log, unless it was published already. @throws SERVER_UNAVAILABLE */
export async function addPublished(
  { name, data, caller, once }: PublishedEvent,
  events: ServerEvents,
  { store }: Pick<Services, 'store'>,
): Promise<void> {
  if (once) {
    // Without clients that follow events, nothing is written.
    if (!(await events.isRetained())) return
    if ((await store.setIfAbsent(`event-once:${once.key}`, '1', once.for)) !== undefined) return
  }
  await events.add({ name, data, ...(caller !== undefined && { by: callerHash(caller) }) })
}

/** How long to wait before a server is tried again for those who wait for it, in milliseconds. */
const PROBE_INTERVAL_MS = 5000

type State = 'up' | 'down'

/**
 * Publishes when a server can be reached again, or not any more. The last state is in the store, so that gateways that
 * share it publish a transition once, and one that happened during a restart is not lost.
 */
class ReachabilityEvents {
  readonly #deps: Services
  readonly #last = new Map<string, Promise<void>>()
  readonly #down = new Map<string, { triedAt: number }>()

  constructor(deps: Services) {
    this.#deps = deps
    deps.servers.onReachable((upstream, isReachable) => {
      if (!deps.features.isOn('events', upstream)) return
      if (isReachable) this.#down.delete(upstream)
      else this.#down.set(upstream, { triedAt: 0 })
      this.#enqueue(upstream, isReachable ? 'up' : 'down')
    })
  }

  /** Tries to reach a server that is down: otherwise only the next call would notice that it is there again. */
  probe(upstream: string): void {
    const down = this.#down.get(upstream)
    if (!down || world.now() - down.triedAt < PROBE_INTERVAL_MS) return
    down.triedAt = world.now()
    const { invoker } = this.#deps
    const call = serverRequest({ upstream, method: 'server/discover', controller: new AbortController() })
    invoker.relay(call).catch(() => undefined)
  }

  /** Transitions of one server are recorded in their order. */
  #enqueue(upstream: string, state: State): void {
    const before = this.#last.get(upstream) ?? Promise.resolve()
    const recorded = before.then(() => this.#record(upstream, state))
    this.#last.set(
      upstream,
      recorded.catch(() => undefined),
    )
    background(recorded, this.#deps.log)
  }

  async #record(upstream: string, state: State): Promise<void> {
    const { store, features, gateway } = this.#deps
    const key = `event-reachable:${upstream}`
    try {
      const before = await store.setIfAbsent(key, state, FOREVER)
      // That a server can be reached at first is no transition.
      if (before === undefined ? state === 'up' : before === state) return
      if (before !== undefined && !(await store.compareAndSwap(key, before, state, FOREVER))) return
    } catch (error) {
      if (gateway.closing.aborted) return
      throw error
    }
    publish({ features }, upstream, { name: `upstream_${state}`, data: { server: upstream } })
  }
}

interface OwnType extends Pick<EventType, 'description' | 'payloadSchema'> {
  /** The fields that a subscription can narrow the events by. */
  readonly filters?: readonly string[]
  readonly isOfCaller?: true
}

const text = (description: string): Fields => ({ type: 'string', description })
const number = (description: string): Fields => ({ type: 'number', description })

/** The schema of an object with members that are always there, and others. */
function payload(required: Fields, optional: Fields = {}): Fields {
  return { type: 'object', properties: { ...required, ...optional }, required: Object.keys(required) }
}

const server = { server: text('The name of the server.') }

const ownTypes: Readonly<Record<OwnEventName, OwnType>> = {
  contract_changed: {
    description:
      'What the server offers has changed in a way that clients can notice, and has another version.',
    payloadSchema: payload({
      before: text('A version of what the server offers.'),
      after: text('A version of what the server offers.'),
    }),
  },
  upstream_up: { description: 'The server can be reached again.', payloadSchema: payload(server) },
  upstream_down: { description: 'The server cannot be reached any more.', payloadSchema: payload(server) },
  confirmation_pending: {
    description: 'A call waits for the approval of a person: one of yours, or one that you may approve.',
    filters: ['tool', 'risk', 'role'],
    isOfCaller: true,
    payloadSchema: payload(
      {
        ...server,
        tool: text('The name of the tool.'),
        approval: text('The id of the approval.'),
        risk: text('How harmful the call may be.'),
        role: { enum: ['caller', 'approver'], description: 'Whether you made the call, or may approve it.' },
        expires_at: text('Until when it can be approved (ISO 8601).'),
      },
      { url: text('The page where people decide.') },
    ),
  },
  transaction_timed_out: {
    description: 'A transaction of yours was idle too long, and is rolled back.',
    filters: ['transaction_id'],
    isOfCaller: true,
    payloadSchema: payload({
      transaction_id: text('The id of the transaction.'),
      steps: number('How many steps it has.'),
    }),
  },
  quota_low: {
    description: 'Less than a tenth of what you may use in a period is left.',
    filters: ['limit', 'server', 'tool'],
    isOfCaller: true,
    payloadSchema: payload(
      {
        limit: { enum: ['rate', 'budget'], description: 'What is limited: calls, or units.' },
        remaining: number('What is left.'),
        of: number('What there is in a period.'),
        resets_at: text('When there is more again (ISO 8601).'),
      },
      {
        server: text('The server that it applies to; absent if it applies to all of them.'),
        tool: text('The tool that it applies to, or that the last of it was used for.'),
      },
    ),
  },
}

function ownType(upstream: string | undefined, name: OwnEventName): EventType {
  const { description, payloadSchema, filters, isOfCaller } = ownTypes[name]
  return {
    ...(isOfCaller ? forItsCaller : forEveryone),
    upstream,
    name,
    description,
    inputSchema: filters ? filterSchema(filters) : { type: 'object', additionalProperties: false },
    payloadSchema,
  }
}
