/**
 * Several servers as one: joined lists, resolved names, merged notifications. An unavailable server does not hide the
 * others.
 */
import { type Call, type Handler, type Notification, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError, invalidParam, unknownPrompt, unknownResource, unknownTool } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { aliasOf, isShortened } from '../core/text/alias.ts'
import { within } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { appsExtension, metaKeys } from '../protocol/meta-keys.ts'
import { method, unknownMethod } from '../protocol/methods.ts'
import { keyOfEntries } from '../protocol/server-shapes.ts'
import { withUri, readFilter, reportedChanges } from '../protocol/subscription-filter.ts'
import { nameEntry, nameUris } from './exposed-uris.ts'
import { type Candidate, exposedName, type Naming, ownerOf } from './names.ts'
import { FanOut } from './fan-out.ts'
import { listenToAll } from './listen-all.ts'
import { listAllPages, walkIfThere } from './pagination.ts'

interface Options {
  readonly names: readonly string[]
  /** Runs a call that names its server. */
  readonly handle: Handler
  readonly naming: Naming
  /** How long a server may take until the others are answered without it, in milliseconds. */
  readonly timeoutMs: number
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
  readonly log: Log
  /** Called with each listed tool or prompt that is left out, each time. */
  readonly onHidden?: (hidden: HiddenName) => void
}

/**
 * A tool or prompt that is left out of the lists of all servers, because its name is in the namespace of another
 * server.
 */
export interface HiddenName {
  readonly exposed: string
  readonly upstream: string
  /** The server whose prefix the name begins with. */
  readonly owner: string
}

/** Why a name is left out and where it is available, for people. */
export function hiddenText({ exposed, upstream, owner }: HiddenName): string {
  return `${exposed} of ${upstream} is available at /mcp/${upstream} only: at /mcp such names belong to ${owner}`
}

/** Several servers as one. */
export interface Aggregate {
  readonly handle: Handler
  resolve(call: Call): Promise<Call | undefined>
  /** Tools and prompts that are left out, with the reasons. */
  collisions(call: Call): Promise<string[]>
  /** Notes whether a server can be reached. */
  reachable(upstream: string, isReachable: boolean): void
  /** What a server did not answer in time, so that it is left out, for people. */
  missing(upstream: string): readonly string[]
}

/** Offers servers together: lists are joined, and names and URIs get the name of their server as a prefix. */
export function aggregate(options: Options): Aggregate {
  return new AllServers(options)
}

class AllServers implements Aggregate {
  readonly #options: Options
  readonly #fanOut: FanOut
  /** The subscriptions, each with a way to report that all lists may have changed. */
  readonly #listeners = new Set<() => void>()

  constructor(options: Options) {
    this.#options = options
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

  readonly collisions = async (call: Call): Promise<string[]> => {
    const { names, handle, timeoutMs } = this.#options
    const hidden: HiddenName[] = []
    const outer = names.filter((name) => names.some((other) => other.startsWith(`${name}-`)))
    for (const upstream of outer) {
      for (const list of ['tools/list', 'prompts/list']) {
        const listed = listAllPages(handle, this.#forServer(call, upstream), list).catch(() => [])
        const entries = await within(listed, timeoutMs, [])
        hidden.push(...entries.flatMap(({ fields: { name } }) => this.#hiddenOf(upstream, name)))
      }
    }
    return hidden.map(hiddenText)
  }

  async #discover(call: Call): Promise<Outcome> {
    const { handle } = this.#options
    const { found, isPartial } = await this.#fanOut.all(call, async (upstream, request) =>
      resultOf(await handle(this.#forServer(request, upstream))),
    )
    return done(mergeDiscovered(found, self, isPartial))
  }

  async #listen(call: Call): Promise<Outcome> {
    const { names, handle, naming, ended } = this.#options
    const changes = reportedChanges(readFilter(call.params))
    const report = (): void => changes.forEach((method) => call.emit({ method }))
    this.#listeners.add(report)
    try {
      const acknowledged = (upstream: string, request: Promise<unknown>): Promise<void> =>
        this.#fanOut.settled(upstream, call, request)
      return await listenToAll(call, { names, handle, naming, ended, acknowledged })
    } finally {
      this.#listeners.delete(report)
    }
  }

  async #joinedList(call: Call, list: string): Promise<Outcome> {
    const { handle, naming, timeoutMs } = this.#options
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
      return entries && nameEntries(upstream, this.#withoutHidden(upstream, entries, list), naming)
    })
    if (!isPartial && found.every((entries) => entries === undefined)) throw unknownMethod(call.method)
    const texts = found.flatMap((entries) => entries ?? []).map(({ text }) => text)
    return done(Payload.of({}).with({ [list]: Payload.text(`[${texts.join(',')}]`) }))
  }

  async #toServer(call: Call, { upstream, name }: Candidate, params: Payload): Promise<Outcome> {
    const { handle, naming } = this.#options
    const rewriteResult = (result: Payload): Payload =>
      nameUris(result, (uri) => naming.uri(upstream, uri), upstream)
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
    const { names, naming } = this.#options
    const { name: subject } = call.target
    if (call.method === 'completion/complete') return this.#locateReference(call)
    if (!located.has(call.method)) return undefined
    if (subject === undefined) throw invalidParam(method(call.method).nameIn ?? 'name', 'must be a string')
    if (call.method === 'resources/read') {
      const found = naming.serverOf(subject, names)
      if (!found) throw unknown(call.method, subject)
      return [found, call.params.with({ uri: found.name })]
    }
    const list = call.method === 'tools/call' ? 'tools/list' : 'prompts/list'
    const found = await this.#find(call, list, subject)
    return [found, call.params.with({ name: found.name })]
  }

  async #locateReference(call: Call): Promise<[Candidate, Payload]> {
    const { names, naming } = this.#options
    const reference = call.params.at('ref')
    const { name, uri } = reference?.fields ?? {}
    if (reference && typeof uri === 'string') {
      const found = naming.serverOf(uri, names)
      if (found) return [found, call.params.with({ ref: reference.with({ uri: found.name }) })]
    }
    if (!reference || (typeof name !== 'string' && typeof uri !== 'string'))
      throw invalidParam('ref', 'must name a prompt or a resource')
    if (typeof name !== 'string') throw unknown(call.method, String(uri))
    const found = await this.#find(call, 'prompts/list', name)
    return [found, call.params.with({ ref: reference.with({ name: found.name }) })]
  }

  /** The server a name belongs to, and the name on that server; its list is read if the name is shortened. */
  async #find(call: Call, list: string, name: string): Promise<Candidate> {
    const { names, handle } = this.#options
    const owner = ownerOf(name, names)
    if (!owner) throw unknown(call.method, name)
    if (!isShortened(name)) return owner
    const entries = await listAllPages(handle, this.#forServer(call, owner.upstream), list)
    const listed = entries.map(({ fields }) => String(fields.name))
    const found =
      listed.find((entry) => entry === owner.name) ??
      listed.find((entry) => isAliasOf(name, owner.upstream, entry))
    return found === undefined ? owner : { upstream: owner.upstream, name: found }
  }

  /** The tool or prompt of a server, where its exposed name is in the namespace of another server. */
  #hiddenOf(upstream: string, name: unknown): readonly HiddenName[] {
    const { names, naming } = this.#options
    const exposed = naming.name(upstream, String(name))
    const owner = ownerOf(exposed, names)?.upstream
    return owner === undefined || owner === upstream ? [] : [{ exposed, upstream, owner }]
  }

  #withoutHidden(upstream: string, entries: readonly Payload[], list: string): readonly Payload[] {
    if (keyOfEntries(list) !== 'name') return entries
    return entries.filter(({ fields: { name } }) => {
      const [hidden] = this.#hiddenOf(upstream, name)
      if (hidden) this.#options.onHidden?.(hidden)
      return hidden === undefined
    })
  }
}

/** Forwards notifications of one server with its URIs converted to those of the client. */
function namedEmit(call: Call, upstream: string, naming: Naming): (note: Notification) => void {
  return (note) => call.emit(withUri(note, (uri) => naming.uri(upstream, uri)))
}

/** Whether a name is the alias of a tool or prompt among several servers. */
function isAliasOf(alias: string, upstream: string, name: string): boolean {
  return alias === aliasOf(exposedName(upstream, aliasOf(name)))
}

function done(result: Payload): Outcome {
  return { kind: 'result', result }
}

/** Methods whose target name identifies the server. */
const located: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read'])

const namedOnly = {
  suggestion: 'Methods that the protocol does not define are available at /mcp/<server> only.',
}

function unknown(name: string, subject: string): GatewayError {
  if (name === 'tools/call') return unknownTool(subject)
  return name === 'resources/read' ? unknownResource(subject) : unknownPrompt(subject)
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
  const lists = ['tools', 'prompts', 'resources'].filter((name) => isPartial || isObject(merged[name]))
  return Payload.of({
    capabilities: lists.reduce((all, name) => union(all, { [name]: { listChanged: true } }), merged),
    ...(instructions.length > 0 && { instructions: instructions.join('\n\n') }),
    _meta: { [metaKeys.serverInfo]: own },
  })
}

/** The entries of a server's list under their names at the shared endpoint. */
function nameEntries(upstream: string, entries: readonly Payload[], naming: Naming): Payload[] {
  const uri = (own: string): string => naming.uri(upstream, own)
  return entries.map((entry) => nameEntry(entry, uri, (name) => naming.name(upstream, name)))
}

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
        message: renamed(thrown.message),
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
