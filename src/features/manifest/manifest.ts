/** The manifest of servers: as a tool, at `/capabilities`, and in discovery. */
import { createHash } from 'node:crypto'
import type { Call, Handler, Notification, Outcome, Middleware } from '../../core/call.ts'
import type { ServerRecord } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { manifestOf, manifestVersion } from '../../descriptions/formats/manifest.ts'
import { cardType, catalogEntry, serverCard } from '../../descriptions/formats/registry.ts'
import { countedOf } from '../../descriptions/formats/tool-notes.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { isApart, quotaData, latencyOf } from '../../descriptions/model/facts.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { ACKNOWLEDGED } from '../../protocol/subscription-filter.ts'
import { answered, pageOf } from '../builtin-tool.ts'
import { introducing, descriptionSoon, describedList } from '../describing.ts'
import type { Feature, BuiltinPage, BuiltinTool } from '../feature.ts'
import { acknowledged, listsWanted, withListChanged } from '../list-changes.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'descriptions' | 'pages' | 'features' | 'gateway'>

/** The settings of the manifest: times in milliseconds, sizes in bytes. */
interface Settings {
  readonly ttl: number
  readonly inline: number
  readonly listed?: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings of the manifest. */
const settingsSchema = {
  type: 'object',
  description: 'The service manifest: what each tool does, costs and needs, in one document for programs.',
  properties: {
    ttl: {
      ...durationSchema,
      default: '60s',
      description: 'How long a manifest may be kept before it is asked for again.',
    },
    inline: {
      ...sizeSchema,
      default: '16KB',
      description: 'How large a manifest may be to be sent along when a client connects.',
    },
    listed: {
      type: 'boolean',
      description: 'Whether `get_manifest` stands in lists of tools; as `meta_tools` says unless given.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description:
        'Whether the members of the manifest also stand at the top of the result of `get_manifest`.',
    },
  },
} as const

const NAME = 'manifest'

/** Tells programs what a server does, costs and needs, before they call it. */
export const manifest: Feature<Settings | false> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const said = introducing(async (call) => {
      const own = settings(call.target.upstream)
      if (own === false) return undefined
      const description = await descriptionSoon(NAME, call, deps)
      const path = call.target.upstream === undefined ? '' : `/${call.target.upstream}`
      const url = deps.pages.url(`/capabilities${path}`)
      const made = description && (await smallManifest(description, own.inline, { call, deps }))
      return {
        extensions: {
          [META_KEY]: {
            manifestVersion,
            ttlSeconds: Math.round(own.ttl / 1000),
            ...(url !== undefined && { url }),
            ...(deps.gateway.hasTools && { tool: definition.name }),
          },
        },
        ...(made && { meta: { [META_KEY]: made } }),
      }
    })
    const changes = telling(deps, (upstream) => settings(upstream) !== false)
    return {
      tools: [toolOf(settings, deps)],
      pages: pagesOf(settings, deps),
      responseMiddleware: (method) => {
        if (method === 'server/discover') return (next) => said(changes.declared(next))
        return method === 'subscriptions/listen' ? changes.heard : undefined
      },
      close: async () => changes.close(),
    }
  },
}

type Json = Readonly<Record<string, unknown>>

/** The manifest with what is left, where it is no larger than so many bytes. */
async function smallManifest(
  description: ServerDescription,
  most: number,
  asked: Asked,
): Promise<Json | undefined> {
  const fits = (value: Json): boolean => Buffer.byteLength(JSON.stringify(value)) <= most
  const lasting = asked.deps.descriptions.document(description, 'manifest', manifestOf)
  // What is left is only counted where it will be told.
  const made = fits(lasting) ? await withRemainingQuota(lasting, description, asked) : undefined
  return made && fits(made) ? made : undefined
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

type SettingsFor = (upstream?: string) => Settings | false

function toolOf(settings: SettingsFor, deps: Deps): BuiltinTool {
  return {
    definition,
    isListed: (upstream) => listedBy(settings(upstream)),
    handle: async (call) => {
      const own = settings(call.target.upstream)
      const { whole: made } = await manifestFor(call, deps)
      const { _meta: meta, ...members } = made
      const ttl = own === false ? 0 : own.ttl
      return answered({
        ...(own !== false && own.compat && members),
        content: [{ type: 'text', text: JSON.stringify(made) }],
        structuredContent: made,
        _meta: { ...Object(meta), ttlMs: ttl, cacheScope: 'private' },
      })
    },
  }
}

function listedBy(settings: Settings | false): boolean | undefined {
  return settings === false ? undefined : settings.listed
}

async function manifestFor(
  call: Call,
  deps: Deps,
): Promise<{ readonly lasting: Json; readonly whole: Json }> {
  const description = await describedList(NAME, call, deps)
  const lasting = deps.descriptions.document(description, 'manifest', manifestOf)
  return { lasting, whole: await withRemainingQuota(lasting, description, { call, deps }) }
}

function pagesOf(settings: SettingsFor, deps: Deps): BuiltinPage[] {
  const maxAge = (call: Call): number => {
    const own = settings(call.target.upstream)
    return own === false ? 0 : Math.round(own.ttl / 1000)
  }
  const capabilities: Handler = async (call) => {
    const { lasting, whole } = await manifestFor(call, deps)
    return pageOf({
      text: JSON.stringify(whole),
      type: 'application/json',
      maxAge: maxAge(call),
      ...(whole !== lasting && { lasting: JSON.stringify(lasting) }),
    })
  }
  const card: Handler = async (call) => {
    const found = deps.descriptions.document(await describedList(NAME, call, deps), 'card', serverCard)
    return pageOf({ text: JSON.stringify(found), type: cardType, maxAge: maxAge(call) })
  }
  const catalogue: Handler = async (call) =>
    pageOf({
      text: JSON.stringify({ specVersion: '1.0', entries: await entriesOf(deps) }),
      type: 'application/json',
      maxAge: maxAge(call),
    })
  return [
    { path: '/capabilities', handle: capabilities },
    { path: '/capabilities/*', handle: capabilities },
    { path: '/mcp/server-card', handle: card },
    { path: '/mcp/*/server-card', handle: card },
    // It names where cards are, and has to be readable before a client has a token.
    { path: '/.well-known/mcp/catalog.json', isOpen: () => true, handle: catalogue },
  ]
}

/** An entry for all servers together where there are several, and one for each. */
async function entriesOf(deps: Deps): Promise<unknown[]> {
  const names = deps.servers.names().filter((name) => deps.features.isOn(NAME, name))
  const asked = names.length > 1 ? [undefined, ...names] : names
  const descriptions = await Promise.all(asked.map(async (name) => deps.descriptions.of(name)))
  return descriptions.flatMap((description: ServerDescription, index) => {
    // There is nothing to connect to that all of them are at.
    if (isApart(description)) return []
    const name = asked[index]
    const url = deps.pages.url(name === undefined ? '/mcp/server-card' : `/mcp/${name}/server-card`)
    return url === undefined
      ? []
      : [deps.descriptions.document(description, 'entry', (each) => catalogEntry(each, url))]
  })
}

interface Asked {
  readonly call: Call
  readonly deps: Deps
}

/** A manifest with what is left to its reader just then: of the rates of the server, and of each tool with its own. */
async function withRemainingQuota(
  manifest: Json,
  description: ServerDescription,
  { call, deps }: Asked,
): Promise<Json> {
  const [only, ...others] = deps.servers.names()
  const upstream = call.target.upstream ?? (others.length === 0 ? only : undefined)
  if (!deps.features.isOn('quota', upstream)) return manifest
  const { principal } = call
  const counted = countedOf(description.tools)
  const [whole, ...own] = await Promise.all([
    deps.features.remainingQuota(principal, upstream),
    ...description.tools.map(async (tool) =>
      counted.has(tool) && deps.features.isOn('quota', tool.upstream)
        ? deps.features.remainingQuota(principal, tool.upstream, String(tool.definition.name))
        : undefined,
    ),
  ])
  if (!whole && own.every((each) => each === undefined)) return manifest
  const { rate_limits: rates, tools } = manifest
  const { of: _of, ...left } = whole ? quotaData(whole) : {}
  return {
    ...manifest,
    // As many tools as in the description, in its order.
    tools: Array.isArray(tools) ? tools.map((tool: Json, at) => withQuota(tool, own[at])) : [],
    ...(whole && { rate_limits: { ...(isObject(rates) && rates), ...left } }),
  }
}

function withQuota(tool: Json, left: Parameters<typeof quotaData>[0] | undefined): Json {
  return left ? { ...tool, quota: quotaData(left) } : tool
}

// Notifies listeners when what a manifest says of tools changes.

/** Tells listening clients when something of a manifest changes that its server does not tell of itself. */
interface Telling {
  /** Says so where a server is discovered. */
  readonly declared: Middleware
  /** Tells those who listen. */
  readonly heard: Middleware
  close(): void
}

/** How often what was seen of calls is looked at, in milliseconds, while there are listeners. */
const POLL_INTERVAL_MS = 10_000

/** Notifications of changed tools for listeners. */
const CHANGED = 'notifications/tools/list_changed'

/** Watches what manifests are made of; nothing is asked of servers for it. */
export function telling(deps: Deps, isOn: (upstream?: string) => boolean): Telling {
  const listeners = new Map<object, { readonly upstream: string | undefined; tell(): void }>()
  const known = new Map<string, ReadonlyMap<string, string>>()
  let isHearing = false
  let timer: NodeJS.Timeout | undefined

  const look = (upstream: string): void => {
    const record = deps.servers.records().last(upstream)
    const before = known.get(upstream)
    if (!record) return
    const after = marksOf(record)
    known.set(upstream, after)
    if (!before || !isChanged(before, after, tellsItself(record))) return
    for (const listener of listeners.values()) {
      if (listener.upstream === undefined || listener.upstream === upstream) listener.tell()
    }
  }
  const start = (): void => {
    if (!isHearing) deps.servers.records().onChange((upstream) => listeners.size > 0 && look(upstream))
    isHearing = true
    deps.servers.names().forEach(look)
    timer ??= setInterval(() => deps.servers.names().forEach(look), POLL_INTERVAL_MS).unref()
  }
  const stop = (): void => {
    clearInterval(timer)
    timer = undefined
    known.clear()
  }

  const listen = async (call: Call, next: (call: Call) => Promise<Outcome>): Promise<Outcome> => {
    const { upstream } = call.target
    const listener = {}
    // Earlier changes go to the earlier listeners.
    start()
    const emit = (note: Notification): void => {
      if (note.method !== ACKNOWLEDGED) return call.emit(note)
      // Whoever asked for it hears of changed tools, whether the server tells of them or not.
      call.emit(acknowledged(note, ['tools']))
      // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
      listeners.set(listener, { upstream, tell: () => call.emit({ method: CHANGED }) })
    }
    try {
      return await next({ ...call, emit })
    } finally {
      listeners.delete(listener)
      if (listeners.size === 0) stop()
    }
  }

  return {
    declared: (next) => (call) => (isOn(call.target.upstream) ? next(call).then(declared) : next(call)),
    heard: (next) => (call) =>
      isOn(call.target.upstream) && listsWanted(call).includes('tools') ? listen(call, next) : next(call),
    close: stop,
  }
}

function declared(outcome: Outcome): Outcome {
  if (outcome.kind === 'input_required') return outcome
  return { kind: 'result', result: withListChanged(outcome.result, ['tools']) }
}

function tellsItself({ capabilities: { tools } }: ServerRecord): boolean {
  return isObject(tools) && tools.listChanged === true
}

/** A mark of each tool that is another one when anything of it is that the server does not tell of. */
function marksOf(record: ServerRecord): Map<string, string> {
  const { tools } = record
  const isTold = tellsItself(record)
  return new Map(
    tools.map(({ entry, facts, statistics: seen }) => {
      const shown = seen && [latencyOf({ words: {}, statistics: seen }), seen.types, seen.hasCursor]
      const text = JSON.stringify([isTold ? '' : entry.definition, facts, shown])
      return [entry.name, createHash('sha256').update(text).digest('base64url').slice(0, 22)]
    }),
  )
}

/** Whether anything changed; of a server that tells of its own list, only what the gateway knows of the same tools. */
function isChanged(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
  isTold: boolean,
): boolean {
  const isOther = [...after].some(([name, mark]) => before.has(name) && before.get(name) !== mark)
  if (isTold) return isOther
  return isOther || before.size !== after.size || [...after.keys()].some((name) => !before.has(name))
}
