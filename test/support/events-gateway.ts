/** The feature `events` alone, with a memory store, and what its clients can request of it. */
import { publishing } from '../../src/features/offers.ts'
import type { Call, Notification } from '../../src/core/call.ts'
import { GatewayError } from '../../src/core/error.ts'
import { Payload } from '../../src/core/payload.ts'
import type { Principal } from '../../src/core/principal.ts'
import { events } from '../../src/features/events/events.ts'
import { fieldsOf } from './chain.ts'
import { eventSettings } from './event-settings.ts'
import { featureDeps, type ServiceStubs, offeredBy } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { toolCall } from './tool-call.ts'

export const ada: Principal = { id: 'ada' }
export const bob: Principal = { id: 'bob' }

/** What a stream of events sent, without the prefix of its methods. */
interface Sent {
  readonly what: string
  readonly params: Json
}

/** Creates the feature for the server `one`, whose events are on. */
export function eventsGateway(given: ServiceStubs = {}) {
  let published: Parameters<typeof publishing.offer>[0] = () => undefined
  const deps = featureDeps({
    // Requests do not wait for gateways in other processes.
    isStoreShared: false,
    servers: () => ['one'],
    // A server that never sends anything.
    relay: () => new Promise(() => undefined),
    publish: (upstream, event) => published(upstream, event),
    ...given,
  })
  const instance = events.create(() => eventSettings(), deps)
  published = (upstream, event) => offeredBy(instance, publishing)?.(upstream, event)
  const request = async (method: string, params: Json, call: Partial<Call> = {}): Promise<Json> => {
    const target = { method, upstream: 'one', isBuiltin: true } as const
    const handle = instance.builtins?.methods?.[method]
    if (!handle) throw new TypeError(`there is no ${method}`)
    return fieldsOf(
      await handle(toolCall({ method, target, params: Payload.of(params), principal: ada, ...call })),
    )
  }
  const poll = (params: Json, call: Partial<Call> = {}): Promise<Json> => request('events/poll', params, call)
  /** Begins to follow a type; the returned function resolves with the data of its events since. */
  const follow = async (params: Json, call: Partial<Call> = {}): Promise<() => Promise<Json[]>> => {
    const { cursor } = await poll(params, call)
    return async () => dataOf(await poll({ ...params, cursor }, call))
  }
  const stream = (params: Json, call: Partial<Call> = {}) => {
    const sent: Sent[] = []
    const controller = new AbortController()
    const emit = ({ method, params: { text } = Payload.of({}) }: Notification): void => {
      sent.push({ what: method.replace('notifications/events/', ''), params: JSON.parse(text) as Json })
    }
    const ended = request('events/stream', params, { emit, signal: controller.signal, ...call })
    ended.catch(() => undefined)
    return { sent, ended, close: () => controller.abort(new GatewayError('CANCELLED', 'It is gone.')) }
  }
  return { deps, instance, request, poll, follow, stream }
}

/** The events of a result. */
export function eventsOf(result: Json): Json[] {
  return result['events'] as Json[]
}

/** The data of the events of a result. */
function dataOf(result: Json): Json[] {
  return eventsOf(result).map(({ data }) => data as Json)
}

/** The names of the types of a list. */
export function namesOf(list: Json): unknown[] {
  return eventsOf(list).map(({ name }) => name)
}
