import type { Call, Handler, Notification, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { ACKNOWLEDGED, type SubscriptionFilter, readFilter, withUri, withUris } from '../wire/filter.ts'
import type { Candidate, Naming } from './names.ts'

interface ListenOptions {
  readonly names: readonly string[]
  /** Does a call that names its server. */
  readonly handle: Handler
  readonly naming: Naming
  readonly ended: AbortSignal
}

/** How many notes of servers that are there wait for those that are not. */
const MAX_WAITING_NOTIFICATIONS = 1000

/** One listening call that hears several servers; it ends when the set of servers changes. */
export async function listenToAll(call: Call, { names, handle, naming, ended }: ListenOptions): Promise<Outcome> {
  const filter = readFilter(call.params)
  const controller = new AbortController()
  const stop = (): void => controller.abort(call.signal.reason)
  const honoured: SubscriptionFilter[] = []
  // Nothing comes before the acknowledgement, which waits for the last server.
  let held: Notification[] | undefined = []
  const tell = (note: Notification): void => {
    if (!held) call.emit(note)
    else if (held.length < MAX_WAITING_NOTIFICATIONS) held.push(note)
  }
  const acknowledge = (): void => {
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: joined(honoured) }) })
    held?.forEach((note) => call.emit(note))
    held = undefined
  }
  call.signal.addEventListener('abort', stop)
  ended.addEventListener('abort', stop)
  try {
    const streams = names.map((upstream) => {
      const part = filterFor(filter, upstream, (uri) => naming.serverOf(uri, names))
      const exposed = (uri: string): string => naming.uri(upstream, uri)
      const heard = Promise.withResolvers<void>()
      const emit = (note: Notification): void => {
        if (note.method !== ACKNOWLEDGED) return tell(withUri(note, exposed))
        honoured.push(withUris(readFilter(note.params), exposed))
        heard.resolve()
      }
      // The envelope stays: it is what a server of 2026-07-28 wants of every request.
      const params = call.params.with({ notifications: part })
      const target = { method: call.method, upstream }
      // One answer could not be told from another's, so nothing is asked through this call.
      const client = { ...call.client, nonInteractive: true } as const
      const outcome = handle({ ...call, params, target, client, emit, signal: controller.signal })
      outcome.then(
        () => heard.resolve(),
        () => heard.resolve(),
      )
      return { heard: heard.promise, outcome }
    })
    await Promise.all(streams.map((each) => each.heard))
    acknowledge()
    await Promise.allSettled(streams.map((each) => each.outcome))
    if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
    return { kind: 'result', result: Payload.of({}) }
  } finally {
    call.signal.removeEventListener('abort', stop)
    ended.removeEventListener('abort', stop)
  }
}

function filterFor(
  filter: SubscriptionFilter,
  upstream: string,
  serverOf: (uri: string) => Candidate | undefined,
): SubscriptionFilter {
  const uris = (filter.resourceSubscriptions ?? []).flatMap((uri) => {
    const found = serverOf(uri)
    return found?.upstream === upstream ? [found.name] : []
  })
  const { resourceSubscriptions: _all, ...rest } = filter
  return { ...rest, ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}

function joined(filters: readonly SubscriptionFilter[]): SubscriptionFilter {
  const uris = filters.flatMap((each) => each.resourceSubscriptions ?? [])
  return { ...Object.assign({}, ...filters), ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}
