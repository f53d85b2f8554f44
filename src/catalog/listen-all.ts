/** One subscription to several servers, which reports the changes of each under the names of the combined address. */
import type { Call, Handler, Notification, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { ReopenDelays } from '../core/time/backoff.ts'
import { pause } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import {
  ACKNOWLEDGED,
  readFilter,
  reportedChanges,
  type SubscriptionFilter,
  withUri,
  withUris,
} from '../protocol/subscription-filter.ts'
import type { Candidate, Naming } from './names.ts'

interface ListenOptions {
  readonly names: readonly string[]
  /** Runs a call that names its server. */
  readonly handle: Handler
  readonly naming: Naming
  readonly ended: AbortSignal
  /** The server of a resource whose URI does not name its server. */
  resource(uri: string): Promise<Candidate | undefined>
  /** Resolves when a server has acknowledged, or is not waited for. */
  acknowledged(upstream: string, acknowledgement: Promise<void>): Promise<void>
}

/** How many notifications of available servers are buffered until the remaining servers acknowledge. */
const MAX_WAITING_NOTIFICATIONS = 1000

/** The first delay before a server is listened to again that ended its subscription, in milliseconds. */
const FIRST_RETRY_MS = 250

/** One subscription to several servers; it ends when the set of servers changes. */
export async function listenToAll(
  call: Call,
  { names, handle, naming, ended, resource, acknowledged: untilAcknowledged }: ListenOptions,
): Promise<Outcome> {
  const filter = readFilter(call.params)
  const controller = new AbortController()
  const stop = (): void => controller.abort(call.signal.reason)
  const accepted: SubscriptionFilter[] = []
  // Nothing is sent before the acknowledgement, which waits for the last server.
  let pending: Notification[] | undefined = []
  const forward = (note: Notification): void => {
    if (!pending) call.emit(note)
    else if (pending.length < MAX_WAITING_NOTIFICATIONS) pending.push(note)
  }
  const acknowledge = (): void => {
    // The lists change when servers come and go, whether or not a server reports changes.
    const { toolsListChanged, promptsListChanged, resourcesListChanged } = filter
    const notifications = {
      ...(toolsListChanged && { toolsListChanged }),
      ...(promptsListChanged && { promptsListChanged }),
      ...(resourcesListChanged && { resourcesListChanged }),
      ...mergedFilter(accepted),
    }
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications }) })
    pending?.forEach((note) => call.emit(note))
    pending = undefined
  }
  call.signal.addEventListener('abort', stop)
  ended.addEventListener('abort', stop)
  try {
    const isOfResources = (filter.resourceSubscriptions ?? []).length > 0
    const located = isOfResources ? await locatedUris(filter, { names, naming, resource }) : new Map()
    const streams = names.map((upstream) => {
      const { part, exposed } = filterOf(upstream, filter, { located, naming })
      const acknowledged = Promise.withResolvers<void>()
      const emit = (note: Notification): void => {
        if (note.method !== ACKNOWLEDGED) return forward(withUri(note, exposed))
        accepted.push(withUris(readFilter(note.params), exposed))
        acknowledged.resolve()
      }
      // The envelope is kept: a 2026-07-28 server requires it in every request.
      const params = call.params.with({ notifications: part })
      const target = { method: call.method, upstream }
      // Responses to input requests could not be assigned to one of the servers, so this call allows none.
      const client = { ...call.client, nonInteractive: true } as const
      const { signal } = controller
      const listen = async (): Promise<void> => {
        await handle({ ...call, params, target, client, emit, signal }).finally(() => acknowledged.resolve())
      }
      // Anything may have changed in between.
      const onEnd = (): void => reportedChanges(part).forEach((method) => forward({ method }))
      // A server that refuses is left out. That is handled at once, while others are waited for.
      const over = keepListening(listen, { signal, onEnd }).catch(() => undefined)
      return { acknowledged: untilAcknowledged(upstream, acknowledged.promise), over }
    })
    await Promise.all(streams.map((stream) => stream.acknowledged))
    acknowledge()
    await Promise.all(streams.map(({ over }) => over))
    if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
    return { kind: 'result', result: Payload.of({}) }
  } finally {
    call.signal.removeEventListener('abort', stop)
    ended.removeEventListener('abort', stop)
  }
}

/** Listens again, later each time, if a server ends its subscription: those of the others go on. @throws what `listen` throws */
async function keepListening(
  listen: () => Promise<void>,
  { signal, onEnd }: { readonly signal: AbortSignal; onEnd(): void },
): Promise<void> {
  const delays = new ReopenDelays(FIRST_RETRY_MS)
  while (!signal.aborted) {
    const start = world.monotonic()
    await listen()
    if (signal.aborted) return
    await pause(delays.after(start), signal).catch(() => undefined)
    onEnd()
  }
}

/** The resources of a filter by the URIs that the client knows. */
type LocatedUris = ReadonlyMap<string, Candidate>

async function locatedUris(
  { resourceSubscriptions: uris = [] }: SubscriptionFilter,
  { names, naming, resource }: Pick<ListenOptions, 'names' | 'naming' | 'resource'>,
): Promise<LocatedUris> {
  const found = await Promise.all(
    uris.map(async (uri) => {
      const named = naming.serverOf(uri, names) ?? (await resource(uri).catch(() => undefined))
      return named ? [[uri, named] as const] : []
    }),
  )
  return new Map(found.flat())
}

/** The part of a filter that concerns a server, and the client's URIs of its resources. */
function filterOf(
  upstream: string,
  { resourceSubscriptions: _all, ...rest }: SubscriptionFilter,
  { located, naming }: { readonly located: LocatedUris; readonly naming: Naming },
): { readonly part: SubscriptionFilter; exposed(uri: string): string } {
  const own = [...located].filter(([, found]) => found.upstream === upstream)
  const requested = new Map(own.map(([uri, { name }]) => [name, uri]))
  return {
    part: { ...rest, ...(own.length > 0 && { resourceSubscriptions: [...requested.keys()] }) },
    exposed: (uri) => requested.get(uri) ?? naming.uri(upstream, uri),
  }
}

function mergedFilter(filters: readonly SubscriptionFilter[]): SubscriptionFilter {
  const uris = filters.flatMap((filter) => filter.resourceSubscriptions ?? [])
  return { ...Object.assign({}, ...filters), ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}
