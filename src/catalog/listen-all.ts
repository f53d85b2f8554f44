import type { Call, Handler, Note, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { ACKNOWLEDGED, type Filter, readFilter } from '../wire/filter.ts'
import { exposedUri, uriOf } from './names.ts'

/** One listening call that hears several servers; it ends when the set of servers changes. */
export async function listenToAll(
  call: Call,
  names: readonly string[],
  handle: Handler,
  ended: AbortSignal,
): Promise<Outcome> {
  const filter = readFilter(call.params)
  const controller = new AbortController()
  const stop = (): void => controller.abort(call.signal.reason)
  const honoured: Filter[] = []
  const acknowledge = (): void => {
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: joined(honoured) }) })
  }
  call.signal.addEventListener('abort', stop)
  ended.addEventListener('abort', stop)
  try {
    const streams = names.map((upstream) => {
      const part = filterFor(filter, upstream, names)
      const heard = Promise.withResolvers<void>()
      const emit = (note: Note): void => {
        if (note.method !== ACKNOWLEDGED) return call.emit(named(note, upstream))
        honoured.push(namedFilter(readFilter(note.params), upstream))
        heard.resolve()
      }
      const params = Payload.of({ notifications: part })
      const target = { method: call.method, upstream }
      // One answer could not be told from another's, so nothing is asked through this call.
      const client = { ...call.client, isMute: true } as const
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

function filterFor(filter: Filter, upstream: string, names: readonly string[]): Filter {
  const uris = (filter.resourceSubscriptions ?? []).flatMap((uri) => {
    const found = uriOf(uri, names)
    return found?.upstream === upstream ? [found.name] : []
  })
  const { resourceSubscriptions: _all, ...rest } = filter
  return { ...rest, ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}

function namedFilter(filter: Filter, upstream: string): Filter {
  const uris = filter.resourceSubscriptions?.map((uri) => exposedUri(upstream, uri))
  return { ...filter, ...(uris && { resourceSubscriptions: uris }) }
}

function joined(filters: readonly Filter[]): Filter {
  const uris = filters.flatMap((each) => each.resourceSubscriptions ?? [])
  return { ...Object.assign({}, ...filters), ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}

function named(note: Note, upstream: string): Note {
  const uri = note.params?.fields.uri
  if (note.method !== 'notifications/resources/updated' || typeof uri !== 'string') return note
  return { ...note, ...(note.params && { params: note.params.with({ uri: exposedUri(upstream, uri) }) }) }
}
