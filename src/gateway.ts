import type { Readable, Writable } from 'node:stream'
import { createSeal } from './bridge/seal.ts'
import { createCatalog, type Catalog } from './catalog/catalog.ts'
import { createEntries } from './catalog/entries.ts'
import type { Call, Handler } from './core/call.ts'
import type { Entry } from './core/entry.ts'
import { background, type Log } from './core/log.ts'
import { Payload } from './core/payload.ts'
import { anonymous } from './core/principal.ts'
import type { Settings } from './core/settings.ts'
import type { Target } from './core/target.ts'
import { type Listener, listenHttp } from './downstream/listen.ts'
import { renderPage } from './downstream/page.ts'
import { serveStdio } from './downstream/stdio.ts'
import type { Contribution, Deps, SettingsOf } from './features/feature.ts'
import { features } from './features/index.ts'
import { createLog, type Level, withFields } from './observe/log.ts'
import { observe } from './observe/observe.ts'
import { MemoryStore } from './store/memory.ts'
import type { Store } from './store/store.ts'
import type { Variables } from './upstream/child.ts'
import { isSame } from './upstream/same.ts'
import type { Tool } from './upstream/tools.ts'
import { createUpstream, type Status, type Upstream } from './upstream/upstream.ts'
import { warmServers } from './upstream/warm.ts'
import { self } from './core/self.ts'
import type { Mirror } from './wire/headers.ts'
import { latestLegacy } from './wire/revisions.ts'

interface Options {
  /** The environment variables every child process gets. */
  readonly variables: Variables
  readonly log: Log
}

/** Everything between the clients and the servers. */
export interface Gateway {
  readonly handle: Handler
  /** Which arguments of the tool a call names are repeated in headers. */
  mirror(call: Call): Mirror | Promise<Mirror>
  has(upstream: string): boolean
  readonly settings: Settings
  readonly statuses: ReadonlyMap<string, Status>
  /** Every server was tried once. */
  readonly isWarm: boolean
  /** Connects to each server once. Resolves with the names of tools that would collide. */
  warm(): Promise<readonly string[]>
  /** Goes on with other settings. Calls under way end as they began; servers that did not change are kept. */
  reload(settings: Settings): void
  /** Serves clients over HTTP. */
  listen(): Promise<Listener>
  /** Serves one client over a pair of streams, until it closes its side. */
  stdio(input: Readable, output: Writable): Promise<void>
  /** The features that wrap the calls of a target, outermost first, with their settings. */
  chain(target: Target): readonly { readonly feature: string; readonly settings: unknown }[]
  close(): Promise<void>
}

/** Puts all parts together. */
export function createGateway(initial: Settings, { variables, log }: Options): Gateway {
  const kept: Kept = { variables, log, store: new MemoryStore() }
  let current = build(initial, new Map(), kept)
  let warmed: Promise<readonly string[]> | undefined
  let isWarm = false

  const gateway: Gateway = {
    handle: (call) => current.catalog.handle(call),
    mirror: (call) => {
      const { catalog } = current
      const found = catalog.resolve(call)
      const mirrorOf = (each: Call | undefined): Mirror | Promise<Mirror> => {
        const tool = each && toolOf(current, each)
        return tool instanceof Promise ? tool.then((listed) => listed?.mirror ?? []) : (tool?.mirror ?? [])
      }
      return found instanceof Promise ? found.then(mirrorOf) : mirrorOf(found)
    },
    has: (upstream) => current.upstreams.has(upstream),
    get settings() {
      return current.settings
    },
    get statuses() {
      return new Map([...current.upstreams].map(([name, upstream]) => [name, upstream.status]))
    },
    get isWarm() {
      return isWarm
    },
    warm: () => {
      warmed ??= warmUp(current, log).finally(() => {
        isWarm = true
      })
      return warmed
    },
    reload: (settings) => {
      const before = current
      current = build(settings, before.upstreams, kept)
      before.ended.abort()
      before.catalog.close()
      for (const [name, upstream] of before.upstreams) {
        if (current.upstreams.get(name) !== upstream) background(upstream.retire(), log)
      }
      background(Promise.all(before.active.map(async ({ contribution }) => contribution.close?.())), log)
      background(
        warmUp(current, log).then((found) =>
          found.forEach((each) => log.error('config.collision', { names: each })),
        ),
        log,
      )
    },
    listen: () => listen(gateway, log),
    stdio: (input, output) => {
      const { handle } = gateway
      return serveStdio(input, output, {
        handle,
        seal: createSeal(Date.now),
        limit: current.settings.listen.body,
        log,
      })
    },
    chain: (target) =>
      current.active.flatMap(({ name, contribution, settingsOf }) => {
        const settings = settingsOf(target.upstream)
        return settings !== false && contribution.policy?.(target) ? [{ feature: name, settings }] : []
      }),
    close: async () => {
      current.ended.abort()
      current.catalog.close()
      await Promise.allSettled([...current.upstreams.values()].map((upstream) => upstream.close()))
      await Promise.allSettled(current.active.map(async ({ contribution }) => contribution.close?.()))
    },
  }
  return gateway
}

/** A log as the terminal or a collector wants it. */
export function openLog(level: Level, isPretty: boolean): Log {
  return createLog({ level, isPretty })
}

function listen(gateway: Gateway, log: Log): Promise<Listener> {
  let url = ''
  const opened = listenHttp({
    handle: gateway.handle,
    mirror: (call) => gateway.mirror(call),
    has: (upstream) => gateway.has(upstream),
    listen: () => gateway.settings.listen,
    seal: createSeal(Date.now),
    ready: () => ({ isReady: isReady(gateway), checks: Object.fromEntries(gateway.statuses) }),
    page: () =>
      renderPage({
        url: gateway.settings.listen.publicUrl ?? url,
        version: self.version,
        isAggregate: gateway.settings.listen.aggregate,
        rows: [...gateway.statuses].map(([name, status]) => ({ name, state: stateOf(status) })),
      }),
    log,
  })
  return opened.then((listener) => {
    url = listener.url
    return listener
  })
}

/** Each server was tried, and one at least can be reached. */
function isReady({ isWarm, statuses }: Gateway): boolean {
  return isWarm && [...statuses.values()].some(({ problem }) => problem === undefined)
}

function stateOf({ problem, revision }: Status): string {
  if (problem !== undefined) return `unavailable: ${problem}`
  return revision === undefined ? 'starting' : `ready, speaks ${revision}`
}

/** A feature that is on. */
interface Active {
  readonly name: string
  readonly contribution: Contribution
  settingsOf(upstream?: string): unknown
}

interface Built {
  readonly settings: Settings
  readonly upstreams: ReadonlyMap<string, Upstream>
  readonly catalog: Catalog
  readonly active: readonly Active[]
  /** Aborted when other settings take over. */
  readonly ended: AbortController
}

interface Kept {
  readonly variables: Variables
  readonly log: Log
  readonly store: Store
}

function build(settings: Settings, before: ReadonlyMap<string, Upstream>, kept: Kept): Built {
  const { variables, log, store } = kept
  const upstreams = new Map(
    settings.upstreams.map((each) => {
      const kept = before.get(each.name)
      if (kept && isSame(kept.settings, each)) return [each.name, kept]
      return [each.name, createUpstream(each, { variables, log: withFields(log, { upstream: each.name }) })]
    }),
  )
  const entryOf = createEntries()
  const asEntry = (tool: Tool | undefined, upstream: Upstream): Entry | undefined =>
    tool && entryOf(tool.definition, upstream.settings)
  const deps: Deps = {
    log,
    store,
    call: (call) => catalog.handle(call),
    server: (name) => upstreams.get(name)?.settings,
    entry: (call) => {
      const upstream = upstreamOf({ upstreams }, call)
      if (!upstream) return undefined
      const tool = upstream.tool(call)
      return tool instanceof Promise
        ? tool.then((listed) => asEntry(listed, upstream))
        : asEntry(tool, upstream)
    },
  }
  const active = features.flatMap((feature) => {
    const own = settings.features[feature.name]
    if (!own) return []
    const settingsOf = (upstream?: string): unknown =>
      upstream !== undefined && Object.hasOwn(own.upstreams, upstream) ? own.upstreams[upstream] : own.common
    // Checked against the feature's own schema when the configuration was read.
    const contribution = feature.create(settingsOf as SettingsOf<never>, deps)
    return [{ name: feature.name, contribution, settingsOf }]
  })
  const catalog = createCatalog({
    upstreams: new Map([...upstreams].map(([name, upstream]) => [name, upstream.handle])),
    policies: (target) =>
      active.map(({ contribution, settingsOf }) =>
        settingsOf(target.upstream) === false ? undefined : contribution.policy?.(target),
      ),
    observe: observe(log),
    isAggregate: settings.listen.aggregate,
  })
  return { settings, upstreams, catalog, active, ended: new AbortController() }
}

function upstreamOf({ upstreams }: Pick<Built, 'upstreams'>, { target }: Call): Upstream | undefined {
  return target.upstream === undefined ? undefined : upstreams.get(target.upstream)
}

function toolOf(built: Built, call: Call): Tool | undefined | Promise<Tool | undefined> {
  return upstreamOf(built, call)?.tool(call)
}

/** Reaches each server once. Resolves with the names of tools that would collide. */
async function warmUp({ upstreams, catalog, settings, ended }: Built, log: Log): Promise<readonly string[]> {
  const call = ownCall()
  await warmServers(upstreams.values(), call, ended.signal, log)
  return settings.listen.aggregate ? catalog.collisions(call) : []
}

/** A call of the gateway itself. */
function ownCall(): Call {
  return {
    method: 'server/discover',
    params: Payload.of({}),
    target: { method: 'server/discover' },
    principal: anonymous,
    client: { era: 'legacy', revision: latestLegacy.name, capabilities: {} },
    meta: {},
    state: {},
    signal: new AbortController().signal,
    abort: () => undefined,
    facts: new Map(),
    emit: () => undefined,
  }
}
