/**
 * Finds the server that a tool, prompt or resource belongs to at the address of several servers. Clients also use names
 * that are not in its lists: those from before another server was added, long names that are listed shortened, and those
 * that the views of a server (MCP Apps) know, which are the server's own. Invariant: a name in the namespace of a server
 * reaches that server or none, and a name that several servers have reaches none of them.
 */
import { listAllPages } from '../protocol/listing.ts'
import { LRUCache } from 'lru-cache'
import type { Call, Handler } from '../core/call.ts'
import { ambiguous, type GatewayError, unknownPrompt, unknownResource, unknownTool } from '../core/error.ts'
import type { Payload } from '../core/payload.ts'
import { aliasOf, isShortened } from '../core/text/alias.ts'
import { fits } from '../core/text/pattern.ts'
import { isView } from '../core/text/server-uri.ts'
import { within } from '../core/time/waiting.ts'
import { expiryByWorld, world } from '../core/world.ts'
import { viewsOf } from './exposed-uris.ts'
import { withLastKnown } from './last-known.ts'
import { type ItemMethod, type ListedName, itemCall, namesIn } from './listed-names.ts'
import { type Candidate, exposedName, type Naming, ownerOf } from './names.ts'

/** Several servers, and what the names of one are found by. */
export interface NamedServers {
  readonly names: readonly string[]
  readonly naming: Naming
  /** Runs a call that names its server. */
  readonly handle: Handler
  readonly listedName: ListedName
  /** Whether the server that a call names is known to list no such tool, without asking it. */
  lacks?(call: Call): boolean
  /** Whether the tool that a call names is held: it is not listed, but its server has it. */
  isHeld?(call: Call): Promise<boolean>
  /** How long a server may take to list what a name is compared with, in milliseconds. */
  readonly timeoutMs: number
  /** Whether the caller may make a call of a server; the call is not made. */
  isPermitted?(call: Call): Promise<boolean>
}

/** How a server has a name or URI: as its list has it, or in another way. */
interface Offer {
  readonly upstream: string
  readonly isExact: boolean
}

/** What a name is, and in the namespace of which server. */
interface OwnedName {
  readonly owner: Candidate
  readonly name: string
}

/** For how many sessions the servers of their views are remembered. */
const MAX_SESSIONS = 1000

/** For how many callers the resources of a server are remembered, for how long, and how often they are listed, in milliseconds. */
const MAX_RESOURCE_LISTS = 100
const RESOURCES_TTL_MS = 10_000
const MIN_LISTING_INTERVAL_MS = 1000

/** How long a server whose list is there may take until aliases in it are known, in milliseconds. */
const ALIAS_TIMEOUT_MS = 1000

/** Finds the servers of names and URIs. */
export class Locator {
  readonly #servers: NamedServers
  /** The servers whose views the client of a session has read: it runs the apps of no others. */
  readonly #viewed = new LRUCache<string, ReadonlySet<string>>({ max: MAX_SESSIONS })

  /** Callers choose URIs, so not every unknown one makes servers list their resources. */
  readonly #resources = new LRUCache<string, Promise<Resources>>({
    max: MAX_RESOURCE_LISTS,
    ttl: RESOURCES_TTL_MS,
    ...expiryByWorld,
  })

  constructor(servers: NamedServers) {
    this.#servers = servers
  }

  /** The server of a tool or prompt, and its name there. @throws UNKNOWN_TOOL, and INVALID_INPUT for prompts */
  async item(call: Call, kind: ItemMethod, name: string): Promise<Candidate> {
    const { names, naming } = this.#servers
    const owner = ownerOf(name, names)
    if (owner) return this.#inNamespace(call, kind, { owner, name })
    const offers = await this.#offers(async (upstream) => {
      // Callers choose names: an unknown one does not make servers list their tools for each new caller.
      if (kind === 'tools/call' && this.#servers.lacks?.(itemCall(call, kind, { upstream, name }))) return
      const listed = await this.#listed(call, kind, { upstream, name })
      return typeof listed === 'object' ? { upstream, isExact: listed.name === name } : undefined
    })
    const bare = offers.filter(({ upstream }) => naming.isBare(upstream))
    const [only, ...others] = this.#inContext(call, bare.length > 0 ? bare : offers)
    const unknown = kind === 'tools/call' ? unknownTool(name) : unknownPrompt(name)
    if (!only) {
      const holder = kind === 'tools/call' ? await this.#holder(call, name) : undefined
      if (holder !== undefined) return { upstream: holder, name }
      throw unknown
    }
    if (others.length === 0) return { upstream: only.upstream, name }
    throw await this.#ambiguous(unknown, {
      calls: [only, ...others].map(({ upstream }) => itemCall(call, kind, { upstream, name })),
      exposed: (upstream) => naming.prefixed(upstream, name),
    })
  }

  /** A server whose tool of this name is held: it is the one that says so. */
  async #holder(call: Call, name: string): Promise<string | undefined> {
    const { names, isHeld, lacks } = this.#servers
    for (const upstream of isHeld ? names : []) {
      const asked = itemCall(call, 'tools/call', { upstream, name })
      if (!lacks?.(asked) && (await isHeld?.(asked).catch(() => false))) return upstream
    }
    return undefined
  }

  /** Whether the lists of the servers have a tool or prompt of this name; with `isOwn`, also by its name on a server alone. */
  async lists(
    call: Call,
    kind: ItemMethod,
    { name, isOwn }: { readonly name: string; readonly isOwn: boolean },
  ): Promise<boolean> {
    const { names, naming } = this.#servers
    const owner = ownerOf(name, names)
    const bare = names.filter((each) => isOwn || naming.isBare(each)).map((upstream) => ({ upstream, name }))
    const possible = owner ? [owner, ...bare] : bare
    const found = await Promise.all(possible.map((each) => this.#listed(call, kind, each)))
    return found.some((each) => typeof each === 'object')
  }

  /** The server of a resource or template, and its URI there; undefined if none has it. @throws RESOURCE_NOT_FOUND */
  async resource(call: Call, uri: string): Promise<Candidate | undefined> {
    const { names, naming } = this.#servers
    const named = naming.serverOf(uri, names)
    if (named) return named
    const offers = await this.#offers((upstream) => this.#offerOf(call, upstream, uri))
    const [only, ...others] = this.#inContext(call, offers)
    if (!only) return undefined
    if (others.length === 0) return { upstream: only.upstream, name: uri }
    throw await this.#ambiguous(unknownResource(uri), {
      calls: [only, ...others].map(({ upstream }) => {
        const target = { method: 'resources/read', upstream, name: uri }
        return { ...call, method: target.method, params: call.params.with({ uri }), target }
      }),
      exposed: (upstream) => naming.uri(upstream, uri),
    })
  }

  /** Remembers that the client of a call reads a view of a server. */
  noteView(call: Call, { upstream, name }: Candidate): void {
    const session = isView(name) ? call.client.session : undefined
    if (session === undefined) return
    this.#viewed.set(session, new Set([...(this.#viewed.get(session) ?? []), upstream]))
  }

  /**
   * In the namespace of a server, a listed name is the part without the prefix, or all of it if the server is listed
   * without a prefix; the other one may be a name from before.
   */
  async #inNamespace(call: Call, kind: ItemMethod, { owner, name }: OwnedName): Promise<Candidate> {
    const whole = { upstream: owner.upstream, name }
    const order = this.#servers.naming.isBare(owner.upstream) ? [whole, owner] : [owner, whole]
    for (const each of order) {
      const listed = await this.#listed(call, kind, each)
      if (typeof listed === 'object') return each
      // A server whose list is not known may run the call.
      if (listed === 'unknown') return owner
    }
    return isShortened(name) ? this.#original(call, kind, { owner, name }) : owner
  }

  /** The name that was shortened, from the list of its server. */
  async #original(call: Call, kind: ItemMethod, { owner, name }: OwnedName): Promise<Candidate> {
    const { upstream } = owner
    const entries = await this.#entries(call, upstream, kind === 'tools/call' ? 'tools/list' : 'prompts/list')
    const isOf = (own: string): boolean =>
      this.#servers.naming.prefixed(upstream, own) === name || isAliasOf(name, upstream, own)
    const found = namesIn(entries).find(isOf)
    return found === undefined ? owner : { upstream, name: found }
  }

  /** The name under which a server lists a tool that may be named by an alias; the same one if that is not known in time. */
  async listedName(call: Call, tool: Candidate): Promise<string> {
    try {
      const found = this.#servers.listedName(itemCall(call, 'tools/call', tool))
      const name = found instanceof Promise ? await within(found, ALIAS_TIMEOUT_MS, undefined) : found
      return name ?? tool.name
    } catch {
      return tool.name
    }
  }

  /** How a server lists a tool or prompt: under a name, not at all, or that is not known. */
  async #listed(
    call: Call,
    kind: ItemMethod,
    item: Candidate,
  ): Promise<{ readonly name: string } | 'absent' | 'unknown'> {
    try {
      const found = this.#servers.listedName(itemCall(call, kind, item))
      // The list is nearly always known.
      const name = found instanceof Promise ? await within(found, this.#servers.timeoutMs, null) : found
      if (name === null) return 'unknown'
      return name === undefined ? 'absent' : { name }
    } catch {
      return 'unknown'
    }
  }

  /** Whether a server has a resource or template. Its lists are read again if they do not have it. */
  async #offerOf(call: Call, upstream: string, uri: string): Promise<Offer | undefined> {
    const { principal, client } = call
    const key = JSON.stringify([upstream, principal.id, client.capabilities])
    const known = await this.#resources.get(key)
    const offered = known && isOffered(known, uri)
    if (offered !== undefined) return { upstream, isExact: offered }
    if (known && world.monotonic() - known.at < MIN_LISTING_INTERVAL_MS) return undefined
    const listing = this.#listResources(call, upstream)
    this.#resources.set(key, listing)
    const isExact = isOffered(await listing, uri)
    return isExact === undefined ? undefined : { upstream, isExact }
  }

  async #listResources(call: Call, upstream: string): Promise<Resources> {
    const lists = ['resources/list', 'resources/templates/list', 'tools/list']
    const read = lists.map((list) => this.#entries(call, upstream, list).catch(() => []))
    const [resources = [], templates = [], tools = []] = await Promise.all(
      read.map((entries) => within(entries, this.#servers.timeoutMs, [])),
    )
    const uriTemplates = textsIn(templates, 'uriTemplate')
    const views = tools.flatMap(({ fields }) => viewsOf(fields))
    return {
      at: world.monotonic(),
      listed: new Set([...textsIn(resources, 'uri'), ...uriTemplates, ...views]),
      globs: uriTemplates.map((text) => text.replaceAll(/\{[^{}]*\}/g, '*')),
    }
  }

  /** The servers that have something; if lists have it exactly, those of these lists. */
  async #offers(offerOf: (upstream: string) => Promise<Offer | undefined>): Promise<readonly Offer[]> {
    const found = await Promise.all(this.#servers.names.map(offerOf))
    const offers = found.filter((offer) => offer !== undefined)
    const exact = offers.filter(({ isExact }) => isExact)
    return exact.length > 0 ? exact : offers
  }

  /** Of several servers, the one whose views are the only ones among them that the client has read. */
  #inContext({ client: { session } }: Call, offers: readonly Offer[]): readonly Offer[] {
    const viewed = session === undefined ? undefined : this.#viewed.get(session)
    const found = viewed ? offers.filter(({ upstream }) => viewed.has(upstream)) : []
    return found.length === 1 ? found : offers
  }

  /** The error for a name of several servers. It names only those that the caller may use. */
  async #ambiguous(
    unknown: GatewayError,
    { calls, exposed }: { readonly calls: readonly Call[]; exposed(upstream: string): string },
  ): Promise<GatewayError> {
    const isPermitted = await Promise.all(
      calls.map(async (each) => (await this.#servers.isPermitted?.(each)) !== false),
    )
    const shown = calls.filter((_call, index) => isPermitted[index])
    return ambiguous(
      unknown,
      shown.map(({ target }) => exposed(target.upstream ?? '')),
    )
  }

  #entries(call: Call, upstream: string, list: string): ReturnType<typeof listAllPages> {
    const target = { method: list, upstream }
    return listAllPages(
      withLastKnown(this.#servers.handle, this.#servers.timeoutMs),
      { ...call, target, emit: () => undefined },
      list,
    )
  }
}

/** The resources and templates that a server lists, and the views that its tools name. */
interface Resources {
  /** When they were listed, on the monotonic clock. */
  readonly at: number
  readonly listed: ReadonlySet<string>
  /** The templates as globs. */
  readonly globs: readonly string[]
}

/** Whether a URI is listed or only fits a template; undefined if neither. */
function isOffered({ listed, globs }: Resources, uri: string): boolean | undefined {
  if (listed.has(uri)) return true
  return globs.some((glob) => fits(glob, uri)) ? false : undefined
}

function textsIn(entries: readonly Payload[], key: string): string[] {
  return entries.map(({ fields }) => fields[key]).filter((text) => typeof text === 'string')
}

/** Whether a name is the alias in snake case of a tool or prompt among several servers. */
function isAliasOf(alias: string, upstream: string, name: string): boolean {
  return alias === aliasOf(exposedName(upstream, aliasOf(name)))
}
