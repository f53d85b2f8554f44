/**
 * Several servers as one: joined lists, resolved names, merged notifications. An unavailable server does not hide the
 * others.
 */
import { type Call, type Handler, type Notification, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError, invalidParam, unknownPrompt, unknownResource } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { within } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { appsExtension, metaKeys } from '../protocol/meta-keys.ts'
import { method, unknownMethod } from '../protocol/methods.ts'
import { keyOfEntries } from '../protocol/server-shapes.ts'
import { withUri, readFilter, reportedChanges } from '../protocol/subscription-filter.ts'
import { nameEntry, nameUris } from './exposed-uris.ts'
import { FanOut } from './fan-out.ts'
import { listenToAll } from './listen-all.ts'
import { namesIn } from './listed-names.ts'
import { Locator, type LocatorOptions } from './locate.ts'
import type { Candidate, Naming } from './names.ts'
import { listAllPages, walkIfThere } from './pagination.ts'
import { withDistinctIds } from './schema-ids.ts'
import { type NameConflict, type ServerNames, sharedNames } from './shared-names.ts'

interface Options extends LocatorOptions {
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
  readonly log: Log
  /** Called with each conflict of names in a list, each time. */
  readonly onConflict?: (conflict: NameConflict) => void
}

/** The entries of a server's list, under its own names. */
interface ServerEntries {
  readonly upstream: string
  readonly entries: readonly Payload[]
}

function namesOf({ upstream, entries }: ServerEntries): ServerNames {
  return { upstream, names: namesIn(entries) }
}

/** Several servers as one. */
export interface Aggregate {
  readonly handle: Handler
  resolve(call: Call): Promise<Call | undefined>
  /** Whether the lists have the tool that a call names; with `isOwn`, also by its name on its server alone. */
  lists(call: Call, isOwn: boolean): Promise<boolean>
  /** Notes whether a server can be reached. */
  reachable(upstream: string, isReachable: boolean): void
  /** What a server did not answer in time, so that it is left out, for people. */
  missing(upstream: string): readonly string[]
  /** Conflicts between the names of tools or prompts. */
  collisions(call: Call): Promise<readonly NameConflict[]>
}

/** Offers servers together: lists are joined, and names and URIs get the name of their server as a prefix. */
export function aggregate(options: Options): Aggregate {
  return new AllServers(options)
}

class AllServers implements Aggregate {
  readonly #options: Options
  readonly #locator: Locator
  readonly #fanOut: FanOut
  /** The subscriptions, each with a way to report that all lists may have changed. */
  readonly #listeners = new Set<() => void>()

  constructor(options: Options) {
    this.#options = options
    this.#locator = new Locator(options)
    this.#fanOut = new FanOut({
      ...options,
      onReturn: () => this.#listeners.forEach((report) => report()),
    })
  }

  readonly handle: Handler = async (call) => {
    const { names, handle, timeoutMs } = this.#options
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

  readonly resolve = async (call: Call): Promise<Call | undefined> => {
    const found = await this.#locate(call)
    return found && { ...call, params: found[1], target: { method: call.method, ...found[0] } }
  }

  readonly reachable = (upstream: string, isReachable: boolean): void =>
    this.#fanOut.reachable(upstream, isReachable)

  readonly missing = (upstream: string): readonly string[] => this.#fanOut.problems(upstream)

  readonly lists = (call: Call, isOwn: boolean): Promise<boolean> =>
    this.#locator.lists(call, 'tools/call', { name: call.target.name ?? '', isOwn })

  readonly collisions = async (call: Call): Promise<readonly NameConflict[]> => {
    const { names, handle, naming, timeoutMs } = this.#options
    const isConcerned = (upstream: string): boolean =>
      naming.isBare(upstream) || names.some((other) => other.startsWith(`${upstream}-`))
    const found: NameConflict[] = []
    for (const list of ['tools/list', 'prompts/list']) {
      const lists = names.filter(isConcerned).map(async (upstream) => {
        const listed = listAllPages(handle, this.#forServer(call, upstream), list).catch(() => [])
        return namesOf({ upstream, entries: await within(listed, timeoutMs, []) })
      })
      found.push(...sharedNames(await Promise.all(lists), this.#options).conflicts)
    }
    return found
  }

  async #discover(call: Call): Promise<Outcome> {
    const { handle } = this.#options
    const { found, isPartial } = await this.#fanOut.all(call, async (upstream, request) =>
      resultOf(await handle(this.#forServer(request, upstream))),
    )
    return done(mergeDiscovered(found, self, isPartial))
  }

  async #listen(call: Call): Promise<Outcome> {
    const changes = reportedChanges(readFilter(call.params))
    const report = (): void => changes.forEach((method) => call.emit({ method }))
    this.#listeners.add(report)
    try {
      const acknowledged = (upstream: string, request: Promise<unknown>): Promise<void> =>
        this.#fanOut.settled(upstream, call, request)
      const resource = (uri: string): Promise<Candidate | undefined> => this.#locator.resource(call, uri)
      return await listenToAll(call, { ...this.#options, acknowledged, resource })
    } finally {
      this.#listeners.delete(report)
    }
  }

  async #joinedList(call: Call, list: string): Promise<Outcome> {
    const { handle, timeoutMs } = this.#options
    if (call.params.fields.cursor !== undefined) {
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so the cursor is not valid.',
      )
    }
    const { found, isPartial } = await this.#fanOut.all(call, async (upstream, request) => {
      // Pages that take long are not waited for: what is there is listed.
      const until = world.monotonic() + timeoutMs / 2
      const onCut = (problem: string | undefined): void =>
        this.#fanOut.notePages(upstream, call.method, problem)
      const listing = { until, onCut }
      const entries = await walkIfThere(handle, this.#forServer(request, upstream), call.method, listing)
      return entries && { upstream, entries }
    })
    if (!isPartial && found.every((entries) => entries === undefined)) throw unknownMethod(call.method)
    const listed = found.filter((entries) => entries !== undefined)
    const named = this.#named(listed, list)
    const texts = (list === 'tools' ? withDistinctIds(named) : named).map(({ text }) => text)
    return done(Payload.of({}).with({ [list]: Payload.text(`[${texts.join(',')}]`) }))
  }

  /** The entries of a list of several servers as clients know them. */
  #named(lists: readonly ServerEntries[], list: string): Payload[] {
    const { naming, onConflict } = this.#options
    const shared = sharedNames(keyOfEntries(list) === 'name' ? lists.map(namesOf) : [], this.#options)
    if (onConflict) shared.conflicts.forEach((conflict) => onConflict(conflict))
    return lists.flatMap(({ upstream, entries }) => {
      const names = {
        uri: (own: string) => naming.uri(upstream, own),
        name: (own: string) => shared.of(upstream, own),
      }
      return entries.flatMap((entry) => nameEntry(entry, list, names) ?? [])
    })
  }

  async #toServer(call: Call, { upstream, name }: Candidate, params: Payload): Promise<Outcome> {
    const { handle, naming } = this.#options
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
    const emit = namedEmit(call, upstream, this.#options.naming)
    return { ...call, target: { ...call.target, upstream }, emit }
  }

  /** The server and the parameters of a call there; undefined for a method that names no server. */
  async #locate(call: Call): Promise<[Candidate, Payload] | undefined> {
    const { name: subject } = call.target
    if (call.method === 'completion/complete') return this.#locateReference(call)
    if (!located.has(call.method)) return undefined
    if (subject === undefined) throw invalidParam(method(call.method).nameIn ?? 'name', 'must be a string')
    if (call.method === 'tools/call' || call.method === 'prompts/get') {
      const found = await this.#locator.item(call, call.method, subject)
      return [found, call.params.with({ name: found.name })]
    }
    const found = await this.#locator.resource(call, subject)
    if (!found) throw unknownResource(subject)
    this.#locator.noteView(call, found)
    return [found, call.params.with({ uri: found.name })]
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

/** Special characters of regular expressions. */
const SPECIAL = /[\\^$.*+?()[\]{}|/-]/g

/** Replaces a name in a text where it is a separate word; the new name may contain the old one. */
function withName(text: string, known: string, requestedName: string): string {
  const word = new RegExp(`(?<![\\w/+:.-])${known.replaceAll(SPECIAL, '\\$&')}(?![\\w/+-])`, 'g')
  return text
    .split(requestedName)
    .map((part) => part.replaceAll(word, () => requestedName))
    .join(requestedName)
}
