/** Finds the handler of a call: built-ins first, then the chain of its target, compiled on first use and cached. */
import type { Finding } from '../core/findings.ts'
import { listAllPages } from '../protocol/listing.ts'
import { world } from '../core/world.ts'
import {
  type Call,
  compose,
  type Handler,
  type Middleware,
  type Target,
  type Outcome,
  resultOf,
} from '../core/call.ts'
import { type ListedTool, withFoundTool } from '../protocol/found-tool.ts'
import { GatewayError, unknownTool } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { isPlainName, namesByAlias } from '../core/text/alias.ts'
import { within } from '../core/time/waiting.ts'
import { isProtocolMethod, method, unknownMethod } from '../protocol/methods.ts'
import { Aggregate, type SharedServers } from './aggregate.ts'
import { type Answering, Builtins } from './builtins.ts'
import { listedNames, type ListedName, nameOf, namesIn, itemCall } from './listed-names.ts'
import { lastKnown, withLastKnown } from './last-known.ts'
import { withPages } from './pagination.ts'
import type { OfferedProfile, ProfileTools } from './profile-tools.ts'
import { ToolSearch } from './tool-search.ts'
import type { ListSettings } from '../core/settings.ts'
import { PROFILE_ADDRESS, profileSlot } from '../core/slot.ts'
import { strictNames } from './strict-names.ts'

/** The servers, and what is added to them. */
interface CatalogSources extends Omit<SharedServers, 'names' | 'handle' | 'last' | 'listedName' | 'ended'> {
  /** The handlers of the servers by name, in the order of the configuration. */
  readonly upstreams: ReadonlyMap<string, Handler>
  /** The middleware of a target, outermost first. */
  middlewares(target: Target): readonly (Middleware | undefined)[]
  /** The middleware around every call of a client. */
  readonly observe: Middleware
  /** The middleware around what clients see of a method, outermost first. */
  viewMiddleware(method: string): readonly (Middleware | undefined)[]
  /** Whether all servers are offered together when a call names none. */
  readonly isAggregate: boolean
  /** The server that has the address of all servers for itself. */
  readonly only: string | undefined
  /** Whether names are exposed in snake case, and resources in the scheme of their server. */
  readonly isStrict: boolean
  /** Lists of tools with a URL of their own, by name. */
  readonly profiles?: ReadonlyMap<string, OfferedProfile>
  /** When lists at other URLs are replaced by a search. */
  readonly lists?: ListSettings | undefined
  /** The built-ins of the gateway. */
  readonly own: readonly Answering[]
  /** Whether built-in tools are listed, callable only, or disabled. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may also use methods of the gateway's own. */
  readonly hasMethods?: boolean
  /** The list entry of the tool a call names, if the call names its server. */
  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined>
}

/** The maximum number of entries on a page; many hosts read only the first page. */
const MAX_PAGE_ENTRIES = 1000
const MAX_STRICT_PAGE_ENTRIES = 100

/** The maximum number of cached chains; then the cache is emptied. */
const MAX_CACHED_CHAINS = 10_000
/** The maximum length in characters of the target name of a cached chain: callers choose names. */
const MAX_CACHED_NAME_LENGTH = 1000

/** Routes calls to the chains of their targets, each compiled on first use. */
export class Catalog {
  readonly handle: Handler
  /** The built-in tool a call names. */
  readonly builtinTool: Builtins['tool']
  readonly #sources: CatalogSources
  /** Compiled chains by target; emptied when there are too many. */
  readonly #chains = new Map<string, Handler>()
  readonly #ended = new AbortController()
  /** Runs a call that names its server, under the names clients see. */
  readonly #one: Handler
  /** The same, with the last lists of servers that are away. */
  readonly #oneOrLast: Handler
  readonly #all: Aggregate
  readonly #profiles: ReadonlyMap<string, Aggregate>
  readonly #views = new Map<string, Handler>()

  constructor(sources: CatalogSources) {
    const { upstreams, isStrict, tool } = sources
    this.#sources = sources
    const listedName = listedNames(tool, upstreams)
    const end = ({ target: { upstream = '' } }: Call): Handler | undefined => upstreams.get(upstream)
    const isOffered = (call: Call, name: string): boolean =>
      this.#profileOf(call)?.tools.offers({ upstream: call.target.upstream ?? '', name }) !== false
    const aliased = withAliases((call) => this.#run(call, end), { listedName, tool, isOffered })
    this.#one = isStrict ? strictNames(onlyDeclared(aliased, upstreams)) : aliased
    this.#oneOrLast = withLastKnown(this.#one, sources.timeoutMs)
    const last = lastKnown(this.#one)
    const shared = { ...sources, handle: this.#one, last, ended: this.#ended.signal, listedName }
    this.#all = new Aggregate({ ...shared, names: [...upstreams.keys()] })
    this.#profiles = new Map(
      [...(sources.profiles ?? [])].map(([name, { servers, naming, tools }]) => {
        // Names in errors are those of tools that the profile has.
        const isPermitted = async (call: Call): Promise<boolean> =>
          isAdmitted(call, tools) && (await sources.isPermitted?.(call)) !== false
        return [name, new Aggregate({ ...shared, names: servers, naming, tools, isPermitted })] as const
      }),
    )
    const search = new ToolSearch({
      settings: (call) => this.#listsOf(call),
      isTaken: (call) => this.#isTaken(call),
      list: (call) => this.#view(call, answer),
    })
    const isSearched =
      sources.lists !== undefined || [...(sources.profiles?.values() ?? [])].some(({ lists }) => lists)
    const builtins = new Builtins({
      parts: isSearched ? [...sources.own, search.part] : sources.own,
      metaTools: sources.metaTools,
      hasMethods: sources.hasMethods !== false,
      isTaken: (call, isOther) => this.#isTaken(call, isOther),
      isShown: (call, name) =>
        search.has(call, name) ?? this.#profileOf(call)?.tools.showsOwn(name) !== false,
      run: (call, handle) => this.#run(call, () => handle),
    })
    this.builtinTool = builtins.tool
    const answer = builtins.answer(this.servers)
    const limit = isStrict ? MAX_STRICT_PAGE_ENTRIES : MAX_PAGE_ENTRIES
    const viewed: Handler = (call) =>
      isSearched && call.method === 'tools/list' ? search.list(call) : this.#view(call, answer)
    const paged = withPages(viewed, limit)
    const observed = sources.observe((call) => paged(this.#addressed(call)))
    const named: Handler = this.#profiles.size === 0 ? observed : (call) => observed(this.#inProfile(call))
    this.handle = !isSearched
      ? named
      : (call) => (search.mayWrap(call) ? search.unwrapped(this.#inProfile(call)).then(named) : named(call))
  }

  /** The same without built-ins. */
  readonly servers: Handler = (call) => {
    if (call.target.upstream !== undefined) return this.#oneOrLast(call)
    const shared = this.#sharedBy(call)
    if (shared === this.#all && !this.#sources.isAggregate) return Promise.reject(unknownUpstream(undefined))
    return shared.handle(call)
  }

  /** The call as its server receives it; undefined if it is for several servers. */
  resolve(call: Call): Call | Promise<Call | undefined> {
    const addressed = this.#addressed(this.#inProfile(call))
    return addressed.target.upstream === undefined ? this.#sharedBy(addressed).resolve(addressed) : addressed
  }

  /** Notes whether a server can be reached. */
  reachable(upstream: string, isReachable: boolean): void {
    for (const { fanOut } of [this.#all, ...this.#profiles.values()]) fanOut.reachable(upstream, isReachable)
  }

  /** What a server did not answer in time, so that it is left out, for people. */
  missing(upstream: string): readonly string[] {
    return this.#all.fanOut.problems(upstream)
  }

  /** Tools and prompts that would have the same names. */
  async collisions(call: Call): Promise<readonly Finding[]> {
    const { isStrict, isAggregate, upstreams } = this.#sources
    const ofAliases = isStrict ? await aliasCollisions(call, upstreams) : []
    const conflicts = isAggregate ? await this.#all.collisions(call) : []
    return [
      ...ofAliases.map((message): Finding => ({ path: ['upstreams'], at: 'key', message })),
      // What one server lists does not prevent the others from being served.
      ...conflicts.map(({ upstream, message }): Finding => {
        return { path: ['upstreams', upstream], at: 'key', message, isMinor: true }
      }),
    ]
  }

  /** Ends subscriptions and other work bound to this catalog. */
  close(): void {
    this.#ended.abort()
  }

  /** A call by the URL of a profile is for several servers, as one at /mcp. */
  #inProfile(call: Call): Call {
    const { upstream, ...target } = call.target
    const name = upstream === undefined ? undefined : profileAt(upstream)
    if (name === undefined) return call
    call.logFields.set('profile', name)
    return profileSlot.set({ ...call, target }, name)
  }

  #profileOf(call: Call): OfferedProfile | undefined {
    return this.#profiles.size === 0 ? undefined : this.#sources.profiles?.get(profileSlot.of(call) ?? '')
  }

  #listsOf(call: Call): ListSettings | undefined {
    const profile = this.#profileOf(call)
    return profile ? profile.lists : this.#sources.lists
  }

  /** The servers that a call without a server is for. */
  #sharedBy(call: Call): Aggregate {
    if (this.#profiles.size === 0) return this.#all
    const name = profileSlot.of(call)
    return name === undefined ? this.#all : (this.#profiles.get(name) ?? this.#all)
  }

  /** A call that names no server goes to the only one, or to all. */
  #addressed(call: Call): Call {
    const { only } = this.#sources
    if (call.target.upstream !== undefined || only === undefined || this.#profileOf(call)) return call
    return { ...call, target: { ...call.target, upstream: only } }
  }

  /** Runs a call through the chain of its target; `endOf` is what is at its end. */
  #run(call: Call, endOf: (call: Call) => Handler | undefined): Promise<Outcome> {
    const { upstream, method, name, isBuiltin } = call.target
    const place = isBuiltin ? `own ${upstream} ${method}` : `${upstream} ${method}`
    const key = name === undefined ? place : `${place} ${name}`
    const known = this.#chains.get(key)
    if (known) return known(call)
    const end = endOf(call)
    if (!end) return Promise.reject(unknownUpstream(upstream))
    const chain = compose(this.#sources.middlewares(call.target), end)
    if (key.length > MAX_CACHED_NAME_LENGTH) return chain(call)
    if (this.#chains.size >= MAX_CACHED_CHAINS) this.#chains.clear()
    this.#chains.set(key, chain)
    return chain(call)
  }

  /** Whether a server lists the tool a call names. An unavailable server is treated as having nothing. */
  #isTaken(call: Call, isOther = false): boolean | Promise<boolean> {
    const addressed = this.#addressed(call)
    if (addressed.target.upstream === undefined)
      return this.#sharedBy(addressed)
        .lists(addressed, isOther)
        .catch(() => false)
    const tool = this.#sources.tool(addressed)
    return tool instanceof Promise ? tool.then(isThere, () => false) : isThere(tool)
  }

  #view(call: Call, answer: Handler): Promise<Outcome> {
    const { method } = call.target
    let chain = this.#views.get(method)
    if (!chain) {
      chain = compose(this.#sources.viewMiddleware(method), answer)
      // Clients can invent the names of other methods.
      if (isProtocolMethod(method)) this.#views.set(method, chain)
    }
    return chain(call)
  }
}

/** The profile that an address names in place of a server, as in `/mcp/p/<name>`. */
function profileAt(address: string): string | undefined {
  return address.startsWith(PROFILE_ADDRESS) ? address.slice(PROFILE_ADDRESS.length) : undefined
}

function isAdmitted({ target: { upstream = '', name = '', method } }: Call, tools: ProfileTools): boolean {
  return method !== 'tools/call' || tools.offers({ upstream, name })
}

function isThere(tool: ListedTool | undefined): boolean {
  return tool !== undefined && tool.isUnlisted !== true
}

function unknownUpstream(name: string | undefined): GatewayError {
  const message =
    name === undefined ? 'The URL must name a server: /mcp/<server>.' : `There is no server named ${name}.`
  return new GatewayError('UNSUPPORTED_OPERATION', message)
}

type Capabilities = Readonly<Record<string, unknown>>

/** How long declared capabilities are cached, in milliseconds. */
const CAPABILITIES_STALE_MS = 60_000

/** Refuses methods of capabilities that a server did not declare, without sending the request. */
function onlyDeclared(next: Handler, upstreams: ReadonlyMap<string, Handler>): Handler {
  const known = new Map<string, { readonly capabilities: Capabilities; readonly until: number }>()

  const ask = async (call: Call, upstream: string): Promise<Capabilities | undefined> => {
    const handle = upstreams.get(upstream)
    if (!handle) return undefined
    const { inputResponses: _answers, ...rest } = call
    const target = { method: 'server/discover', upstream }
    const params = Payload.of({}).withMeta(call.meta)
    const discover: Call = {
      ...rest,
      method: 'server/discover',
      params,
      target,
      requestState: {},
      emit: () => undefined,
    }
    const { capabilities } = resultOf(await handle(discover)).fields
    if (!isObject(capabilities)) return undefined
    known.set(upstream, { capabilities, until: world.now() + CAPABILITIES_STALE_MS })
    return capabilities
  }

  const checked = async (call: Call, upstream: string, capability: string): Promise<Outcome> => {
    // An unavailable server reports that itself when it is called.
    const capabilities = await ask(call, upstream).catch(() => undefined)
    if (capabilities && !isObject(capabilities[capability])) throw unknownMethod(call.method)
    return next(call)
  }

  return (call) => {
    const { capability } = method(call.method)
    const { upstream } = call.target
    if (capability === undefined || upstream === undefined) return next(call)
    const found = known.get(upstream)
    if (found && found.until > world.now()) {
      const isDeclared = isObject(found.capabilities[capability])
      return isDeclared ? next(call) : Promise.reject(unknownMethod(call.method))
    }
    return checked(call, upstream, capability)
  }
}

/** What the names in calls are compared with. */
interface Names {
  readonly listedName: ListedName
  readonly tool: CatalogSources['tool']
  /** Whether the address of a call has a tool that its server lists by a name. */
  isOffered(call: Call, name: string): boolean
}

/** How long a list may take before a name is used unchanged, in milliseconds. */
const LIST_TIMEOUT_MS = 5000

/**
 * Resolves aliases in calls: short names for tools and prompts whose names clients cannot use. The tool that a call names
 * goes with the call, so that nothing below looks it up again.
 */
function withAliases(next: Handler, { listedName, tool, isOffered }: Names): Handler {
  const toTool = (call: Call, found: ListedTool | undefined): Promise<Outcome> => {
    const { name: given = '' } = call.target
    const name = nameOf(found) ?? given
    // A profile names tools as they are listed.
    if (name !== given && !isOffered(call, name)) return Promise.reject(unknownTool(given))
    return next(renamed(withFoundTool(call, call.target, found), name))
  }
  const toToolLater = async (call: Call, found: Promise<ListedTool | undefined>): Promise<Outcome> =>
    toTool(call, await patiently(found, undefined))
  const toPrompt = async (call: Call, name: string): Promise<Outcome> =>
    next(renamed(call, await patiently(Promise.resolve(listedName(call)), name)))

  const completing = async (call: Call, reference: Payload, name: string): Promise<Outcome> => {
    const { upstream } = call.target
    const found = Promise.resolve(listedName(itemCall(call, 'prompts/get', { upstream, name })))
    return next({ ...call, params: referring(call.params, reference, await patiently(found, name)) })
  }

  return (call) => {
    const { name } = call.target
    if (call.method === 'tools/call' || call.method === 'prompts/get') {
      if (name === undefined || !isPlainName(name)) return next(call)
      if (call.method === 'prompts/get') return toPrompt(call, name)
      const found = tool(call)
      return found instanceof Promise ? toToolLater(call, found) : toTool(call, found)
    }
    const reference = call.method === 'completion/complete' ? call.params.at('ref') : undefined
    const prompt = reference?.fields.name
    if (!reference || typeof prompt !== 'string' || !isPlainName(prompt)) return next(call)
    return completing(call, reference, prompt)
  }
}

/** Names of different tools or prompts of a server that have the same alias. */
async function aliasCollisions(call: Call, upstreams: ReadonlyMap<string, Handler>): Promise<string[]> {
  const found: string[] = []
  for (const [upstream, handle] of upstreams) {
    for (const list of ['tools/list', 'prompts/list']) {
      const aimed = { ...call, target: { ...call.target, upstream } }
      const entries = await listAllPages(handle, aimed, list).catch(() => [])
      const shared = [...namesByAlias(namesIn(entries))].filter(([, names]) => names.length > 1)
      found.push(
        ...shared.map(
          ([alias, names]) =>
            `two tools or prompts have the same name: ${alias} is the name of ${names.join(' and of ')} of ${upstream}`,
        ),
      )
    }
  }
  return found
}

function renamed(call: Call, name: string): Call {
  if (call.target.name === name) return call
  return { ...call, params: call.params.with({ name }), target: { ...call.target, name } }
}

function referring(params: Payload, reference: Payload, name: string): Payload {
  return reference.fields.name === name ? params : params.with({ ref: reference.with({ name }) })
}

/** What the list says, or something else after a timeout: a server that lists nothing may still run the call. */
function patiently<Found>(found: Promise<Found | undefined>, otherwise: Found): Promise<Found> {
  const listed = found.then(
    (each) => each ?? otherwise,
    () => otherwise,
  )
  return within(listed, LIST_TIMEOUT_MS, otherwise)
}
