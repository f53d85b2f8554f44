/**
 * The feature `events`: events for servers that have none. Sources append what happens to the log of a server; followers
 * read it for clients, and sinks send it to them. Clients of 2026-07-28 poll or stream events by the events extension
 * (SEP-3415), or get them by webhooks, as some older clients do (`dialects/extension.ts`); `dialects/proposal.ts` serves
 * clients of all revisions without the extension.
 */
import { isStoreShared } from '../../core/settings.ts'
import { type Call, compose, type Middleware } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import type { Feature, Services, SettingsOf } from '../feature.ts'
import { eventTrials, eventTypes, publishing, toolFacts } from '../offers.ts'
import { declaring, forItsClients, readingMethods } from './dialects/extension.ts'
import { proposal } from './dialects/proposal.ts'
import { ServerEvents } from './server-events.ts'
import { WebhookDeliveries } from './sinks/webhook-deliveries.ts'
import { webhookMethods } from './sinks/webhook-methods.ts'
import { hookEvents } from './sources/hooks.ts'
import { notifiedEvents } from './sources/notifications.ts'
import { addPublished, ownEvents } from './sources/own.ts'
import { relayedEvents } from './sources/relayed.ts'
import { watchedEvents } from './sources/watches.ts'
import { writeEvents } from './sources/writes.ts'
import { type EventCatalog, type EventSource, type SourceContext, TypeChanges } from './types.ts'
import { createDialer } from '../dialer.ts'
import { type EventSettings, type Writes, eventsSchema } from '../settings/effect.ts'

/** Publishes what happens at a server. */
export const events: Feature<EventSettings | false> = {
  ...eventsSchema,
  create: (settings, deps) => {
    const logs = new Map<string | undefined, ServerEvents>()
    const eventsOf = (upstream: string | undefined): ServerEvents => {
      const known = logs.get(upstream)
      if (known) return known
      const own = settings(upstream)
      const added = new ServerEvents(deps.store, upstream, {
        ttl: own === false ? DEFAULT_KEEP_MS : own.keep,
        isShared: isStoreShared(deps.gateway.settings),
        redactor: deps.gateway.redactor,
      })
      logs.set(upstream, added)
      return added
    }
    const upstreams = (): readonly string[] => deps.servers.names().filter((name) => settings(name) !== false)
    const writes = (upstream: string): Writes => {
      const own = settings(upstream)
      return own === false ? 'off' : own.writes
    }
    const sources = table.map((create) => create({ deps, events: eventsOf, upstreams, writes }))
    const catalog: EventCatalog = { deps, sources, upstreams, events: eventsOf }
    const closing = new AbortController()
    const { max_ttl: maxTtlMs, webhooks } = gatewaySettings(settings, deps)
    const client = proposal(catalog, deps, maxTtlMs)
    const { allow, give_up: giveUpMs, webhook_id: webhookId } = webhooks
    const dialer = createDialer({ allow, proxies: deps.gateway.proxies })
    const deliveries = new WebhookDeliveries({ deps, parts: catalog, dialer, giveUpMs, webhookId })
    const methods = {
      ...readingMethods(catalog, closing.signal),
      ...webhookMethods({ parts: catalog, deps, deliveries, allow, maxTtlMs }),
    }
    const isOn = ({ target: { upstream } }: Call): boolean => settings(upstream) !== false
    const changes = new TypeChanges(isOn, () => sources.forEach((source) => source.forget?.()))
    const listening: Middleware = (next) => changes.subscribe(whereOn(isOn, client.listening)(next))
    return {
      calls: {
        middleware: (target) => {
          const { method, upstream, isBuiltin } = target
          if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
          const own = { ...target, upstream }
          const found = sources.flatMap((source) => source.middleware?.(own) ?? [])
          return found.length === 0 ? undefined : (next) => compose(found, next)
        },
        dryRun: 'absent',
      },
      responseMiddleware: (method) => {
        if (method === 'subscriptions/listen') return listening
        return method === 'server/discover' ? declaring(isOn) : undefined
      },
      builtins: {
        methods: { ...forItsClients(methods), ...client.methods },
        tools: client.tools,
        extensions: () => client.extensions,
      },
      http: {
        routes: client.routes,
        pages: sources.flatMap(({ pages = [] }) => pages),
        receiveHook: async (hook) => {
          for (const source of sources) {
            const received = source.receive?.(hook)
            if (received) return received
          }
          throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
        },
      },
      offers: [
        toolFacts.offer((entry) => {
          const [event] = sources.flatMap((source) => source.eventOf?.(entry) ?? [])
          return event === undefined ? {} : { event }
        }),
        eventTypes.offer((upstream) => sources.flatMap((source) => source.described?.(upstream) ?? [])),
        publishing.offer((upstream, event) =>
          background(addPublished(event, eventsOf(upstream), deps), deps.log),
        ),
        eventTrials.offer(() => ofAll(sources.flatMap((source) => source.trials?.() ?? []))),
      ],
      start: async () => {
        for (const origin of allow) deps.log.warn('events.webhooks_allow', { origin, message: ALLOW_WARNING })
        client.start()
        await deliveries.start()
      },
      problems: () => ofAll(sources.flatMap((source) => source.problems?.() ?? [])),
      close: async () => {
        closing.abort()
        changes.close()
        await client.close()
        await deliveries.close()
        await Promise.all(sources.map(async (source) => source.close?.()))
        for (const log of logs.values()) log.wake()
      },
    }
  },
}

/** The sources. An earlier one hides types of later ones that have the same name: those that a server has itself come first. */
const table: readonly ((context: SourceContext) => EventSource)[] = [
  relayedEvents,
  notifiedEvents,
  writeEvents,
  ownEvents,
  watchedEvents,
  hookEvents,
]

/** What all sources found. */
async function ofAll<Each>(found: readonly Promise<readonly Each[]>[]): Promise<readonly Each[]> {
  return (await Promise.all(found)).flat()
}

const DEFAULT_KEEP_MS = 86_400_000

const ALLOW_WARNING =
  'Callers can have the gateway send requests to this origin, over http and in private networks.'

/** The settings that apply to the gateway as a whole. If events are off but for some servers, those have the defaults. */
function gatewaySettings(
  settings: SettingsOf<EventSettings | false>,
  { servers }: Pick<Services, 'servers'>,
): Pick<EventSettings, 'max_ttl' | 'webhooks'> {
  const [found] = [undefined, ...servers.names()].flatMap((name) => settings(name) || [])
  if (!found) throw new TypeError('Events are on for no server.')
  return found
}

/** A middleware for the calls of servers whose events are on. */
function whereOn(isOn: (call: Call) => boolean, middleware: Middleware): Middleware {
  return (next) => {
    const wrapped = middleware(next)
    return (call) => (isOn(call) ? wrapped(call) : next(call))
  }
}
