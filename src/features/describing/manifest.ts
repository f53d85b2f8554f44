/** The manifest of servers: as a tool, at `/capabilities`, and in `server/discover`. */
import { NS } from '../../core/identity.ts'
import { createHash } from 'node:crypto'
import { type Timer, world } from '../../core/world.ts'
import type { Call, Handler, Notification, Outcome, Middleware } from '../../core/call.ts'
import type { ServerRecord } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import {
  cardType,
  catalogEntry,
  catalogType,
  catalogVersion,
  countedOf,
  draftCatalogEntry,
  manifestOf,
  manifestVersion,
  serverCard,
} from '../../descriptions/formats/manifest.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { isApart, latencyOf, quotaData } from '../../descriptions/model/facts.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import { answered, spread, jsonPage } from '../builtin-tool.ts'
import type { BuiltinPage, BuiltinTool, Feature, Services, SettingsOf } from '../feature.ts'
import { remainingQuota } from '../offers.ts'
import { acknowledged, requestedLists, withListChanged } from '../tool-lists.ts'
import { type ManifestSettings, manifestSchema } from '../settings/describe.ts'
import {
  describedList,
  type DescribingDeps,
  descriptionSoon,
  documentFor,
  extendDiscover,
} from './documents.ts'

type Deps = DescribingDeps & Pick<Services, 'pages' | 'gateway'>

const { name: NAME } = manifestSchema

/** Publishes what a server does, costs and needs, for programs. */
export const manifest: Feature<ManifestSettings | false> = {
  ...manifestSchema,
  create: (settings, deps) => {
    const discoverMiddleware = extendDiscover(async (call) => {
      const own = settings(call.target.upstream)
      if (own === false) return undefined
      const description = await descriptionSoon(NAME, call, deps)
      const path = call.target.upstream === undefined ? '' : `/${call.target.upstream}`
      const url = deps.pages.url(`/capabilities${path}`)
      const manifestJson = description && (await smallManifest(description, own.inline, { call, deps }))
      return {
        extensions: {
          [META_KEY]: {
            manifestVersion,
            ttlSeconds: Math.round(own.ttl / 1000),
            ...(url !== undefined && { url }),
            ...(deps.gateway.settings.metaTools !== 'off' && { tool: definition.name }),
          },
        },
        ...(manifestJson && { meta: { [META_KEY]: manifestJson } }),
      }
    })
    const changes = createChangeNotifier(deps, (upstream) => settings(upstream) !== false)
    return {
      responseMiddleware: (method) => {
        if (method === 'server/discover') return (next) => discoverMiddleware(changes.declare(next))
        return method === 'subscriptions/listen' ? changes.subscribe : undefined
      },
      builtins: {
        methods: { 'manifest/get': async (call) => answered((await manifestFor(call, deps)).complete) },
        tools: [toolOf(settings, deps)],
      },
      http: {
        pages: pagesOf(settings, deps),
      },
      close: async () => changes.close(),
    }
  },
}

type Json = Readonly<Record<string, unknown>>

/** The manifest with remaining quotas, if it is no larger than the limit in bytes. */
async function smallManifest(
  description: ServerDescription,
  maxBytes: number,
  context: ManifestContext,
): Promise<Json | undefined> {
  const fits = (value: Json): boolean => Buffer.byteLength(JSON.stringify(value)) <= maxBytes
  const stable = context.deps.descriptions.document(description, 'manifest', manifestOf)
  // Quotas are only determined if the manifest will be sent.
  const manifestJson = fits(stable) ? await withRemainingQuota(stable, description, context) : undefined
  return manifestJson && fits(manifestJson) ? manifestJson : undefined
}

const META_KEY = `${NS}/manifest`

const definition = {
  name: 'get_manifest',
  title: 'Manifest of this server',
  description:
    'Returns the service manifest: every tool with its risk, confirmation, scopes, cost, latency and limits, as data.',
  inputSchema: { type: 'object', properties: {} },
  annotations: { readOnlyHint: true, idempotentHint: true },
}

function toolOf(settings: SettingsOf<ManifestSettings | false>, deps: Deps): BuiltinTool {
  return {
    definition,
    isListed: (upstream) => (settings(upstream) || {}).listed,
    handle: async (call) => {
      const own = settings(call.target.upstream)
      const { complete: manifestJson } = await manifestFor(call, deps)
      return answered({
        ...(own && own.compat && spread(manifestJson)),
        content: [{ type: 'text', text: JSON.stringify(manifestJson) }],
        structuredContent: manifestJson,
        _meta: { ...Object(manifestJson._meta), ttlMs: own ? own.ttl : 0, cacheScope: 'private' },
      })
    },
  }
}

async function manifestFor(
  call: Call,
  deps: Deps,
): Promise<{ readonly stable: Json; readonly complete: Json }> {
  const description = await describedList(NAME, call, deps)
  const stable = deps.descriptions.document(description, 'manifest', manifestOf)
  return { stable, complete: await withRemainingQuota(stable, description, { call, deps }) }
}

function pagesOf(settings: SettingsOf<ManifestSettings | false>, deps: Deps): BuiltinPage[] {
  const maxAge = ({ target }: Call): number =>
    Math.round((settings(target.upstream) || { ttl: 0 }).ttl / 1000)
  const capabilities: Handler = async (call) => {
    const { stable, complete } = await manifestFor(call, deps)
    const lasting = complete !== stable && { lasting: JSON.stringify(stable) }
    return jsonPage(complete, maxAge(call), { ...lasting })
  }
  const card: Handler = async (call) => {
    const found = await documentFor(NAME, { key: 'card', make: serverCard }, call, deps)
    return jsonPage(found, maxAge(call), { type: cardType })
  }
  const catalog =
    (type: string, entryOf: EntryOf): Handler =>
    async (call) => {
      const entries = await entriesOf(deps, entryOf)
      return jsonPage({ specVersion: catalogVersion, entries }, maxAge(call), { type })
    }
  // A catalog lists server cards, and must be readable before a client has a token.
  const isOpen = (): boolean => true
  return [
    { path: '/capabilities', handle: capabilities },
    { path: '/capabilities/*', handle: capabilities },
    { path: '/mcp/server-card', handle: card },
    { path: '/mcp/*/server-card', handle: card },
    { path: '/.well-known/ai-catalog.json', isOpen, handle: catalog(catalogType, catalogEntry) },
    {
      path: '/.well-known/mcp/catalog.json',
      isOpen,
      handle: catalog('application/json', draftCatalogEntry),
    },
  ]
}

type EntryOf = (server: ServerDescription, cardUrl: string) => Json

/** One entry for each server, and one for all together if there are several. */
async function entriesOf(deps: Deps, entryOf: EntryOf): Promise<unknown[]> {
  const names = deps.servers.names().filter((name) => deps.features.isOn(NAME, name))
  const targets = names.length > 1 ? [undefined, ...names] : names
  const descriptions = await Promise.all(targets.map(async (name) => deps.descriptions.of(name)))
  return descriptions.flatMap((description: ServerDescription, index) => {
    // There is no combined endpoint to connect to.
    if (isApart(description)) return []
    const name = targets[index]
    const url = deps.pages.url(name === undefined ? '/mcp/server-card' : `/mcp/${name}/server-card`)
    return url === undefined ? [] : [entryOf(description, url)]
  })
}

interface ManifestContext {
  readonly call: Call
  readonly deps: Deps
}

/** A manifest with the reader's remaining quotas: of the server, and of each tool with its own limits. */
async function withRemainingQuota(
  manifest: Json,
  description: ServerDescription,
  { call, deps }: ManifestContext,
): Promise<Json> {
  const [only, ...otherNames] = deps.servers.names()
  const upstream = call.target.upstream ?? (otherNames.length === 0 ? only : undefined)
  if (!deps.features.isOn('quota', upstream)) return manifest
  const { principal } = call
  const counted = countedOf(description.tools)
  const [serverQuota, ...toolQuotas] = await Promise.all([
    remainingQuota(deps, principal, upstream),
    ...description.tools.map(async (tool) =>
      counted.has(tool) && deps.features.isOn('quota', tool.upstream)
        ? remainingQuota(deps, principal, tool.upstream, String(tool.definition.name))
        : undefined,
    ),
  ])
  if (!serverQuota && toolQuotas.every((each) => each === undefined)) return manifest
  const { rate_limits: rates, tools } = manifest
  const { of: _of, ...remaining } = serverQuota ? quotaData(serverQuota) : {}
  return {
    ...manifest,
    // The manifest has the tools of the description, in the same order.
    tools: Array.isArray(tools) ? tools.map((tool: Json, at) => withQuota(tool, toolQuotas[at])) : [],
    ...(serverQuota && { rate_limits: { ...(isObject(rates) && rates), ...remaining } }),
  }
}

function withQuota(tool: Json, remaining: Parameters<typeof quotaData>[0] | undefined): Json {
  return remaining ? { ...tool, quota: quotaData(remaining) } : tool
}

/** How often call statistics are checked while there are listeners, in milliseconds. */
const POLL_INTERVAL_MS = 10_000

/** The notification of changed tools. */
const CHANGED = 'notifications/tools/list_changed'

/**
 * Notifies listening clients of changes of the manifest that the server does not announce: it watches the data, without requests
 * to servers. `declare` is for `server/discover`.
 */
export function createChangeNotifier(
  deps: Deps,
  isOn: (upstream?: string) => boolean,
): { readonly declare: Middleware; readonly subscribe: Middleware; close(): void } {
  const listeners = new Map<object, { readonly upstream: string | undefined; notify(): void }>()
  const known = new Map<string, ReadonlyMap<string, string>>()
  /** The servers that were seen to announce changes of their tools: some do without declaring it. */
  const announcing = new Set<string>()
  let isListening = false
  let timer: Timer | undefined

  const check = (upstream: string): void => {
    const record = deps.servers.records().last(upstream)
    const before = known.get(upstream)
    if (!record) return
    const isAnnounced = announcing.has(upstream) || announcesItself(record)
    const after = fingerprintsOf(record, isAnnounced)
    known.set(upstream, after)
    if (!before || !isChanged(before, after, isAnnounced)) return
    for (const listener of listeners.values()) {
      if (listener.upstream === undefined || listener.upstream === upstream) listener.notify()
    }
  }
  const announced = (upstream: string): void => {
    const record = deps.servers.records().last(upstream)
    if (announcing.has(upstream) || !record) return
    announcing.add(upstream)
    known.set(upstream, fingerprintsOf(record, true))
  }
  const start = (): void => {
    if (!isListening) deps.servers.records().onChange((upstream) => listeners.size > 0 && check(upstream))
    isListening = true
    deps.servers.names().forEach(check)
    timer ??= world.setInterval(() => deps.servers.names().forEach(check), POLL_INTERVAL_MS).unref()
  }
  const stop = (): void => {
    world.clearInterval(timer)
    timer = undefined
    known.clear()
  }

  const listen = async (call: Call, next: (call: Call) => Promise<Outcome>): Promise<Outcome> => {
    const { upstream } = call.target
    const listener = {}
    // Changes up to now go to the earlier listeners.
    start()
    const emit = (notification: Notification): void => {
      if (notification.method === CHANGED && upstream !== undefined) announced(upstream)
      if (notification.method !== ACKNOWLEDGED) return call.emit(notification)
      // Subscribers are notified of changed tools, whether or not the server announces them.
      call.emit(acknowledged(notification, ['tools']))
      // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
      listeners.set(listener, { upstream, notify: () => call.emit({ method: CHANGED }) })
    }
    try {
      return await next({ ...call, emit })
    } finally {
      listeners.delete(listener)
      if (listeners.size === 0) stop()
    }
  }

  return {
    declare: (next) => (call) =>
      isOn(call.target.upstream) ? next(call).then(declareListChanged) : next(call),
    subscribe: (next) => (call) =>
      isOn(call.target.upstream) && requestedLists(call).includes('tools') ? listen(call, next) : next(call),
    close: stop,
  }
}

function declareListChanged(outcome: Outcome): Outcome {
  if (outcome.kind !== 'result') return outcome
  return { kind: 'result', result: withListChanged(outcome.result, ['tools']) }
}

function announcesItself({ capabilities: { tools } }: ServerRecord): boolean {
  return isObject(tools) && tools.listChanged === true
}

/** A fingerprint of each tool's data, without what the server announces itself. */
function fingerprintsOf({ tools }: ServerRecord, isAnnounced: boolean): Map<string, string> {
  return new Map(
    tools.map(({ entry, facts, statistics: seen }) => {
      const statisticsView = seen && [latencyOf({ words: {}, statistics: seen }), seen.types, seen.hasCursor]
      const text = JSON.stringify([isAnnounced ? '' : entry.definition, facts, statisticsView])
      return [entry.name, createHash('sha256').update(text).digest('base64url').slice(0, 22)]
    }),
  )
}

/** Whether anything changed; for servers that announce their lists, only the gateway's data about the same tools counts. */
function isChanged(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  isAnnounced: boolean,
): boolean {
  const isDifferent = [...after].some(
    ([name, fingerprint]) => before.has(name) && before.get(name) !== fingerprint,
  )
  if (isAnnounced) return isDifferent
  return isDifferent || before.size !== after.size || [...after.keys()].some((name) => !before.has(name))
}
