/**
 * Several servers as one: joined lists, resolved names, merged notifications. An unavailable server does not hide the
 * others.
 */
import { type Call, type Handler, type Notification, type Outcome, resultOf } from '../core/call.ts'
import { GatewayError, invalidParam, unknownPrompt, unknownResource, unknownTool } from '../core/error.ts'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { aliasOf, isShortened } from '../core/text/alias.ts'
import { metaKeys, REFERENCE_KEY } from '../protocol/meta-keys.ts'
import { method, unknownMethod } from '../protocol/methods.ts'
import {
  withUri,
  ACKNOWLEDGED,
  type SubscriptionFilter,
  readFilter,
  withUris,
} from '../protocol/subscription-filter.ts'
import { type Candidate, exposedName, type Naming, ownerOf } from './names.ts'
import { listAllPages, walkIfThere } from './pagination.ts'

interface Options {
  readonly names: readonly string[]
  /** Runs a call that names its server. */
  readonly handle: Handler
  readonly naming: Naming
  /** Aborted when the set of servers changes. */
  readonly ended: AbortSignal
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
}

/** Offers servers together: lists are joined, and names and URIs get the name of their server as a prefix. */
export function aggregate(options: Options): Aggregate {
  return new AllServers(options)
}

class AllServers implements Aggregate {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  readonly handle: Handler = async (call) => {
    const { names, handle, naming, ended } = this.#options
    if (call.method === 'server/discover') return this.#discover(call)
    if (call.method === 'subscriptions/listen') return listenToAll(call, { names, handle, naming, ended })
    if (call.method.startsWith('notifications/')) {
      await fromAll(names, (upstream) => handle(this.#forServer(call, upstream)))
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

  readonly collisions = async (call: Call): Promise<string[]> => {
    const { names, handle } = this.#options
    const hidden: HiddenName[] = []
    const outer = names.filter((name) => names.some((other) => other.startsWith(`${name}-`)))
    for (const upstream of outer) {
      for (const list of ['tools/list', 'prompts/list']) {
        const entries = await listAllPages(handle, this.#forServer(call, upstream), list).catch(() => [])
        hidden.push(...entries.flatMap(({ fields: { name } }) => this.#hiddenOf(upstream, name)))
      }
    }
    return hidden.map(hiddenText)
  }

  async #discover(call: Call): Promise<Outcome> {
    const { names, handle } = this.#options
    const found = await fromAll(names, async (upstream) =>
      resultOf(await handle(this.#forServer(call, upstream))),
    )
    return done(mergeDiscovered(found, self))
  }

  async #joinedList(call: Call, list: string): Promise<Outcome> {
    const { names, handle, naming } = this.#options
    if (call.params.fields.cursor !== undefined) {
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so the cursor is not valid.',
      )
    }
    const lists = await fromAll(names, async (upstream) => {
      const entries = await walkIfThere(handle, this.#forServer(call, upstream), call.method)
      return entries && nameEntries(upstream, this.#withoutHidden(upstream, entries), naming)
    })
    if (lists.length === names.length && lists.every((entries) => entries === undefined)) {
      throw unknownMethod(call.method)
    }
    const texts = lists.flatMap((entries) => entries ?? []).map(({ text }) => text)
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

  #withoutHidden(upstream: string, entries: readonly Payload[]): Payload[] {
    return entries.filter(({ fields: { name, uri, uriTemplate } }) => {
      if (typeof name !== 'string' || typeof uri === 'string' || typeof uriTemplate === 'string') return true
      const [hidden] = this.#hiddenOf(upstream, name)
      if (hidden) this.#options.onHidden?.(hidden)
      return hidden === undefined
    })
  }
}

/** Queries all servers; failed ones are left out, unless all fail. */
async function fromAll<Value>(
  names: readonly string[],
  ask: (name: string) => Promise<Value>,
): Promise<Value[]> {
  const settled = await Promise.allSettled(names.map(ask))
  const found = settled.flatMap((item) => (item.status === 'fulfilled' ? [item.value] : []))
  const [failure] = settled.filter((item) => item.status === 'rejected')
  if (found.length === 0 && failure) throw failure.reason
  return found
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

interface ListenOptions {
  readonly names: readonly string[]
  /** Runs a call that names its server. */
  readonly handle: Handler
  readonly naming: Naming
  readonly ended: AbortSignal
}

/** How many notifications of available servers are buffered until the remaining servers acknowledge. */
const MAX_WAITING_NOTIFICATIONS = 1000

/** One subscription to several servers; it ends when the set of servers changes. */
export async function listenToAll(
  call: Call,
  { names, handle, naming, ended }: ListenOptions,
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
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ notifications: mergedFilter(accepted) }) })
    pending?.forEach((note) => call.emit(note))
    pending = undefined
  }
  call.signal.addEventListener('abort', stop)
  ended.addEventListener('abort', stop)
  try {
    const streams = names.map((upstream) => {
      const part = filterFor(filter, upstream, (uri) => naming.serverOf(uri, names))
      const exposed = (uri: string): string => naming.uri(upstream, uri)
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
      const outcome = handle({ ...call, params, target, client, emit, signal: controller.signal })
      outcome.then(
        () => acknowledged.resolve(),
        () => acknowledged.resolve(),
      )
      return { acknowledged: acknowledged.promise, outcome }
    })
    await Promise.all(streams.map((stream) => stream.acknowledged))
    acknowledge()
    await Promise.allSettled(streams.map((stream) => stream.outcome))
    if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
    return { kind: 'result', result: Payload.of({}) }
  } finally {
    call.signal.removeEventListener('abort', stop)
    ended.removeEventListener('abort', stop)
  }
}

function filterFor(
  filter: SubscriptionFilter,
  upstream: string,
  serverOf: (uri: string) => Candidate | undefined,
): SubscriptionFilter {
  const uris = (filter.resourceSubscriptions ?? []).flatMap((uri) => {
    const found = serverOf(uri)
    return found?.upstream === upstream ? [found.name] : []
  })
  const { resourceSubscriptions: _all, ...rest } = filter
  return { ...rest, ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}

function mergedFilter(filters: readonly SubscriptionFilter[]): SubscriptionFilter {
  const uris = filters.flatMap((filter) => filter.resourceSubscriptions ?? [])
  return { ...Object.assign({}, ...filters), ...(uris.length > 0 && { resourceSubscriptions: uris }) }
}

// Merges the discovery results of several servers, and renames entries and URIs.

/** The merged descriptions of several servers: the capabilities of any, and the instructions of each. */
function mergeDiscovered(found: readonly Payload[], own: Readonly<Record<string, unknown>>): Payload {
  const capabilities = found.map(({ fields }) => fields.capabilities).filter(isObject)
  const instructions = found.flatMap(({ fields }) => {
    const { instructions: text } = fields
    return typeof text === 'string' && text !== '' ? [`# ${titleOf(fields)}\n\n${text}`] : []
  })
  return Payload.of({
    capabilities: withoutVendors(capabilities.reduce(union, {})),
    ...(instructions.length > 0 && { instructions: instructions.join('\n\n') }),
    _meta: { [metaKeys.serverInfo]: own },
  })
}

/** The entries of a server's list under their names at the shared endpoint. */
function nameEntries(upstream: string, entries: readonly Payload[], naming: Naming): Payload[] {
  return entries.map((entry) => {
    const { name, uri, uriTemplate } = entry.fields
    if (typeof uri === 'string') return entry.with({ uri: naming.uri(upstream, uri) })
    if (typeof uriTemplate === 'string') return entry.with({ uriTemplate: naming.uri(upstream, uriTemplate) })
    return typeof name === 'string' ? entry.with({ name: naming.name(upstream, name) }) : entry
  })
}

/** A result of a server with its resource URIs converted to those of the client. */
export function nameUris(result: Payload, exposed: (uri: string) => string, upstream: string): Payload {
  const { content, contents, messages } = result.fields
  let named = result
  if (Array.isArray(content) && content.some(hasUri)) named = named.withItems('content', rename)
  if (Array.isArray(contents)) named = named.withItems('contents', renamed)
  if (Array.isArray(messages) && messages.some((item) => isObject(item) && hasUri(item.content))) {
    named = named.withItems('messages', (message) => {
      const block = message.at('content')
      return block ? message.with({ content: rename(block) }) : message
    })
  }
  return named

  function renamed(value: Payload): Payload {
    const { uri } = value.fields
    return typeof uri === 'string' ? value.with({ uri: exposed(uri) }) : value
  }

  function rename(block: Payload): Payload {
    if (isKept(block, upstream)) return block
    if (block.fields.type !== 'resource') return renamed(block)
    const resource = block.at('resource')
    return resource ? block.with({ resource: renamed(resource) }) : block
  }
}

/** Whether a block links to data of the server that this gateway keeps, whose URI is the same at all addresses. */
function isKept(block: Payload, upstream: string): boolean {
  const kept = block.meta(REFERENCE_KEY)
  return isObject(kept) && kept.origin_server === upstream
}

function hasUri(block: unknown): boolean {
  return isObject(block) && (typeof block.uri === 'string' || isObject(block.resource))
}

/** Extension methods do not name a server, so they only work at the endpoint of one server. */
function withoutVendors(capabilities: Record<string, unknown>): Record<string, unknown> {
  const { extensions: _extensions, experimental: _experimental, tasks: _tasks, ...rest } = capabilities
  return rest
}

function union(one: Record<string, unknown>, other: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...one }
  for (const [key, value] of Object.entries(other)) {
    const before = merged[key]
    merged[key] = isObject(before) && isObject(value) ? union(before, value) : before === true ? true : value
  }
  return merged
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
