/**
 * The feature `events`: events for servers that have none, by the events extension (SEP-3415). Sources are the
 * notifications of a server, the successes of its tools that write, changes that its tools show, webhooks of other
 * services, what the gateway notices itself, and the events of servers that have some. Clients of 2026-07-28 poll or stream
 * them, or get them by webhooks, as some older clients do (`dialects/extension.ts`); `dialects/proposal.ts` serves clients of all revisions
 * without the extension.
 */
import type { Call, Middleware } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import type { Feature, Services, SettingsOf } from '../feature.ts'
import { eventTrials, eventTypes, publishing, toolFacts } from '../offers.ts'
import { WebhookDeliveries } from './deliveries/deliveries.ts'
import { webhookMethods } from './deliveries/subscribe.ts'
import { declaring, forItsClients, readingMethods } from './dialects/extension.ts'
import { proposal } from './dialects/proposal.ts'
import { ServerEvents } from './server-events.ts'
import { Hooks } from './sources/hooks.ts'
import { notifiedEvents } from './sources/notifications.ts'
import { addPublished, ownEvents } from './sources/own.ts'
import { relayedEvents } from './sources/relayed.ts'
import { allWatches, tryWatch, Watches, watchProblems } from './sources/watches.ts'
import { logWrites, successType, writeEvents } from './sources/writes.ts'
import { type EventCatalog, type EventSource, TypeChanges } from './types.ts'
import { createDialer } from '../dialer.ts'
import { type EventSettings, type Writes, eventsSchema } from './settings.ts'

/** Publishes what happens at a server. */
export const events: Feature<EventSettings | false> = {
  ...eventsSchema,
  create: (settings, deps) => {
    const byServer = new Map<string | undefined, ServerEvents>()
    const eventsOf = (upstream: string | undefined): ServerEvents => {
      const known = byServer.get(upstream)
      if (known) return known
      const own = settings(upstream)
      const keep = own === false ? DEFAULT_KEEP_MS : own.keep
      const added = new ServerEvents(deps.store, upstream, {
        ttl: keep,
        isShared: deps.gateway.isStoreShared,
        redactor: deps.gateway.redactor,
      })
      byServer.set(upstream, added)
      return added
    }
    const writesOf = (upstream: string): Writes => {
      const own = settings(upstream)
      return own === false ? 'off' : own.writes
    }
    const relayed = relayedEvents(deps, eventsOf)
    const watches = new Watches(deps, eventsOf)
    const hooks = new Hooks(deps, eventsOf)
    // A server's own events come first: they hide those of the gateway that have the same name.
    const sources: readonly EventSource[] = [
      relayed,
      notifiedEvents(deps, eventsOf),
      writeEvents(deps, writesOf),
      ownEvents(deps),
      watches,
      hooks,
    ]
    const catalog: EventCatalog = {
      deps,
      sources,
      upstreams: () => deps.servers.names().filter((name) => settings(name) !== false),
      events: eventsOf,
    }
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
    const changes = new TypeChanges({ isOn, onChange: () => relayed.forget() })
    const listening: Middleware = (next) => changes.subscribe(whereOn(isOn, client.listening)(next))
    return {
      calls: {
        middleware: (target) => {
          const { method, upstream, isBuiltin } = target
          if (method !== 'tools/call' || isBuiltin || upstream === undefined) return undefined
          return writesOf(upstream) === 'off' ? undefined : logWrites(target, eventsOf(upstream), deps)
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
        pages: hooks.pages(catalog.upstreams()),
        receiveHook: async (hook) => {
          if (hook.isOfServer) {
            if (hook.server === undefined || settings(hook.server) === false)
              throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
            return relayed.receive(hook)
          }
          await hooks.receive(hook)
          return undefined
        },
      },
      offers: [
        toolFacts.offer((entry) => {
          const event = successType(entry, writesOf(entry.upstream))
          return event === undefined ? {} : { event }
        }),
        eventTypes.offer((upstream) => sources.flatMap((source) => source.described?.(upstream) ?? [])),
        publishing.offer((upstream, event) =>
          background(addPublished(event, eventsOf(upstream), deps), deps.log),
        ),
        eventTrials.offer(() =>
          Promise.all(allWatches(catalog.upstreams(), deps).map((each) => tryWatch(each, deps))),
        ),
      ],
      start: async () => {
        for (const origin of allow) deps.log.warn('events.webhooks_allow', { origin, message: ALLOW_WARNING })
        client.start()
        await deliveries.start()
      },
      problems: async () => [
        ...(await watchProblems(allWatches(catalog.upstreams(), deps), deps)),
        ...(await relayed.problems(catalog.upstreams())),
      ],
      close: async () => {
        closing.abort()
        changes.close()
        await client.close()
        await deliveries.close()
        for (const source of sources) source.close?.()
        for (const each of byServer.values()) each.wake()
      },
    }
  },
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
