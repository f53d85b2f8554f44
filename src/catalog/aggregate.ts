/**
 * Several servers as one: joined lists, resolved names, merged notifications. An unavailable server does not hide the
 * others.
 */
import { appsExtension } from '../core/revisions.ts'
import { listAllPages, walkIfThere } from '../protocol/listing.ts'
import { type Call, type Handler, type Notification, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError, invalidParam, unknownPrompt, unknownResource, unknownTool } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { within, pause } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { metaKeys } from '../protocol/meta-keys.ts'
import { method, unknownMethod } from '../protocol/methods.ts'
import { keyOfEntries } from '../protocol/server-shapes.ts'
import {
  withUri,
  readFilter,
  reportedChanges,
  ACKNOWLEDGED,
  type SubscriptionFilter,
  withUris,
} from '../protocol/subscription-filter.ts'
import { nameEntry, nameUris } from './exposed-uris.ts'
import { FanOut } from './fan-out.ts'
import { type ItemMethod, namesIn } from './listed-names.ts'
import { Locator, type NamedServers } from './locate.ts'
import { type Candidate, type Naming, type NameConflict, type ServerNames, sharedNames } from './names.ts'
import { escaped } from '../core/text/redactor.ts'
import { compileProblem } from '../core/schema/schema.ts'
import type { ProfileTools } from './profile-tools.ts'
import { ReopenDelays } from '../core/time/backoff.ts'

/** The servers that are offered together. */
export interface SharedServers extends NamedServers {
  /** Runs a call about what a server listed last, without asking the server. */
  readonly last?: Handler
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
  readonly log: Log
  /** The tools that are offered, and their names; absent for all of them under their usual names. */
  readonly tools?: ProfileTools
  /** Called with each conflict of names in a list, each time. */
  readonly onConflict?: (conflict: NameConflict) => void
}

/** The entries of a server's list, under its own names. */
interface ServerEntries {
  readonly upstream: string
  readonly entries: readonly Payload[]
}

/** The tools of each server under the names in its list, by the names in the list of the client. */
type ListedTools = ReadonlyMap<string, ReadonlyMap<string | undefined, Candidate>>

function namesOf({ upstream, entries }: ServerEntries): ServerNames {
  return { upstream, names: namesIn(entries) }
}

/** Several servers as one: lists are joined, and names and URIs get the name of their server as a prefix. */
export class Aggregate {
  /** Knows which servers are silent. */
  readonly fanOut: FanOut
  readonly #servers: SharedServers
  readonly #locator: Locator
  /** The subscriptions, each with a way to report that all lists may have changed. */
  readonly #listeners = new Set<() => void>()

  constructor(servers: SharedServers) {
    this.#servers = servers
    this.#locator = new Locator(servers)
    const onReturn = (): void => this.#listeners.forEach((report) => report())
    this.fanOut = new FanOut({ ...servers, onReturn })
  }

  readonly handle: Handler = async (call) => {
    const { names, handle, timeoutMs } = this.#servers
    if (call.method === 'server/discover') return this.#discover(call)
    if (call.method === 'subscriptions/listen') return this.#listen(call)
    if (call.method.startsWith('notifications/')) {
      const sent = Promise.allSettled(names.map((upstream) => handle(this.#forServer(call, upstream))))
      await within(sent, timeoutMs, [])
      return done(Payload.of({}))
    }
    const { list } = method(call.method)
    if (list !== undefined) return this.#joinedList(call, list)
    const found = await this.#locate(call)
    if (!found) throw new GatewayError('UNSUPPORTED_OPERATION', `Method not found: ${call.method}`, namedOnly)
    return this.#toServer(call, ...found)
  }

  /** The call as its server receives it; undefined if it is for several servers. */
  async resolve(call: Call): Promise<Call | undefined> {
    const found = await this.#locate(call)
    return found && { ...call, params: found[1], target: { method: call.method, ...found[0] } }
  }

  /** Whether the lists have the tool that a call names; with `isOwn`, also by its name on its server alone. */
  lists(call: Call, isOwn: boolean): Promise<boolean> {
    const { name = '' } = call.target
    return this.#locator.lists(call, 'tools/call', {
      name: this.#servers.tools?.nameBefore(name) ?? name,
      isOwn,
    })
  }

  /** Conflicts between the names of tools or prompts. */
  async collisions(call: Call): Promise<readonly NameConflict[]> {
    const { names, handle, naming, timeoutMs } = this.#servers
    const isConcerned = (upstream: string): boolean =>
      naming.isBare(upstream) || names.some((other) => other.startsWith(`${upstream}-`))
    const found: NameConflict[] = []
    for (const list of ['tools/list', 'prompts/list']) {
      const lists = names.filter(isConcerned).map(async (upstream) => {
        const listed = listAllPages(handle, this.#forServer(call, upstream), list).catch(() => [])
        return namesOf({ upstream, entries: await within(listed, timeoutMs, []) })
      })
      found.push(...sharedNames(await Promise.all(lists), this.#servers).conflicts)
    }
    return found
  }

  async #discover(call: Call): Promise<Outcome> {
    const asking =
      (handle: Handler) =>
      async (upstream: string, request: Call): Promise<Payload> =>
        resultOf(await handle(this.#forServer(request, upstream)))
    const { handle, last } = this.#servers
    const { found, isPartial } = await this.fanOut.all(call, asking(handle), last && asking(last))
    return done(mergeDiscovered(found, self, isPartial))
  }

  async #listen(call: Call): Promise<Outcome> {
    const changes = reportedChanges(readFilter(call.params))
    const report = (): void => changes.forEach((method) => call.emit({ method }))
    this.#listeners.add(report)
    try {
      const acknowledged = (upstream: string, request: Promise<unknown>): Promise<void> =>
        this.fanOut.settled(upstream, call, request)
      const resource = (uri: string): Promise<Candidate | undefined> => this.#locator.resource(call, uri)
      return await listenToAll(call, { ...this.#servers, acknowledged, resource })
    } finally {
      this.#listeners.delete(report)
    }
  }

  async #joinedList(call: Call, list: string): Promise<Outcome> {
    const { handle, last, timeoutMs } = this.#servers
    if (call.params.fields.cursor !== undefined) {
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so the cursor is not valid.',
      )
    }
    const listed = async (upstream: string, request: Call): Promise<ServerEntries | undefined> => {
      // Pages that take long are not waited for: what is there is listed.
      const until = world.monotonic() + timeoutMs / 2
      const onCut = (problem: string | undefined): void =>
        this.fanOut.notePages(upstream, call.method, problem)
      const listing = { until, onCut }
      const entries = await walkIfThere(handle, this.#forServer(request, upstream), call.method, listing)
      return entries && { upstream, entries }
    }
    const listedLast =
      last &&
      (async (upstream: string, request: Call): Promise<ServerEntries | undefined> => {
        const entries = await walkIfThere(last, this.#forServer(request, upstream), call.method)
        return entries && { upstream, entries }
      })
    const { found, isPartial } = await this.fanOut.all(call, listed, listedLast)
    if (!isPartial && found.every((entries) => entries === undefined)) throw unknownMethod(call.method)
    const there = found.filter((entries) => entries !== undefined)
    const offered = this.#servers.tools && list === 'tools' ? await this.#allAsListed(call, there) : undefined
    const named = this.#named(there, list, offered)
    const joined = Payload.list(list === 'tools' ? withDistinctIds(named) : named)
    return done(Payload.of({}).with({ [list]: joined }))
  }

  /** The tools in the lists of servers by their names there. */
  async #allAsListed(call: Call, lists: readonly ServerEntries[]): Promise<ListedTools> {
    const found = lists.map(async ({ upstream, entries }) => {
      const names = namesIn(entries)
      const tools = await Promise.all(names.map((name) => this.#asListed(call, { upstream, name })))
      return [upstream, new Map(tools.map((tool, index) => [names[index], tool]))] as const
    })
    return new Map(await Promise.all(found))
  }

  /** The entries of a list of several servers as clients know them; of tools, `offered` has those among which a profile chooses. */
  #named(lists: readonly ServerEntries[], list: string, offered?: ListedTools): Payload[] {
    const { naming, onConflict } = this.#servers
    const tools = offered && this.#servers.tools
    const shared = sharedNames(keyOfEntries(list) === 'name' ? lists.map(namesOf) : [], this.#servers)
    if (onConflict) shared.conflicts.forEach((conflict) => onConflict(conflict))
    return lists.flatMap(({ upstream, entries }) => {
      const names = {
        uri: (own: string) => naming.uri(upstream, own),
        name: (own: string) => {
          const name = shared.of(upstream, own)
          const tool = offered?.get(upstream)?.get(own) ?? { upstream, name: own }
          return name === undefined || !tools ? name : tools.listed(tool, name)
        },
      }
      const named = entries.flatMap((entry) => nameEntry(entry, list, names) ?? [])
      return tools ? named.map((entry) => tools.entry(entry)) : named
    })
  }

  async #toServer(call: Call, { upstream, name }: Candidate, params: Payload): Promise<Outcome> {
    const { handle, naming } = this.#servers
    const { uri: requested } = call.params.fields
    const exposed = (uri: string): string =>
      // Clients compare the contents of a resource with the URI that they requested.
      uri === params.fields.uri && typeof requested === 'string' ? requested : naming.uri(upstream, uri)
    const rewriteResult = (result: Payload): Payload => nameUris(result, exposed, upstream)
    const target = { method: call.method, upstream, name }
    const emit = namedEmit(call, upstream, naming)
    try {
      const outcome = await handle({ ...call, params, target, emit, rewriteResult })
      return outcome.kind !== 'result' ? outcome : done(rewriteResult(outcome.result))
    } catch (error) {
      return failedRead(error, call.params, params)
    }
  }

  #forServer(call: Call, upstream: string): Call {
    const emit = namedEmit(call, upstream, this.#servers.naming)
    return { ...call, target: { ...call.target, upstream }, emit }
  }

  /** The server and the parameters of a call there; undefined for a method that names no server. */
  async #locate(call: Call): Promise<[Candidate, Payload] | undefined> {
    const { name: subject } = call.target
    if (call.method === 'completion/complete') return this.#locateReference(call)
    if (!located.has(call.method)) return undefined
    if (subject === undefined) throw invalidParam(method(call.method).nameIn ?? 'name', 'must be a string')
    if (call.method === 'tools/call' || call.method === 'prompts/get') {
      const found = await this.#item(call, call.method, subject)
      return [found, call.params.with({ name: found.name })]
    }
    const found = await this.#locator.resource(call, subject)
    if (!found) throw unknownResource(subject)
    this.#locator.noteView(call, found)
    return [found, call.params.with({ uri: found.name })]
  }

  /** @throws UNKNOWN_TOOL, also for a tool that is not offered, and INVALID_INPUT for prompts */
  async #item(call: Call, kind: ItemMethod, name: string): Promise<Candidate> {
    const { tools } = this.#servers
    if (kind !== 'tools/call' || !tools) return this.#locator.item(call, kind, name)
    const found = await this.#locator.item(call, kind, tools.nameBefore(name))
    if (tools.admits(await this.#asListed(call, found), name)) return found
    throw unknownTool(name)
  }

  /** A tool under the name in the list of its server, of which lists for some providers have an alias. */
  async #asListed(call: Call, tool: Candidate): Promise<Candidate> {
    return { ...tool, name: await this.#locator.listedName(call, tool) }
  }

  async #locateReference(call: Call): Promise<[Candidate, Payload]> {
    const reference = call.params.at('ref')
    const { name, uri } = reference?.fields ?? {}
    if (reference && typeof uri === 'string') {
      const found = await this.#locator.resource(call, uri)
      if (found) return [found, call.params.with({ ref: reference.with({ uri: found.name }) })]
    }
    if (!reference || (typeof name !== 'string' && typeof uri !== 'string'))
      throw invalidParam('ref', 'must name a prompt or a resource')
    if (typeof name !== 'string') throw unknownPrompt(String(uri))
    const found = await this.#locator.item(call, 'prompts/get', name)
    return [found, call.params.with({ ref: reference.with({ name: found.name }) })]
  }
}

/** Forwards notifications of one server with its URIs converted to those of the client. */
function namedEmit(call: Call, upstream: string, naming: Naming): (note: Notification) => void {
  return (note) => call.emit(withUri(note, (uri) => naming.uri(upstream, uri)))
}

function done(result: Payload): Outcome {
  return { kind: 'result', result }
}

/** Methods whose target name identifies the server. */
const located: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

const namedOnly = {
  suggestion: 'Methods that the protocol does not define are available at /mcp/<server> only.',
}

// Merges the discovery results of several servers, and renames entries and URIs.

/**
 * The merged descriptions of several servers: the capabilities of any, and the instructions of each. While a server is
 * missing, any list may come.
 */
function mergeDiscovered(
  found: readonly Payload[],
  own: Readonly<Record<string, unknown>>,
  isPartial: boolean,
): Payload {
  const capabilities = found.map(({ fields }) => fields.capabilities).filter(isObject)
  const instructions = found.flatMap(({ fields }) => {
    const { instructions: text } = fields
    return typeof text === 'string' && text !== '' ? [`# ${titleOf(fields)}\n\n${text}`] : []
  })
  const merged = withoutVendors(capabilities.reduce(union, {}))
  const declared = isPartial ? union(merged, mayCome) : merged
  const lists = ['tools', 'prompts', 'resources'].filter((name) => isObject(declared[name]))
  return Payload.of({
    capabilities: lists.reduce((all, name) => union(all, { [name]: { listChanged: true } }), declared),
    ...(instructions.length > 0 && { instructions: instructions.join('\n\n') }),
    _meta: { [metaKeys.serverInfo]: own },
  })
}

/** What a server that has not answered yet may support: a client learns the capabilities once. */
const mayCome = { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {}, logging: {} }

/**
 * Extension methods do not name a server, so they only work at the endpoint of one server. MCP Apps has no methods: its
 * views are resources.
 */
function withoutVendors(capabilities: Record<string, unknown>): Record<string, unknown> {
  const { extensions, experimental: _experimental, tasks: _tasks, ...rest } = capabilities
  const apps = isObject(extensions) ? extensions[appsExtension] : undefined
  return isObject(apps) ? { ...rest, extensions: { [appsExtension]: apps } } : rest
}

function union(one: Record<string, unknown>, other: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...one }
  for (const [key, value] of Object.entries(other)) {
    merged[key] = unionOf(merged[key], value)
  }
  return merged
}

function unionOf(one: unknown, other: unknown): unknown {
  if (isObject(one) && isObject(other)) return union(one, other)
  if (Array.isArray(one) && Array.isArray(other)) return [...new Set([...one, ...other])]
  // A server that says nothing usable does not hide what another one supports.
  return one === true || isObject(one) || other === undefined || other === null ? one : other
}

function titleOf(fields: Readonly<Record<string, unknown>>): string {
  const meta = fields._meta
  const info = isObject(meta) ? meta[metaKeys.serverInfo] : undefined
  const name = isObject(info) ? (info.title ?? info.name) : undefined
  return typeof name === 'string' ? name : 'Server'
}

// A server's failure to return an item names the item as the server knows it. If the client used another name, at the
// shared endpoint or in the scheme of its server, the error is rewritten to the client's name.

/** Rethrows a failure with the name the client requested, if the server received a different one. */
export function failedRead(thrown: unknown, requested: Payload, sent: Payload): never {
  const known = sent.fields.uri ?? sent.fields.name
  const requestedName = requested.fields.uri ?? requested.fields.name
  if (!(thrown instanceof GatewayError) || typeof known !== 'string' || typeof requestedName !== 'string')
    throw thrown
  if (known === requestedName) throw thrown
  const { data, relayed } = thrown.extra
  const renamed = (text: string): string => withName(text, known, requestedName)
  const inData = (fields: Readonly<Record<string, unknown>>): Record<string, unknown> => ({
    ...(fields.uri === known && { uri: requestedName }),
    ...(typeof fields.message === 'string' && { message: renamed(fields.message) }),
  })
  const serverData = relayed?.at('data')
  throw new GatewayError(thrown.code, renamed(thrown.message), {
    ...thrown.extra,
    ...(data && { data: { ...data, ...inData(data) } }),
    ...(relayed && {
      relayed: relayed.with({
        message: renamed(String(relayed.fields.message)),
        ...(isObject(serverData?.value) && { data: serverData.with(inData(serverData.fields)) }),
      }),
    }),
  })
}

/** Replaces a name in a text where it is a separate word; the new name may contain the old one. */
function withName(text: string, known: string, requestedName: string): string {
  const word = new RegExp(`(?<![\\w/+:.-])${escaped(known)}(?![\\w/+-])`, 'g')
  return text
    .split(requestedName)
    .map((part) => part.replaceAll(word, () => requestedName))
    .join(requestedName)
}

/*
 * `$id`s in the output schemas of several servers. Clients with an official SDK compile all output schemas of a list with
 * one engine, where an id is that of one schema: with another one, they use the wrong schema, or refuse the whole list.
 * Invariant: in a shared list, the id of an output schema is in no other one.
 */

/** Tools of several servers, without the ids of output schemas that are also in others. */
export function withDistinctIds(tools: readonly Payload[]): readonly Payload[] {
  const schemas = new Map<string, Set<string>>()
  for (const schema of tools.map(schemaWithIds)) {
    for (const id of idsIn(schema?.value)) {
      const known = schemas.get(id)
      if (known) known.add(schema?.text ?? '')
      else schemas.set(id, new Set([schema?.text ?? '']))
    }
  }
  const isShared = (id: string): boolean => (schemas.get(normal(id))?.size ?? 0) > 1
  return tools.map((tool) => {
    const schema = schemaWithIds(tool)
    const id = schema?.fields.$id
    if (!schema || typeof id !== 'string' || !isShared(id)) return tool
    const bare = schema.with({ $id: undefined })
    // One that refers to itself by its id cannot be used without it.
    return tool.with({ outputSchema: compileProblem(bare.fields) === undefined ? bare : undefined })
  })
}

function schemaWithIds(tool: Payload): Payload | undefined {
  const schema = tool.text.includes('"$id"') ? tool.at('outputSchema') : undefined
  return isObject(schema?.value) ? schema : undefined
}

/** The ids in a part of a schema, also as URLs where a base of them makes one. */
function idsIn(value: unknown, base?: string): string[] {
  if (typeof value !== 'object' || value === null) return []
  const id = isObject(value) && typeof value.$id === 'string' ? normal(value.$id) : ''
  const url = id !== '' && URL.canParse(id, base) ? normal(new URL(id, base).href) : ''
  const own = [id, url].filter((each) => each !== '')
  return [...own, ...Object.values(value).flatMap((each) => idsIn(each, url === '' ? base : url))]
}

/** An id without an empty fragment, which is the same one. */
function normal(id: string): string {
  return id.replace(/#\/?$/, '')
}

/** The servers that are listened to together. */
interface Listened extends Pick<SharedServers, 'names' | 'handle' | 'naming' | 'ended'> {
  /** The server of a resource whose URI does not name its server. */
  resource(uri: string): Promise<Candidate | undefined>
  /** Resolves when a server has acknowledged, or is not waited for. */
  acknowledged(upstream: string, acknowledgement: Promise<void>): Promise<void>
}

/** How many notifications of available servers are buffered until the remaining servers acknowledge. */
const MAX_WAITING_NOTIFICATIONS = 1000

/** The first delay before a server is listened to again that ended its subscription, in milliseconds. */
const FIRST_RETRY_MS = 250

/** One subscription to several servers; it ends when the set of servers changes. */
export async function listenToAll(
  call: Call,
  { names, handle, naming, ended, resource, acknowledged: untilAcknowledged }: Listened,
): Promise<Outcome> {
  const filter = readFilter(call.params)
  const controller = new AbortController()
  const stop = (): void => controller.abort(call.signal.reason)
  const accepted: SubscriptionFilter[] = []
  // Nothing is sent before the acknowledgement, which waits for the last server.
  let pending: Notification[] | undefined = []
  const forward = (note: Notification): void => {
    if (!pending) call.emit(note)
    else if (pending.length < MAX_WAITING_NOTIFICATIONS) pending.push(note)
  }
  const acknowledge = (): void => {
    // The lists change when servers come and go, whether or not a server reports changes.
    const { eventsListChanged: _events, resourceSubscriptions: _uris, ...lists } = filter
    const notifications = { ...lists, ...mergedFilter(accepted) }
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications }) })
    pending?.forEach((note) => call.emit(note))
    pending = undefined
  }
  call.signal.addEventListener('abort', stop)
  ended.addEventListener('abort', stop)
  try {
    const isOfResources = (filter.resourceSubscriptions ?? []).length > 0
    const located = isOfResources ? await locatedUris(filter, { names, naming, resource }) : new Map()
    const streams = names.map((upstream) => {
      const { part, exposed } = filterOf(upstream, filter, { located, naming })
      const acknowledged = Promise.withResolvers<void>()
      const emit = (note: Notification): void => {
        if (note.method !== ACKNOWLEDGED) return forward(withUri(note, exposed))
        accepted.push(withUris(readFilter(note.params), exposed))
        acknowledged.resolve()
      }
      // The envelope is kept: a 2026-07-28 server requires it in every request.
      const params = call.params.with({ notifications: part })
      const target = { method: call.method, upstream }
      // Responses to input requests could not be assigned to one of the servers, so this call allows none.
      const client = { ...call.client, nonInteractive: true } as const
      const { signal } = controller
      const listen = async (): Promise<void> => {
        await handle({ ...call, params, target, client, emit, signal }).finally(() => acknowledged.resolve())
      }
      // Anything may have changed in between.
      const onEnd = (): void => reportedChanges(part).forEach((method) => forward({ method }))
      // A server that refuses is left out. That is handled at once, while others are waited for.
      const over = keepListening(listen, { signal, onEnd }).catch(() => undefined)
      return { acknowledged: untilAcknowledged(upstream, acknowledged.promise), over }
    })
    await Promise.all(streams.map((stream) => stream.acknowledged))
    acknowledge()
    await Promise.all(streams.map(({ over }) => over))
    if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
    return { kind: 'result', result: Payload.of({}) }
  } finally {
    call.signal.removeEventListener('abort', stop)
    ended.removeEventListener('abort', stop)
  }
}

/** Listens again, later each time, if a server ends its subscription: those of the others go on. @throws what `listen` throws */
async function keepListening(
  listen: () => Promise<void>,
  { signal, onEnd }: { readonly signal: AbortSignal; onEnd(): void },
): Promise<void> {
  const delays = new ReopenDelays(FIRST_RETRY_MS)
  while (!signal.aborted) {
    const start = world.monotonic()
    await listen()
    if (signal.aborted) return
    await pause(delays.after(start), signal).catch(() => undefined)
    onEnd()
  }
}

/** The resources of a filter by the URIs that the client knows. */
type LocatedUris = ReadonlyMap<string, Candidate>

async function locatedUris(
  { resourceSubscriptions: uris = [] }: SubscriptionFilter,
  { names, naming, resource }: Pick<Listened, 'names' | 'naming' | 'resource'>,
): Promise<LocatedUris> {
  const found = await Promise.all(
    uris.map(async (uri) => {
      const named = naming.serverOf(uri, names) ?? (await resource(uri).catch(() => undefined))
      return named ? [[uri, named] as const] : []
    }),
  )
  return new Map(found.flat())
}

/** The part of a filter that concerns a server, and the client's URIs of its resources. */
function filterOf(
  upstream: string,
  { resourceSubscriptions: _all, ...rest }: SubscriptionFilter,
  { located, naming }: { readonly located: LocatedUris; readonly naming: Naming },
): { readonly part: SubscriptionFilter; exposed(uri: string): string } {
  const own = [...located].filter(([, found]) => found.upstream === upstream)
  const requested = new Map(own.map(([uri, { name }]) => [name, uri]))
  return {
    part: { ...rest, ...(own.length > 0 && { resourceSubscriptions: [...requested.keys()] }) },
    exposed: (uri) => requested.get(uri) ?? naming.uri(upstream, uri),
  }
}

function mergedFilter(filters: readonly SubscriptionFilter[]): SubscriptionFilter {
  const uris = filters.flatMap((filter) => filter.resourceSubscriptions ?? [])
  return { ...Object.assign({}, ...filters), ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}
