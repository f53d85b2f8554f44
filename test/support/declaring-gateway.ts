/** The feature `events` with events that a configuration declares, for unit tests. */
import { eventSettings } from './event-settings.ts'
import type { Call } from '../../src/core/call.ts'
import { Payload } from '../../src/core/payload.ts'
import type { DeclaredEvent } from '../../src/core/settings.ts'
import { events } from '../../src/features/events/events.ts'
import type { FeatureInstance } from '../../src/features/feature.ts'
import { fieldsOf } from './chain.ts'
import { featureDeps, type ServiceStubs } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { toolCall } from './tool-call.ts'

type Declared = Readonly<Record<string, DeclaredEvent>>

interface DeclaringGateway {
  readonly instance: FeatureInstance
  request(method: string, params: Json, call?: Partial<Call>): Promise<Json>
}

interface Options {
  readonly address?: 'one' | 'all'
  /** Whether successes of tools are events too. */
  readonly writes?: 'own' | 'off'
}

/** A gateway with events of the server `one`, or of no single one of its two servers. */
export function declaringGateway(
  given: ServiceStubs,
  declared: Declared,
  { address = 'one', writes = 'off' }: Options = {},
): DeclaringGateway {
  const upstream = address === 'all' ? undefined : address
  const deps = featureDeps({
    // Requests do not wait for gateways in other processes.
    isStoreShared: false,
    servers: () => ['one', 'two'],
    relay: () => new Promise(() => undefined),
    declared: new Map([[upstream, new Map(Object.entries(declared))]]),
    ...given,
  })
  const instance = events.create(() => eventSettings({ writes }), deps)
  return {
    instance,
    request: async (method, params, call = {}) => {
      const target = { method, ...(upstream !== undefined && { upstream }), isBuiltin: true } as const
      const handle = instance.builtins?.methods?.[method]
      if (!handle) throw new TypeError(`there is no ${method}`)
      const principal = { id: 'ada' }
      return fieldsOf(
        await handle(toolCall({ method, target, params: Payload.of(params), principal, ...call })),
      )
    },
  }
}

/** The data of the events of a poll. */
export function dataOf(result: Json): Json[] {
  return (result['events'] as Json[]).map(({ data }) => data as Json)
}
