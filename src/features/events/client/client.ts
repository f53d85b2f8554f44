/**
 * Events for clients without the events extension: subscriptions by methods and tools, events on the streams that such
 * clients have, and polling where they have none.
 */
import type { Handler, Middleware } from '../../../core/call.ts'
import { background } from '../../../core/log.ts'
import { EventSubscriptions } from '../../../records/event-subscriptions.ts'
import type { BuiltinRoute, BuiltinTool, Services } from '../../feature.ts'
import type { Parts } from '../requests.ts'
import { type ClientParts, Delivery, endPush, sendEnding } from './delivery.ts'
import { keepSubscriptions } from './kept-subscriptions.ts'
import { EVENTS_KEY, listening } from './listen.ts'
import { clientMethods, type OpenPush } from './methods.ts'
import { type Push, Pushes } from './pushes.ts'
import { clientTools } from './tools.ts'

type Deps = Pick<Services, 'log' | 'store' | 'scope' | 'gateway'>

/** What one runtime does for these clients. */
export interface ClientFace {
  readonly methods: Readonly<Record<string, Handler>>
  readonly tools: readonly BuiltinTool[]
  readonly routes: readonly BuiltinRoute[]
  readonly extensions: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Wraps `subscriptions/listen`. */
  readonly listening: Middleware
  /** Goes on with what an earlier runtime sent, and keeps the sources of all subscriptions open. */
  start(): void
  close(): Promise<void>
}

/** The subscriptions of clients, in one runtime. */
export function clientFace(events: Parts, deps: Deps, maxTtlMs: number): ClientFace {
  const { log, store, scope, gateway } = deps
  const pushes = scope.once(Pushes)
  const runtime = {}
  pushes.takeOver(runtime)
  const parts: ClientParts = { events, subscriptions: new EventSubscriptions(store), pushes, maxTtlMs }
  const ended = new AbortController()
  const running = new WeakSet<Push>()
  const run = (push: Push): void => {
    if (running.has(push)) return
    running.add(push)
    background(new Delivery(push, parts, ended.signal).run(), log)
  }
  const open: OpenPush = (opened) => {
    const push = ended.signal.aborted ? undefined : pushes.add(opened)
    if (push) run(push)
    return push !== undefined
  }
  const stop = (): void => {
    ended.abort()
    for (const push of pushes.values()) sendEnding(push, 'shutdown')
  }
  // At once: the streams of sessions end next.
  gateway.closing.addEventListener('abort', stop, { signal: ended.signal })
  const methods = clientMethods(parts, open)
  return {
    methods: {
      'event/subscribe': methods.subscribe,
      'event/unsubscribe': methods.unsubscribe,
      'event/list': methods.list,
      'event/poll': methods.poll,
    },
    tools: clientTools(methods),
    routes: [
      { verb: 'POST', path: '/subscribe', handle: methods.subscribe },
      { verb: 'POST', path: '/unsubscribe', handle: methods.unsubscribe },
      { verb: 'GET', path: '/events/:subscription_id', isStream: true, handle: methods.stream },
    ],
    extensions: { [EVENTS_KEY]: {} },
    listening: listening(parts, open),
    start: () => {
      for (const push of pushes.values()) run(push)
      background(keepSubscriptions(parts, ended.signal), log)
    },
    close: async () => {
      ended.abort()
      // The next runtime goes on with them, unless it has no events.
      if (gateway.closing.aborted || !pushes.isSender(runtime)) return
      await Promise.allSettled(pushes.values().map((push) => endPush(push, 'upstream_gone', parts)))
    },
  }
}
