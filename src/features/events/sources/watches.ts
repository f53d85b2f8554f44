/** Changes that the tools of servers show: events of watches, which the configuration declares. */
import { world } from '../../../core/world.ts'
import type { Finding } from '../../../core/finding.ts'
import { isObject } from '../../../core/json/json.ts'
import type { WatchedEvent } from '../../../core/settings.ts'
import { writtenMismatches } from '../../../core/undo/judge-undo.ts'
import { toolsToCheck } from '../../describing.ts'
import type { Services } from '../../feature.ts'
import type { EventTrial } from '../../offers.ts'
import { type EventSource, type EventType, hasFields, isPermitted } from '../types.ts'
import type { ServerEvents } from '../server-events.ts'
import { contentSchema, declaredFilters, hasScope, omittedSchema } from './declared.ts'
import { LeasedJobs } from './leased-jobs.ts'
import { isPersonal } from './notifications.ts'
import { itemsFor, Watch, WATCHING_BEGAN, type WatchTarget, watchTarget } from './watch.ts'
import { UnreadableItems } from './watch-state.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity'>

/** How many ids a trial reports. */
const TRIAL_IDS = 3
/** How long a trial may take, in milliseconds. */
const TRIAL_TIMEOUT_MS = 30_000

/** The events of watches. A type exists for those who may call its tool with its arguments. */
export class Watches implements EventSource {
  readonly name = 'watches'
  readonly #deps: Deps
  readonly #jobs: LeasedJobs<Watch>
  readonly #events: (upstream: string | undefined) => ServerEvents
  readonly #watches = new Map<string, Watch>()

  constructor(deps: Deps, events: (upstream: string | undefined) => ServerEvents) {
    this.#deps = deps
    this.#events = events
    this.#jobs = new LeasedJobs(deps)
  }

  types(upstream: string | undefined): readonly EventType[] {
    return targetsOf(upstream, this.#deps).map((target) => this.#type(target))
  }

  /** Those that need no scope: descriptions are for all callers. */
  described(upstream: string | undefined): readonly EventType[] {
    const open = targetsOf(upstream, this.#deps).filter(({ settings }) => settings.scope === undefined)
    return open.map((target) => this.#type(target))
  }

  close(): void {
    this.#jobs.close()
  }

  #type(target: WatchTarget): EventType {
    const {
      upstream,
      name,
      settings,
      server,
      call: { tool },
      arguments: given,
    } = target
    const watch = this.#watchOf(target)
    return {
      upstream,
      name,
      description: settings.description ?? `An item in the result of ${settings.watch} was added or changed.`,
      inputSchema: declaredFilters(['change', 'id'], settings),
      payloadSchema: payloadSchema(settings),
      isRequested: (wanted, { data }) =>
        hasFields({ id: data.id, change: data.change, ...(isObject(data.item) && data.item) }, wanted),
      isGap: (_wanted, entry) => entry.name === WATCHING_BEGAN && entry.data.type === name,
      mayReceive: async (_event, caller) => {
        if (!hasScope(caller.principal, settings)) return false
        const called = { upstream: server, method: 'tools/call', name: tool }
        return isPermitted(caller, called, { name: tool, arguments: given }, this.#deps)
      },
      keep: () => this.#jobs.keep(JSON.stringify(['watch', upstream ?? null, name, settings]), () => watch),
      failure: () => watch.failure,
    }
  }

  /** The watch of a target, which remembers when it is due. */
  #watchOf(target: WatchTarget): Watch {
    const key = JSON.stringify([target.upstream ?? null, target.name])
    const known = this.#watches.get(key)
    if (known) return known
    const added = new Watch(target, this.#deps, this.#events(target.upstream))
    this.#watches.set(key, added)
    return added
  }
}

/** The watches of a server, or those of none. The gateway itself has no credentials for servers with personal ones. */
function targetsOf(upstream: string | undefined, deps: Pick<Deps, 'servers'>): readonly WatchTarget[] {
  return declaredWatches(upstream, deps).filter(({ server }) => !isPersonal(server, deps))
}

function declaredWatches(
  upstream: string | undefined,
  { servers }: Pick<Deps, 'servers'>,
): readonly WatchTarget[] {
  const events = [...servers.declaredEvents(upstream)]
  return events.flatMap(([name, event]) =>
    event.kind === 'watch' ? [watchTarget(upstream, name, event)] : [],
  )
}

function payloadSchema(settings: WatchedEvent) {
  return {
    type: 'object',
    properties: {
      id: { type: 'string', description: `What identifies the item: its ${settings.id}.` },
      change: { enum: settings.removed ? ['added', 'changed', 'removed'] : ['added', 'changed'] },
      item: contentSchema(settings, 'The item after the change.'),
      omitted: omittedSchema,
    },
    required: ['id', 'change'],
  }
}

// Checks of the configured watches with what the servers list and return.

/** The watches of all servers whose events are on, and of none. */
export function allWatches(
  upstreams: readonly string[],
  deps: Pick<Deps, 'servers'>,
): readonly WatchTarget[] {
  return [undefined, ...upstreams].flatMap((upstream) => declaredWatches(upstream, deps))
}

/** The mismatches between watches and the tools of their servers. */
export async function watchProblems(
  watches: readonly WatchTarget[],
  deps: Deps,
): Promise<readonly Finding[]> {
  const found = await Promise.all(
    [...new Set(watches.map(({ server }) => server))].map((server) =>
      serverProblems(
        server,
        watches.filter((each) => each.server === server),
        deps,
      ),
    ),
  )
  return found.flat()
}

async function serverProblems(
  server: string,
  watches: readonly WatchTarget[],
  deps: Deps,
): Promise<readonly Finding[]> {
  if (isPersonal(server, deps)) {
    const message = `each user has credentials of ${server}, so the gateway itself cannot call it: remove the watch`
    return watches.map((target) => ({ path: [...pathOf(target), 'watch'], message }))
  }
  const tools = await toolsToCheck(server, deps, 'events.unchecked')
  if (!tools) return []
  return watches.flatMap((target) =>
    writtenMismatches({ expression: target.call, subjects: [], mustRead: true }, server, tools).map(
      (message) => ({ path: [...pathOf(target), 'watch'], message }),
    ),
  )
}

/** Makes the call of a watch once, and says what it found. */
export async function tryWatch(target: WatchTarget, deps: Deps): Promise<EventTrial> {
  const about = { path: pathOf(target), server: target.server }
  try {
    const items = await itemsFor(target, deps, world.timeoutSignal(TRIAL_TIMEOUT_MS))
    return { ...about, found: { items: items.length, ids: items.slice(0, TRIAL_IDS).map(({ id }) => id) } }
  } catch (error) {
    const key = error instanceof UnreadableItems ? error.key : 'watch'
    return { ...about, found: { problem: error instanceof Error ? error.message : String(error), key } }
  }
}

function pathOf({ upstream, name }: WatchTarget): readonly string[] {
  return [...(upstream === undefined ? [] : ['upstreams', upstream]), 'events', name]
}
