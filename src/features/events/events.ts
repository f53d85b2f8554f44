/**
 * The feature `events`: events for servers that have none, by the events extension (SEP-3415). Sources are the
 * notifications of a server, and the successes of its tools that write. Clients of 2026-07-28 poll or stream them.
 */
import type { Call, Handler, Middleware, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { durationSchema } from '../../core/time/units.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { eventsExtension, NS } from '../../protocol/meta-keys.ts'
import { unknownMethod } from '../../protocol/methods.ts'
import { answered } from '../builtin-tool.ts'
import type { Feature } from '../feature.ts'
import { Listeners } from './listeners.ts'
import {
  type EventRequest,
  nextBatch,
  type Parts,
  readCount,
  readRequest,
  sealCursor,
  typesFor,
} from './requests.ts'
import { type LoggedEvent, ServerEvents } from './server-events.ts'
import { EventStream } from './stream.ts'
import { logWrites } from './writes.ts'

interface Settings {
  readonly writes: 'own' | 'all' | 'off'
  readonly keep: number
}

/** Publishes what happens at a server. */
export const events: Feature<Settings | false> = {
  name: 'events',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description: 'Events of servers: changes that they notify, and successes of their tools that write.',
    properties: {
      writes: {
        enum: ['own', 'all', 'off'],
        default: 'own',
        errorMessage: 'must be own, all or off',
        description:
          'Whose successful calls of tools that write are events for a caller: its own (`own`), or those of all callers, with their arguments, if the caller may make the same call (`all`).',
      },
      keep: {
        ...durationSchema,
        default: '24h',
        description: 'How long events are kept for callers that request them later.',
      },
    },
  },
  create: (settings, deps) => {
    const byServer = new Map<string, ServerEvents>()
    const eventsOf = (upstream: string): ServerEvents => {
      const own = settings(upstream)
      const known = byServer.get(upstream)
      if (known) return known
      const added = new ServerEvents(deps.store, upstream, own === false ? DEFAULT_TTL_MS : own.keep)
      byServer.set(upstream, added)
      return added
    }
    const writesOf = (upstream: string): Settings['writes'] => {
      const own = settings(upstream)
      return own === false ? 'off' : own.writes
    }
    const parts: Parts = {
      deps,
      upstreams: () => deps.servers.names().filter((name) => settings(name) !== false),
      writes: writesOf,
      events: eventsOf,
    }
    const listeners = new Listeners(deps, eventsOf)
    const closing = new AbortController()
    const context = { parts, listeners, closing: closing.signal }
    const isOn = ({ target: { upstream } }: Call): boolean => settings(upstream) !== false
    return {
      methods: {
        'events/list': modernOnly((call) => list(call, parts)),
        'events/poll': modernOnly((call) => poll(call, context)),
        'events/stream': modernOnly((call) => stream(call, context)),
      },
      middleware: (target) => {
        const { method, upstream, isBuiltin } = target
        if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
        return writesOf(upstream) === 'off' ? undefined : logWrites(target, eventsOf(upstream), deps)
      },
      publish: (upstream, event) => background(eventsOf(upstream).add(event), deps.log),
      responseMiddleware: (method) => (method === 'server/discover' ? declaring(isOn) : undefined),
      close: async () => {
        closing.abort()
        listeners.close()
        for (const each of byServer.values()) each.wake()
      },
    }
  },
}

interface Context {
  readonly parts: Parts
  readonly listeners: Listeners
  readonly closing: AbortSignal
}

const DEFAULT_TTL_MS = 86_400_000
/** How many types a page of `events/list` holds. */
const PAGE_SIZE = 200
/** How many events a poll returns by default, and at most. */
const DEFAULT_POLL_EVENTS = 100
const MAX_POLL_EVENTS = 500
/** How long a client should wait before it polls again, in milliseconds. */
const NEXT_POLL_MS = 5000

/** The extension belongs to 2026-07-28: for older clients these methods do not exist. */
function modernOnly(answer: Handler): Handler {
  return async (call) => {
    if (call.client.era !== 'modern') throw unknownMethod(call.method)
    return answer(call)
  }
}

/** Declares the extension in the result of `server/discover`, also under the key of its first drafts. */
function declaring(isOn: (call: Call) => boolean): Middleware {
  return (next) => async (call) => {
    const outcome = await next(call)
    if (outcome.kind !== 'result' || call.client.era !== 'modern' || !isOn(call)) return outcome
    const capabilities = outcome.result.at('capabilities') ?? Payload.of({})
    const extensions = (capabilities.at('extensions') ?? Payload.of({})).with({ [eventsExtension]: {} })
    const declared = capabilities.with({ extensions, events: {} })
    return { kind: 'result', result: outcome.result.with({ capabilities: declared }) }
  }
}

async function list(call: Call, parts: Parts): Promise<Outcome> {
  const { cursor = null } = call.params.fields
  if (cursor !== null && (typeof cursor !== 'string' || !/^\d{1,9}$/.test(cursor))) {
    throw new GatewayError('INVALID_INPUT', 'Invalid params: the cursor is not one of events/list.', {
      field: 'cursor',
      reason: 'unknown',
    })
  }
  const start = Number(cursor ?? 0)
  const types = await typesFor(call, parts)
  const page = types.slice(start, start + PAGE_SIZE).map(({ name, type }) => {
    const { description, inputSchema, payloadSchema } = type
    return { name, description, delivery: ['poll', 'push'], inputSchema, payloadSchema }
  })
  const next = start + PAGE_SIZE
  return answered({ events: page, ...(next < types.length && { nextCursor: String(next) }) })
}

async function poll(call: Call, { parts, listeners }: Context): Promise<Outcome> {
  const limit = readCount(call, 'maxEvents') ?? DEFAULT_POLL_EVENTS
  const request = await readRequest(call, parts)
  const { seal } = parts.deps.identity
  await keepListening(call, request, listeners)
  if (request.from === 'now') {
    const cursor = sealCursor(await parts.events(request.type.upstream).log.end(), call, request, seal)
    return answered({ events: [], cursor, truncated: false, hasMore: false, nextPollMs: NEXT_POLL_MS })
  }
  const position = request.from === 'unknown' ? undefined : request.from.position
  const size = Math.min(Math.max(limit, 1), MAX_POLL_EVENTS)
  const batch = await nextBatch(request, call, { position, limit: size }, parts)
  return answered({
    events: batch.events.map(({ event }) => occurrence(event, request)),
    cursor: sealCursor(batch.position, call, request, seal),
    truncated: batch.isTruncated || request.from === 'unknown',
    hasMore: batch.hasMore,
    nextPollMs: NEXT_POLL_MS,
  })
}

/** Answers `events/stream`: lasts until the client closes it, or the gateway stops or loads another configuration. */
async function stream(call: Call, { parts, listeners, closing }: Context): Promise<Outcome> {
  const request = await readRequest(call, parts)
  const { upstream } = request.type
  await keepListening(call, request, listeners)
  const { seal } = parts.deps.identity
  const from = request.from === 'now' ? { position: await parts.events(upstream).log.end() } : request.from
  const signal = AbortSignal.any([call.signal, closing])
  const opened = new EventStream({
    call,
    signal,
    isTruncated: from === 'unknown',
    next: (position, limit) => nextBatch(request, call, { position, limit }, parts),
    changed: () => parts.events(upstream).changed(signal),
    keep: () => keepListening(call, request, listeners),
    cursor: (position) => sealCursor(position, call, request, seal),
    occurrence: (event) => occurrence(event, request),
  })
  await opened.run(from === 'unknown' ? undefined : from.position)
  if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The stream of events was cancelled.')
  return { kind: 'result', result: Payload.of({}) }
}

function keepListening({ principal }: Call, request: EventRequest, listeners: Listeners): Promise<void> {
  const { uri } = request.arguments
  return listeners.keep(request.type, typeof uri === 'string' ? uri : undefined, principal)
}

/** An event as its clients receive it. Its data was written by servers and other callers. */
function occurrence({ id, at, data }: LoggedEvent, { name }: EventRequest) {
  return { eventId: id, name, timestamp: isoTime(at), data, _meta: { [`${NS}/untrusted`]: true } }
}
