/** Finds the handler of a call: built-ins first, then the chain of its target, compiled on first use and cached. */
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
import { GatewayError } from '../core/error.ts'
import type { Finding } from '../core/finding.ts'
import { isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { isPlainName, namesByAlias } from '../core/text/alias.ts'
import { within } from '../core/time/waiting.ts'
import { isProtocolMethod, method, unknownMethod } from '../protocol/methods.ts'
import { type Aggregate, aggregate } from './aggregate.ts'
import { type Answering, createBuiltins, type Builtins } from './builtins.ts'
import { listedNames, type ListedName, nameOf, namesIn, itemCall } from './listed-names.ts'
import type { Naming, NameConflict } from './names.ts'
import { withPages, listAllPages } from './pagination.ts'
import { strictNames } from './strict-names.ts'

interface Options {
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
  /** How long a server may take until the others are answered without it there, in milliseconds. */
  readonly timeoutMs: number
  /** The server that has the address of all servers for itself. */
  readonly only: string | undefined
  /** The names at the address of all servers. */
  readonly naming: Naming
  /** Whether names are exposed in snake case, and resources in the scheme of their server. */
  readonly isStrict: boolean
  /** The built-ins of the gateway. */
  readonly own: readonly Answering[]
  /** Whether built-in tools are listed, callable only, or disabled. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may also use methods of the gateway's own. */
  readonly hasMethods?: boolean
  readonly log: Log
  /** Called with each conflict of names in the shared lists. */
  readonly onConflict?: (conflict: NameConflict) => void
  /** Whether the caller may make a call of a server; the call is not made. */
  isPermitted?(call: Call): Promise<boolean>
  /** The list entry of the tool a call names, if the call names its server. */
  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined>
  /** Whether the server that a call names is known to list no such tool, without asking it. */
  lacks?(call: Call): boolean
}

/** Routes calls to the compiled chains of their targets. */
export interface Catalog {
  readonly handle: Handler
  /** The same without built-ins. */
  readonly servers: Handler
  /** The call as its server receives it; undefined if it is for several servers. */
  resolve(call: Call): Call | Promise<Call | undefined>
  /** The built-in tool a call names. */
  readonly builtinTool: Builtins['tool']
  readonly reachable: Aggregate['reachable']
  readonly missing: Aggregate['missing']
  /** Tools and prompts that would have the same names. */
  collisions(call: Call): Promise<readonly Finding[]>
  /** Ends subscriptions and other work bound to this catalog. */
  close(): void
}

/** The maximum number of entries on a page; many hosts read only the first page. */
const MAX_PAGE_ENTRIES = 1000
const MAX_STRICT_PAGE_ENTRIES = 100

/** The maximum number of cached chains; then the cache is emptied. */
const MAX_CACHED_CHAINS = 10_000
/** The maximum length in characters of the target name of a cached chain: callers choose names. */
const MAX_CACHED_NAME_LENGTH = 1000

/** Compiles the chain of each target on first use. */
export function createCatalog(options: Options): Catalog {
  return new Router(options)
}

class Router implements Catalog {
  readonly handle: Handler
  readonly builtinTool: Builtins['tool']
  readonly #options: Options
  readonly #chains = new ChainCache()
  readonly #ended = new AbortController()
  /** Runs a call that names its server, under the names clients see. */
  readonly #one: Handler
  readonly #all: Aggregate
  readonly #views = new Map<string, Handler>()

  constructor(options: Options) {
    const { upstreams, isStrict, naming: names, timeoutMs, log, lacks, onConflict, isPermitted } = options
    this.#options = options
    const listedName = listedNames(options)
    const aliased = withAliases((call) => this.#runChain(call), listedName, options.tool)
    this.#one = isStrict ? strictNames(onlyDeclared(aliased, upstreams)) : aliased
    this.#all = aggregate({
      names: [...upstreams.keys()],
      handle: this.#one,
      naming: names,
      timeoutMs,
      ended: this.#ended.signal,
      log,
      listedName,
      ...(lacks && { lacks }),
      ...(onConflict && { onConflict }),
      ...(isPermitted && { isPermitted }),
    })
    const builtins = createBuiltins({
      parts: options.own,
      metaTools: options.metaTools,
      hasMethods: options.hasMethods !== false,
      isTaken: (call, isOther) => this.#isTaken(call, isOther),
      run: (call, end) => this.#runBuiltin(call, end),
    })
    this.builtinTool = builtins.tool
    const answer = builtins.answer(this.servers)
    const limit = isStrict ? MAX_STRICT_PAGE_ENTRIES : MAX_PAGE_ENTRIES
    const paged = withPages((call) => this.#view(call, answer), limit)
    this.handle = options.observe((call) => paged(this.#addressed(call)))
  }

  readonly servers: Handler = (call) => {
    if (call.target.upstream !== undefined) return this.#one(call)
    if (!this.#options.isAggregate) return Promise.reject(unknownUpstream(undefined))
    return this.#all.handle(call)
  }

  readonly resolve = (call: Call): Call | Promise<Call | undefined> => {
    const addressed = this.#addressed(call)
    return addressed.target.upstream === undefined ? this.#all.resolve(addressed) : addressed
  }

  readonly reachable: Catalog['reachable'] = (...args) => this.#all.reachable(...args)

  readonly missing: Catalog['missing'] = (upstream) => this.#all.missing(upstream)

  readonly collisions = async (call: Call): Promise<readonly Finding[]> => {
    const { isStrict, isAggregate, upstreams } = this.#options
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

  close(): void {
    this.#ended.abort()
  }

  /** A call that names no server goes to the only one, or to all. */
  #addressed(call: Call): Call {
    const { only } = this.#options
    if (call.target.upstream !== undefined || only === undefined) return call
    return { ...call, target: { ...call.target, upstream: only } }
  }

  #runChain(call: Call): Promise<Outcome> {
    const { upstream, method, name } = call.target
    const key = name === undefined ? `${upstream} ${method}` : `${upstream} ${method} ${name}`
    const known = this.#chains.get(key)
    if (known) return known(call)
    const end = upstream === undefined ? undefined : this.#options.upstreams.get(upstream)
    if (!end) return Promise.reject(unknownUpstream(upstream))
    return this.#chains.keep(key, compose(this.#options.middlewares(call.target), end))(call)
  }

  #runBuiltin(call: Call, end: Handler): Promise<Outcome> {
    const { upstream = '', method, name = '' } = call.target
    const key = `own ${upstream} ${method} ${name}`
    const chain =
      this.#chains.get(key) ?? this.#chains.keep(key, compose(this.#options.middlewares(call.target), end))
    return chain(call)
  }

  /** Whether a server lists the tool a call names. */
  #isTaken(call: Call, isOther = false): boolean | Promise<boolean> {
    const addressed = this.#addressed(call)
    if (addressed.target.upstream === undefined)
      return this.#all.lists(addressed, isOther).catch(isUnavailable)
    const tool = this.#options.tool(addressed)
    return tool instanceof Promise ? tool.then(isThere, isUnavailable) : isThere(tool)
  }

  #view(call: Call, answer: Handler): Promise<Outcome> {
    const { method } = call.target
    let chain = this.#views.get(method)
    if (!chain) {
      chain = compose(this.#options.viewMiddleware(method), answer)
      // Clients can invent the names of other methods.
      if (isProtocolMethod(method)) this.#views.set(method, chain)
    }
    return chain(call)
  }
}

/** Compiled chains by target; emptied when it is full. */
class ChainCache {
  readonly #chains = new Map<string, Handler>()

  get(key: string): Handler | undefined {
    return this.#chains.get(key)
  }

  keep(key: string, chain: Handler): Handler {
    if (key.length > MAX_CACHED_NAME_LENGTH) return chain
    if (this.#chains.size >= MAX_CACHED_CHAINS) this.#chains.clear()
    this.#chains.set(key, chain)
    return chain
  }
}

function isThere(tool: ListedTool | undefined): boolean {
  return tool !== undefined && tool.isUnlisted !== true
}

/** An unavailable server is treated as having nothing. */
function isUnavailable(): boolean {
  return false
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
    if (capabilities && !isObject(capabilities[capability])) throw absent(call)
    return next(call)
  }

  return (call) => {
    const { capability } = method(call.method)
    const { upstream } = call.target
    if (capability === undefined || upstream === undefined) return next(call)
    const found = known.get(upstream)
    if (found && found.until > world.now()) {
      return isObject(found.capabilities[capability]) ? next(call) : Promise.reject(absent(call))
    }
    return checked(call, upstream, capability)
  }
}

function absent(call: Call): GatewayError {
  return unknownMethod(call.method)
}

/** How long a list may take before a name is used unchanged, in milliseconds. */
const LIST_TIMEOUT_MS = 5000

/**
 * Resolves aliases in calls: short names for tools and prompts whose names clients cannot use. The tool that a call names
 * goes with the call, so that nothing below looks it up again.
 */
function withAliases(next: Handler, listedName: ListedName, tool: Options['tool']): Handler {
  const toTool = (call: Call, found: ListedTool | undefined): Promise<Outcome> =>
    next(renamed(withFoundTool(call, call.target, found), nameOf(found) ?? call.target.name ?? ''))
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
