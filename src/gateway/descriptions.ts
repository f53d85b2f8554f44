/**
 * Creates descriptions of servers from their records, cached until a record changes. Callers with fewer scopes, and clients of a
 * profile, receive a filtered description. Secrets of the configuration are removed from every document.
 */
import { listAllPages } from '../protocol/listing.ts'
import { exposedName, namingOf, sharedNames } from '../catalog/names.ts'
import type { Call, Handler } from '../core/call.ts'
import type { ServerRecords, ServerRecord } from '../core/descriptor.ts'
import { onlyServer, type ProfileSettings, type Settings, type UpstreamSettings } from '../core/settings.ts'
import { profileSlot } from '../core/slot.ts'
import { aliasOf } from '../core/text/alias.ts'
import type { Redactor } from '../core/text/redactor.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { DescribedEventType } from '../features/offers.ts'
import type { DescriptionService } from '../features/feature.ts'
import { world } from '../core/world.ts'
import { isObject } from '../core/json/json.ts'
import { ownUri } from '../catalog/strict-names.ts'
import { describeAllServers, describeServer, frontOf, type Naming } from '../descriptions/model/describe.ts'
import { latencyOf } from '../descriptions/model/facts.ts'
import { oneLine } from '../descriptions/model/text.ts'

interface DescriptionSources {
  readonly settings: Settings
  records(): ServerRecords
  /** Whether a server is currently reachable. */
  isUp(upstream: string): boolean
  /** Whether a feature is on for a server or, without a name, at all. */
  isOn(feature: string, upstream?: string): boolean
  /** The types of events of a server, or those of none, that no tool has. */
  eventTypes(upstream: string | undefined): readonly DescribedEventType[]
  /** Callers are authenticated, or the profile is `corporate`. */
  readonly isGuarded: boolean
  /** The URL of a page of the gateway; undefined if it serves none. */
  page(path: string): string | undefined
  /** Whether the lists of a server are filtered for some callers. */
  isHiding(upstream: string | undefined): boolean
  /** Handles a call of a client. */
  readonly handle: Handler
  readonly redactor: Redactor
}

/** The description service of features, plus what the gateway itself needs. */
export interface Descriptions extends DescriptionService {
  /** Removes secrets of the configuration from a document. */
  clean<Document>(made: Document): Document
}

/** How long a description is used without a check for changes, in milliseconds. */
const STALE_AFTER_MS = 10_000
/** How many documents of a description are cached, and filtered descriptions for how many sets of scopes. */
const MAX_DOCUMENTS = 500
const MAX_SCOPE_SETS = 100

/** A description, and the key of the records it was created from. */
interface CachedDescription {
  readonly key: string
  readonly description: ServerDescription
  readonly up: string
  readonly until: number
}

/** Creates the service. A description is created again only when its records changed. */
export function createDescriptions(options: DescriptionSources): Descriptions {
  const { settings, isUp, page, isHiding, redactor } = options
  const servers = new Map(settings.upstreams.map((each) => [each.name, each]))
  const only = onlyServer(settings)
  const cached = new Map<string | undefined, CachedDescription>()
  let known: ServerRecords | undefined
  const records = (): ServerRecords => {
    if (known) return known
    known = options.records()
    known.onChange((changed) => {
      for (const name of [changed, undefined]) {
        const last = cached.get(name)
        if (last) cached.set(name, { ...last, until: 0 })
      }
    })
    return known
  }
  const namesOf = (upstream: string | undefined): readonly string[] =>
    upstream === undefined ? [...servers.keys()] : [upstream]
  const upOf = (names: readonly string[]): string => `${page('/')} ${names.map(isUp).join()}`

  const refresh = (upstream: string | undefined, found: readonly ServerRecord[]): ServerDescription => {
    const up = upOf(namesOf(upstream))
    const key = JSON.stringify([up, ...found.map(versionOf)])
    const before = cached.get(upstream)
    const description =
      before?.key === key ? before.description : describeOf(found, upstream, { options, servers })
    cached.set(upstream, { key, description, up, until: world.monotonic() + STALE_AFTER_MS })
    return description
  }

  const complete = (requested: string | undefined): ServerDescription | Promise<ServerDescription> => {
    const upstream = requested ?? only
    const names = namesOf(upstream)
    const last = cached.get(upstream)
    if (last && world.monotonic() < last.until && last.up === upOf(names)) return last.description
    const found = names.map((name) => records().of(name))
    return found.some((each) => each instanceof Promise)
      ? Promise.all(found.map(async (each) => each)).then((all) => refresh(upstream, all))
      : refresh(upstream, found.filter(isRecord))
  }

  const filter = createFilter(options.handle)
  const documents = new WeakMap<ServerDescription, Map<string, unknown>>()
  return {
    of: (upstream, call) => {
      const found = complete(upstream)
      const profile = call && settings.profiles.find(({ name }) => name === profileSlot.of(call))
      if (call && profile) return Promise.resolve(found).then((all) => filter(all, call, profile))
      if (!call?.principal.scopes || !isHiding(upstream ?? only)) return found
      return Promise.resolve(found).then((description) => filter(description, call))
    },
    document: <Document>(
      description: ServerDescription,
      key: string,
      make: (description: ServerDescription) => Document,
    ): Document => {
      const cachedDocuments = documents.get(description) ?? new Map<string, unknown>()
      documents.set(description, cachedDocuments)
      if (cachedDocuments.size > MAX_DOCUMENTS) cachedDocuments.clear()
      if (!cachedDocuments.has(key)) cachedDocuments.set(key, cleaned(make(description), redactor))
      // The caller uses each key with one type of document.
      return cachedDocuments.get(key) as Document
    },
    clean: (made) => cleaned(made, redactor),
  }
}

function isRecord(found: ServerRecord | Promise<ServerRecord>): found is ServerRecord {
  return !(found instanceof Promise)
}

/** The parts of a record that appear in documents: a change makes them stale. */
function versionOf({ name, isUp, contentVersion, changedAt, tools }: ServerRecord): unknown {
  const seen = tools.flatMap(({ entry, statistics: calls }) =>
    calls ? [[entry.name, latencyOf({ words: {}, statistics: calls }), calls.types, calls.hasCursor]] : [],
  )
  return [name, isUp, contentVersion, changedAt, seen]
}

interface DescriptionContext {
  readonly options: DescriptionSources
  readonly servers: ReadonlyMap<string, UpstreamSettings>
}

function describeOf(
  found: readonly ServerRecord[],
  upstream: string | undefined,
  context: DescriptionContext,
): ServerDescription {
  const { options, servers } = context
  const { isStrict, aggregate } = options.settings.listen
  // Servers that are not aggregated have separate endpoints and tool names.
  const isApart = upstream === undefined && !aggregate
  const naming =
    upstream === undefined && aggregate ? namingOfAll(options.settings, found) : namingOfOne(isStrict)
  const front = frontOf(upstream, options)
  const describeRecord = (record: ServerRecord): ServerDescription[] => {
    const settings = servers.get(record.name)
    if (!settings) return []
    const serverFront = isApart ? frontOf(record.name, options) : front
    const events = options.eventTypes(record.name)
    return [describeServer({ record, settings, events }, serverFront, { ...naming, isApart })]
  }
  const parts = found.flatMap(describeRecord)
  const [first] = parts
  if (upstream === undefined || !first) {
    const together = describeAllServers(parts, front)
    return isApart
      ? together
      : { ...together, events: [...together.events, ...options.eventTypes(undefined)] }
  }
  return { ...first, notFor: [...first.notFor, ...otherPurposes(upstream, options)] }
}

/** How many other servers a description refers to. */
const MAX_OTHER_SERVERS = 8

/** The purposes of the other aggregated servers, as far as they are configured. */
function otherPurposes(upstream: string, { settings, isOn }: DescriptionSources): string[] {
  if (!settings.listen.aggregate) return []
  const others = settings.upstreams.flatMap(({ name, about: { about } }) =>
    about !== undefined && name !== upstream && isOn('help', name)
      ? [`${oneLine(about).replace(/\.$/, '')} (see ${name})`]
      : [],
  )
  return others.slice(0, MAX_OTHER_SERVERS)
}

function namingOfOne(isStrict: boolean): Naming {
  if (isStrict) return { name: (_upstream, name) => aliasOf(name), uri: ownUri }
  return { name: (_upstream, name) => name, uri: (_upstream, uri) => uri }
}

function namingOfAll(settings: Settings, found: readonly ServerRecord[]): Naming {
  const together = namingOf(settings)
  const names = settings.upstreams.map((each) => each.name)
  const lists = found.map(({ name: upstream, tools, prompts }) => {
    return {
      upstream,
      names: [...tools.map(({ entry }) => entry), ...prompts].map(({ name }) => String(name)),
    }
  })
  const shared = sharedNames(lists, { names, naming: together })
  const name = (upstream: string, own: string): string =>
    shared.of(upstream, own) ?? together.name(upstream, own)
  if (!settings.listen.isStrict)
    return { name, event: exposedName, uri: (upstream, own) => together.uri(upstream, own) }
  return { name, event: (upstream, own) => aliasOf(exposedName(upstream, own)), uri: ownUri }
}

/** Creates a function that removes from a description what its reader cannot list. */
function createFilter(
  handle: Handler,
): (description: ServerDescription, call: Call, profile?: ProfileSettings) => Promise<ServerDescription> {
  const known = new WeakMap<ServerDescription, Map<string, Promise<ServerDescription>>>()
  const make = async (
    description: ServerDescription,
    call: Call,
    renames: ProfileSettings['rename'] = {},
  ): Promise<ServerDescription> => {
    const { upstream } = call.target
    const target = { method: call.method, ...(upstream !== undefined && { upstream }) }
    // Other calls may share the result, so it is not cancelled with the call that started it.
    const controller = new AbortController()
    const listCall: Call = {
      ...call,
      target,
      internal: 'read',
      signal: controller.signal,
      abort: (reason) => controller.abort(reason),
      emit: () => undefined,
    }
    const listed = async (list: string, key: string): Promise<ReadonlySet<unknown>> =>
      new Set((await listAllPages(handle, listCall, list)).map(({ fields }) => fields[key]))
    const [tools, prompts, resources, templates] = await Promise.all([
      listed('tools/list', 'name'),
      listed('prompts/list', 'name'),
      listed('resources/list', 'uri'),
      listed('resources/templates/list', 'uriTemplate'),
    ])
    const filtered = (each: ServerDescription): ServerDescription => ({
      ...each,
      tools: each.tools
        .map((tool) => ({ ...tool, name: renames[tool.name] ?? tool.name }))
        .filter(({ name }) => tools.has(name)),
      prompts: each.prompts.filter(({ name }) => prompts.has(name)),
      resources: each.resources.filter(({ uri }) => resources.has(uri)),
      templates: each.templates.filter(({ uriTemplate }) => templates.has(uriTemplate)),
      parts: each.parts.map(filtered),
    })
    return filtered(description)
  }
  return (description, call, profile) => {
    const byScopes = known.get(description) ?? new Map<string, Promise<ServerDescription>>()
    known.set(description, byScopes)
    const key = [profile?.name ?? '', ...[...(call.principal.scopes ?? [])].toSorted()].join(' ')
    const found = byScopes.get(key)
    if (found) return found
    if (byScopes.size >= MAX_SCOPE_SETS) byScopes.clear()
    const result = make(description, call, profile?.rename)
    byScopes.set(key, result)
    result.catch(() => byScopes.delete(key))
    return result
  }
}

/** Redacts texts and member names of a document: it may contain schemas of servers. */
function cleaned<Document>(document: Document, redactor: Redactor): Document {
  if (!redactor.finds(JSON.stringify(document) ?? '')) return document
  // Only texts change, so the type stays the same.
  return withTexts(document, (text) => redactor.text(text)) as Document
}

function withTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((each) => withTexts(each, change))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [change(key), withTexts(each, change)]),
  )
}
