/**
 * Makes descriptions of servers from their records, cached until something of them changes; readers with fewer
 * rights get a part. Secrets of the configuration are removed from every document.
 */
import { aliasOf } from '../core/text/alias.ts'
import type { Call, Handler } from '../core/call.ts'
import { isObject } from '../core/json/json.ts'
import { isSecretKey, Redactor, secretsOf } from '../core/text/redact.ts'
import type { ServerRecords, ServerRecord } from '../core/descriptor.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { exposedName, exposedUri } from '../catalog/names.ts'
import { ownUri } from '../catalog/strict-names.ts'
import { listAllPages } from '../catalog/pagination.ts'
import { type Naming, describeServer, describeAllServers } from '../descriptions/model/describe-server.ts'
import { frontOf } from '../descriptions/model/describe-gateway.ts'
import { latencyOf } from '../descriptions/model/facts.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { DescriptionService } from '../features/feature.ts'
import { oneLine } from '../descriptions/model/text.ts'

interface Options {
  readonly settings: Settings
  records(): ServerRecords
  /** Whether a server can be reached just now. */
  isUp(upstream: string): boolean
  /** Whether a feature is on, for one server or at all. */
  isOn(feature: string, upstream?: string): boolean
  /** Callers are told apart, or the profile is `corporate`. */
  readonly isGuarded: boolean
  /** The page of the gateway at a path; nothing where it serves none. */
  page(path: string): string | undefined
  /** Whether some callers are not shown everything a server lists. */
  isHiding(upstream: string | undefined): boolean
  /** Makes a call of a client. */
  readonly handle: Handler
}

/** The service that features use, and what the gateway itself makes documents with. */
export interface Descriptions extends DescriptionService {
  /** A document without secrets of the configuration. */
  clean<Made>(made: Made): Made
}

/** For how long a description is taken as it is, in milliseconds. */
const STALE_AFTER_MS = 10_000
/** How many documents of a description are kept, and for how many kinds of callers who see less. */
const DOCUMENTS = 500
const MAX_CALLERS = 100

/** A description, and what it was made of. */
interface CachedDescription {
  readonly key: string
  readonly description: ServerDescription
  readonly up: string
  readonly until: number
}

/** Creates the service. A description is made again only when something of it changed. */
export function createDescriptions(options: Options): Descriptions {
  const { settings, isUp, page, isHiding } = options
  const servers = new Map(settings.upstreams.map((each) => [each.name, each]))
  const [only] = settings.upstreams.length === 1 ? settings.upstreams : []
  const drawn = new Map<string | undefined, CachedDescription>()
  let known: ServerRecords | undefined
  const records = (): ServerRecords => {
    if (known) return known
    known = options.records()
    known.onChange((changed) => {
      for (const name of [changed, undefined]) {
        const last = drawn.get(name)
        if (last) drawn.set(name, { ...last, until: 0 })
      }
    })
    return known
  }
  const namesOf = (upstream: string | undefined): readonly string[] =>
    upstream === undefined ? [...servers.keys()] : [upstream]
  const upOf = (names: readonly string[]): string => `${page('/')} ${names.map(isUp).join()}`

  const draw = (upstream: string | undefined, found: readonly ServerRecord[]): ServerDescription => {
    const up = upOf(namesOf(upstream))
    const key = JSON.stringify([up, ...found.map(versionOf)])
    const before = drawn.get(upstream)
    const description =
      before?.key === key ? before.description : describeOf(found, upstream, { options, servers })
    drawn.set(upstream, { key, description, up, until: performance.now() + STALE_AFTER_MS })
    return description
  }

  const whole = (asked: string | undefined): ServerDescription | Promise<ServerDescription> => {
    const upstream = asked ?? only?.name
    const names = namesOf(upstream)
    const last = drawn.get(upstream)
    if (last && performance.now() < last.until && last.up === upOf(names)) return last.description
    const asking = names.map((name) => records().of(name))
    return asking.some((each) => each instanceof Promise)
      ? Promise.all(asking.map(async (each) => each)).then((found) => draw(upstream, found))
      : draw(upstream, asking.filter(isRecord))
  }

  const partly = createPartly(options.handle)
  const redactor = new Redactor()
  redactor.learn(secretsIn(settings))
  const documents = new WeakMap<ServerDescription, Map<string, unknown>>()
  return {
    of: (upstream, call) => {
      const found = whole(upstream)
      if (!call?.principal.scopes || !isHiding(upstream ?? only?.name)) return found
      return Promise.resolve(found).then((description) => partly(description, call))
    },
    document: <Made>(
      description: ServerDescription,
      key: string,
      make: (description: ServerDescription) => Made,
    ): Made => {
      const own = documents.get(description) ?? new Map<string, unknown>()
      documents.set(description, own)
      if (own.size > DOCUMENTS) own.clear()
      if (!own.has(key)) own.set(key, cleaned(make(description), redactor))
      // Under a key stands what was made with it.
      return own.get(key) as Made
    },
    clean: (made) => cleaned(made, redactor),
  }
}

function isRecord(found: ServerRecord | Promise<ServerRecord>): found is ServerRecord {
  return !(found instanceof Promise)
}

/** What of a record documents would tell in other words, were it different. */
function versionOf({ name, isUp, contentVersion, changedAt, tools }: ServerRecord): unknown {
  const seen = tools.flatMap(({ entry, statistics: calls }) =>
    calls ? [[entry.name, latencyOf({ words: {}, statistics: calls }), calls.types, calls.hasCursor]] : [],
  )
  return [name, isUp, contentVersion, changedAt, seen]
}

interface Around {
  readonly options: Options
  readonly servers: ReadonlyMap<string, UpstreamSettings>
}

function describeOf(
  found: readonly ServerRecord[],
  upstream: string | undefined,
  around: Around,
): ServerDescription {
  const { options, servers } = around
  const { isStrict, aggregate } = options.settings.listen
  // Servers that are not offered together are reached, and name their tools, each by itself.
  const isApart = upstream === undefined && !aggregate
  const naming = upstream === undefined && aggregate ? namingOfAll(isStrict) : namingOfOne(isStrict)
  const front = frontOf(upstream, options)
  const draw = (record: ServerRecord): ServerDescription[] => {
    const settings = servers.get(record.name)
    if (!settings) return []
    const own = isApart ? frontOf(record.name, options) : front
    return [describeServer({ record, settings }, own, { ...naming, isApart })]
  }
  const parts = found.flatMap(draw)
  const [first] = parts
  if (upstream === undefined || !first) return describeAllServers(parts, front)
  return { ...first, notFor: [...first.notFor, ...forOthers(upstream, options)] }
}

/** How many other servers a description names. */
const NEIGHBOURS = 8

/** What the other servers are for that are offered together with one, as far as their owner says it. */
function forOthers(upstream: string, { settings, isOn }: Options): string[] {
  if (!settings.listen.aggregate) return []
  const others = settings.upstreams.flatMap(({ name, about: { about } }) =>
    about !== undefined && name !== upstream && isOn('help', name)
      ? [`${oneLine(about).replace(/\.$/, '')} (see ${name})`]
      : [],
  )
  return others.slice(0, NEIGHBOURS)
}

function namingOfOne(isStrict: boolean): Naming {
  if (isStrict) return { name: (_upstream, name) => aliasOf(name), uri: ownUri }
  return { name: (_upstream, name) => name, uri: (_upstream, uri) => uri }
}

function namingOfAll(isStrict: boolean): Naming {
  if (!isStrict) return { name: exposedName, uri: exposedUri }
  return { name: (upstream, name) => aliasOf(exposedName(upstream, name)), uri: ownUri }
}

/** Leaves out of a description what its reader is not shown in lists. */
function createPartly(
  handle: Handler,
): (description: ServerDescription, call: Call) => Promise<ServerDescription> {
  const known = new WeakMap<ServerDescription, Map<string, Promise<ServerDescription>>>()
  const make = async (description: ServerDescription, call: Call): Promise<ServerDescription> => {
    const { upstream } = call.target
    const target = { method: call.method, ...(upstream !== undefined && { upstream }) }
    // Others may wait for it too, so it does not end with the call that began it.
    const own = new AbortController()
    const asking: Call = {
      ...call,
      target,
      internal: 'read',
      signal: own.signal,
      abort: (reason) => own.abort(reason),
      emit: () => undefined,
    }
    const shown = async (list: string, key: string): Promise<ReadonlySet<unknown>> =>
      new Set((await listAllPages(handle, asking, list)).map(({ fields }) => fields[key]))
    const [tools, prompts, resources, templates] = await Promise.all([
      shown('tools/list', 'name'),
      shown('prompts/list', 'name'),
      shown('resources/list', 'uri'),
      shown('resources/templates/list', 'uriTemplate'),
    ])
    const shownOf = (each: ServerDescription): ServerDescription => ({
      ...each,
      tools: each.tools.filter(({ name }) => tools.has(name)),
      prompts: each.prompts.filter(({ name }) => prompts.has(name)),
      resources: each.resources.filter(({ uri }) => resources.has(uri)),
      templates: each.templates.filter(({ uriTemplate }) => templates.has(uriTemplate)),
      parts: each.parts.map(shownOf),
    })
    return shownOf(description)
  }
  return (description, call) => {
    const own = known.get(description) ?? new Map<string, Promise<ServerDescription>>()
    known.set(description, own)
    const key = [...(call.principal.scopes ?? [])].toSorted().join(' ')
    const found = own.get(key)
    if (found) return found
    if (own.size >= MAX_CALLERS) own.clear()
    const made = make(description, call)
    own.set(key, made)
    made.catch(() => own.delete(key))
    return made
  }
}

/** What may stand in no document. A plain word under a harmless name is no secret, and may well stand in one. */
function secretsIn(settings: Settings): string[] {
  const upstreams = settings.upstreams.map(({ reach, ...rest }) => {
    if (reach.kind === 'url') return { ...rest, reach }
    const telling = Object.entries(reach.env).filter(
      ([name, value]) => isSecretKey(name) || !/^[a-z]{1,20}$/i.test(value.reveal()),
    )
    return { ...rest, reach: { ...reach, env: Object.fromEntries(telling) } }
  })
  return secretsOf({ ...settings, upstreams })
}

/** A document with its texts cleaned, and the names of its members: schemas of servers stand in it. */
function cleaned<Made>(made: Made, redactor: Redactor): Made {
  if (!redactor.finds(JSON.stringify(made) ?? '')) return made
  // The shape stays as it is.
  return withTexts(made, (text) => redactor.text(text)) as Made
}

function withTexts(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value)
  if (Array.isArray(value)) return value.map((each) => withTexts(each, change))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [change(key), withTexts(each, change)]),
  )
}
