/** The gateway's own tools, prompts, resources and pages next to those of the servers. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, unknownPrompt, unknownResource } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { within } from '../core/time/waiting.ts'
import { isExtensionMethod, pageMethod, routeMethod, unknownMethod } from '../protocol/methods.ts'
import { methodNamed, toolNamed } from './own-names.ts'
import { listAllPages } from './pagination.ts'

/** A tool implemented by the gateway. */
export interface BuiltinTool {
  readonly definition: Readonly<Record<string, unknown>> & { readonly name: string }
  /** Whether it is listed; `metaTools` decides if undefined. */
  isListed?(upstream?: string): boolean | undefined
  readonly handle: Handler
}

/** A resource served at an HTTP path. */
interface BuiltinPage {
  /** `*` stands for the name of a server; without one it covers all servers, or the one in the query. */
  readonly path: string
  /** Whether it can be read without authentication. */
  isOpen?(): boolean
  readonly handle: Handler
}

/** A path over HTTP whose requests are calls. */
interface BuiltinRoute {
  readonly verb: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly handle: Handler
}

type Extensions = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** The built-ins of one part of the gateway, and the endpoints they are available at. */
export interface Answering {
  readonly methods?: Readonly<Record<string, Handler>>
  readonly tools?: readonly BuiltinTool[]
  readonly pages?: readonly BuiltinPage[]
  readonly routes?: readonly BuiltinRoute[]
  /** Paths for bytes, whose calls have an `exchange`. */
  readonly byteRoutes?: readonly BuiltinRoute[]
  prompts?(upstream?: string): readonly BuiltinEntry[]
  resources?(upstream?: string): readonly BuiltinEntry[]
  /** Its entry among the extension capabilities of endpoints with tools, by extension name. */
  extensions?(upstream?: string): Extensions
  /** Whether it is available at the endpoint of a server, or at the shared one without a name. */
  isOn(upstream?: string): boolean
}

interface Options {
  readonly parts: readonly Answering[]
  /** Whether the tools are listed, callable only, or disabled. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may use methods that are not part of the protocol and its extensions. */
  readonly hasMethods: boolean
  /** Whether a server has the tool a call names; for another name of the gateway's, also one that is listed with a prefix. */
  isTaken(call: Call, isOther?: boolean): boolean | Promise<boolean>
  /** Runs a call of a built-in through the chain of its target. */
  run(call: Call, end: Handler): Promise<Outcome>
}

/** The gateway's own answers next to those of its servers. */
export interface Builtins {
  /** Handles calls of built-ins and passes all others to the servers. */
  answer(servers: Handler): Handler
  /** The built-in tool a call names, if no server has one of that name. */
  tool(call: Call): BuiltinTool | undefined | Promise<BuiltinTool | undefined>
}

/** The prefix of a built-in tool's name if a server has a tool of that name. */
const PREFIX = 'gateway_'

/** Answers the methods and tools of the gateway itself; a server's tool takes precedence over a built-in of its name. */
export function createBuiltins(options: Options): Builtins {
  return new RegisteredBuiltins(options)
}

interface Registered {
  readonly handle: Handler
  readonly part: Answering
}

class RegisteredBuiltins implements Builtins {
  readonly #options: Options
  readonly #methods: ReadonlyMap<string, Registered>
  /** Pages and paths over HTTP by the method that requests them. */
  readonly #pages: ReadonlyMap<string, Registered>
  readonly #tools: ReadonlyMap<string, { readonly tool: BuiltinTool; readonly part: Answering }>

  constructor(options: Options) {
    const { parts, metaTools } = options
    this.#options = options
    this.#methods = new Map(
      parts.flatMap((part) =>
        Object.entries(part.methods ?? {}).map(([name, handle]) => [name, { handle, part }] as const),
      ),
    )
    this.#pages = new Map(
      parts.flatMap((part) => [
        ...(part.pages ?? []).map(({ path, handle }) => [pageMethod(path), { handle, part }] as const),
        ...[...(part.routes ?? []), ...(part.byteRoutes ?? [])].map(
          // They are for all servers: they are there if the feature is on for one.
          ({ handle, ...route }) =>
            [routeMethod(route), { handle, part: { ...part, isOn: () => true } }] as const,
        ),
      ]),
    )
    const offered = metaTools === 'off' ? [] : parts
    this.#tools = new Map(
      offered.flatMap((part) =>
        (part.tools ?? []).map((tool) => [tool.definition.name, { tool, part }] as const),
      ),
    )
  }

  readonly tool: Builtins['tool'] = (call) => {
    const found = this.#named(call)
    return found && this.#unlessTaken(call, found, isOtherName(call, found))
  }

  answer(servers: Handler): Handler {
    const { parts, metaTools, run } = this.#options
    const withTools = adding(servers, {
      listed: (call) => this.#definitions(call),
      isAny: (call) => this.#listed(call).length > 0,
    })
    const advertised = parts.some((part) => part.extensions) ? advertising(withTools, parts) : withTools
    const registry = registryOf(parts, metaTools)
    const withEntries = withBuiltinEntries(advertised, { registry, isListed: this.#isListed, run })
    return (call) => {
      const { method, upstream, isBuiltin } = call.target
      if (method === 'tools/call') return this.#callTool(call, servers)
      const own = this.#methodOf(method, isBuiltin === true)
      if (own?.part.isOn(upstream) === true) return this.#run(call, own.handle)
      return isBuiltin ? Promise.reject(unknownMethod(method)) : this.#callByOtherName(call, withEntries)
    }
  }

  get #isListed(): boolean {
    return this.#options.metaTools === 'listed'
  }

  #callTool(call: Call, servers: Handler): Promise<Outcome> {
    const found = this.tool(call)
    const run = (tool: BuiltinTool): Promise<Outcome> => {
      const { name } = tool.definition
      const target = { ...call.target, name }
      return this.#run(
        isOtherName(call, tool) ? { ...call, target, params: call.params.with({ name }) } : call,
        tool.handle,
      )
    }
    if (!(found instanceof Promise)) return found ? run(found) : servers(call)
    return found.then((tool) => (tool ? run(tool) : servers(call)))
  }

  /** A method by another name, unless a server has a tool of that name: then it has the method too, or none. */
  #callByOtherName(call: Call, servers: Handler): Promise<Outcome> {
    const { target } = call
    const method = methodNamed(target.method)
    const own = method === undefined ? undefined : this.#methodOf(method, false)
    if (method === undefined || own?.part.isOn(target.upstream) !== true) return servers(call)
    const run = (): Promise<Outcome> =>
      this.#run({ ...call, method, target: { ...target, method } }, own.handle)
    const found = this.#unlessTaken(naming(call, target.method), own, true)
    if (!(found instanceof Promise)) return found ? run() : servers(call)
    return found.then((free) => (free ? run() : servers(call)))
  }

  /** Something of the gateway's own, unless a server has the tool that a call names. */
  #unlessTaken<Own>(call: Call, own: Own, isOther: boolean): Own | undefined | Promise<Own | undefined> {
    const isTaken = this.#options.isTaken(call, isOther)
    if (!(isTaken instanceof Promise)) return isTaken ? undefined : own
    // A server that does not list its tools in time does not block the gateway's own answers.
    return within(isTaken, LOOKUP_TIMEOUT_MS, false).then((is) => (is ? undefined : own))
  }

  #methodOf(method: string, isBuiltin: boolean): Registered | undefined {
    const isOpen = this.#options.hasMethods || isBuiltin || isExtensionMethod(method)
    // Only the gateway itself requests a page.
    return (
      (isOpen ? this.#methods.get(method) : undefined) ?? (isBuiltin ? this.#pages.get(method) : undefined)
    )
  }

  #run(call: Call, handle: Handler): Promise<Outcome> {
    return this.#options.run({ ...call, target: { ...call.target, isBuiltin: true } }, handle)
  }

  #named({ target: { name = '', upstream } }: Call): BuiltinTool | undefined {
    const bare = withoutPrefix(name)
    const found = this.#tools.get(name) ?? this.#tools.get(toolNamed(bare) ?? bare)
    return found?.part.isOn(upstream) === true ? found.tool : undefined
  }

  #listed({ target: { upstream } }: Call): readonly BuiltinTool[] {
    return [...this.#tools.values()]
      .filter(({ part, tool }) => part.isOn(upstream) && (tool.isListed?.(upstream) ?? this.#isListed))
      .map(({ tool }) => tool)
  }

  /** The listed tools; a tool gets a prefix if a server has one of its name. */
  #definitions(call: Call): Promise<Payload[]> {
    return Promise.all(
      this.#listed(call).map(async ({ definition }) => {
        const isTaken = await this.#options.isTaken(naming(call, definition.name))
        return Payload.of(isTaken ? { ...definition, name: `${PREFIX}${definition.name}` } : definition)
      }),
    )
  }
}

/** Whether a call names a tool of the gateway by one of its other names. */
function isOtherName({ target: { name = '' } }: Call, tool: BuiltinTool): boolean {
  return toolNamed(withoutPrefix(name)) === tool.definition.name
}

function withoutPrefix(name: string): string {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name
}

/** The call as a call of a tool of this name. */
function naming(call: Call, name: string): Call {
  const { upstream } = call.target
  const target = { method: 'tools/call', name, ...(upstream !== undefined && { upstream }) }
  return { ...call, method: 'tools/call', params: Payload.of({ name }), target }
}

/** The built-in prompts and resources of each endpoint. */
function registryOf(parts: readonly Answering[], metaTools: Options['metaTools']): BuiltinRegistry {
  const of = (kind: 'prompts' | 'resources', upstream: string | undefined): readonly BuiltinEntry[] =>
    parts
      .flatMap((part) => (part.isOn(upstream) ? (part[kind]?.(upstream) ?? []) : []))
      .filter((entry) => metaTools !== 'off' || entry.isListed !== undefined)
  return {
    prompts: (upstream) => of('prompts', upstream),
    resources: (upstream) => of('resources', upstream),
  }
}

interface Added {
  listed(call: Call): Promise<Payload[]>
  isAny(call: Call): boolean
}

/** Appends built-in tools to a list of tools, even if the server reports that it has none. */
function adding(next: Handler, { listed, isAny }: Added): Handler {
  const list: Handler = async (call) => {
    const outcome = await next(call).catch((error: unknown) => absentList(error, 'tools'))
    if (outcome.kind !== 'result' || typeof outcome.result.fields.nextCursor === 'string') return outcome
    const there = outcome.result.at('tools')?.items ?? []
    const all = [...there, ...(await listed(call))]
    const tools = Payload.text(`[${all.map(({ text }) => text).join(',')}]`)
    return { kind: 'result', result: outcome.result.with({ tools }) }
  }
  return (call) => {
    const { method } = call
    if ((method !== 'tools/list' && method !== 'server/discover') || !isAny(call)) return next(call)
    return method === 'tools/list'
      ? list(call)
      : next(call).then((outcome) => withCapabilities(outcome, ['tools']))
  }
}

/** Declares the extensions, where there are tools to use them with. */
function advertising(next: Handler, parts: readonly Answering[]): Handler {
  return (call) => {
    if (call.method !== 'server/discover') return next(call)
    const { upstream } = call.target
    const there = parts.filter((part) => part.isOn(upstream))
    const added = Object.assign({}, ...there.map((part) => part.extensions?.(upstream))) as Extensions
    return next(call).then((outcome) => withExtensions(outcome, added))
  }
}

function withExtensions(outcome: Outcome, added: Extensions): Outcome {
  if (outcome.kind !== 'result' || Object.keys(added).length === 0) return outcome
  const capabilities = outcome.result.at('capabilities')
  if (!capabilities || !isObject(capabilities.fields.tools)) return outcome
  const extensions = (capabilities.at('extensions') ?? Payload.of({})).with(added)
  return { kind: 'result', result: outcome.result.with({ capabilities: capabilities.with({ extensions }) }) }
}

type Definition = Readonly<Record<string, unknown>>

/** A prompt or resource implemented by the gateway. */
export interface BuiltinEntry {
  readonly definition: Definition
  /** Whether it is listed; by default like the built-in tools. */
  readonly isListed?: boolean
  /** Whether it also answers for other names or URIs. */
  matches?(name: string): boolean
  readonly handle: Handler
}

/** The built-ins of an endpoint. */
interface BuiltinRegistry {
  prompts(upstream: string | undefined): readonly BuiltinEntry[]
  resources(upstream: string | undefined): readonly BuiltinEntry[]
}

interface EntriesOptions {
  readonly registry: BuiltinRegistry
  /** Whether entries are listed that do not specify it themselves. */
  readonly isListed: boolean
  /** Runs a call of a built-in through the chain of its target. */
  run(call: Call, end: Handler): Promise<Outcome>
}

/** How long a server may take to list its entries when a built-in is looked up, in milliseconds. */
const LOOKUP_TIMEOUT_MS = 5000

/** Adds built-in prompts and resources to those of servers; a server's own entry of the same name or URI takes precedence. */
export function withBuiltinEntries(next: Handler, options: EntriesOptions): Handler {
  const context = { ...options, next }
  return (call) => {
    switch (call.method) {
      case 'prompts/list':
        return listEntries(context, prompts, call)
      case 'resources/list':
        return listEntries(context, resources, call)
      case 'resources/templates/list':
        return listTemplates(context, call)
      case 'prompts/get':
        return readEntry(context, prompts, call)
      case 'resources/read':
        return readEntry(context, resources, call)
      case 'server/discover':
        return discoverEntries(context, call)
      default:
        return next(call)
    }
  }
}

interface EntriesContext extends EntriesOptions {
  readonly next: Handler
}

function entriesOf({ registry }: EntriesContext, kind: Kind, call: Call): readonly BuiltinEntry[] {
  return registry[kind.registry](call.target.upstream)
}

/** Those that are listed: the others can be read, and nothing else shows them. */
function listedEntries(context: EntriesContext, kind: Kind, call: Call): readonly BuiltinEntry[] {
  return entriesOf(context, kind, call).filter((entry) => entry.isListed ?? context.isListed)
}

async function listEntries(context: EntriesContext, kind: Kind, call: Call): Promise<Outcome> {
  const { next } = context
  const own = listedEntries(context, kind, call)
  if (own.length === 0) return next(call)
  const outcome = await next(call).catch((error: unknown) => absentList(error, kind.list))
  if (outcome.kind !== 'result' || typeof outcome.result.fields.nextCursor === 'string') return outcome
  const entries = outcome.result.at(kind.list)?.items ?? []
  const taken = new Set(entries.map(({ fields }) => fields[kind.key]))
  const added = own.filter((entry) => !taken.has(entry.definition[kind.key]))
  if (added.length === 0) return outcome
  const texts = [
    ...entries.map(({ text }) => text),
    ...added.map(({ definition }) => JSON.stringify(definition)),
  ]
  const list = Payload.text(`[${texts.join(',')}]`)
  return { kind: 'result', result: outcome.result.with({ [kind.list]: list }) }
}

/** A server without resources of its own has no templates either. */
async function listTemplates(context: EntriesContext, call: Call): Promise<Outcome> {
  const { next } = context
  if (listedEntries(context, resources, call).length === 0) return next(call)
  return next(call).catch((error: unknown) => absentList(error, 'resourceTemplates'))
}

async function readEntry(context: EntriesContext, kind: Kind, call: Call): Promise<Outcome> {
  const { next, run } = context
  const own = entriesOf(context, kind, call)
  if (own.length === 0) return next(call)
  const name = call.target.name ?? ''
  const found = own.find((entry) => entry.definition[kind.key] === name || entry.matches?.(name) === true)
  if (found && !(await isEntryTaken(next, kind, call)))
    return run({ ...call, target: { ...call.target, isBuiltin: true } }, found.handle)
  if (listedEntries(context, kind, call).length === 0) return next(call)
  return next(call).catch((error: unknown) => {
    throw asGatewayError(error).rpc === -32601 ? kind.unknown(name) : error
  })
}

/** Whether the server lists the entry; one that does not answer in time does not block the gateway's own answer. */
function isEntryTaken(next: Handler, kind: Kind, call: Call): Promise<boolean> {
  const name = call.target.name ?? ''
  const entries = listAllPages(next, { ...call, emit: () => undefined }, kind.listing)
  const found = entries.then(
    (all) => all.some(({ fields }) => fields[kind.key] === name),
    () => false,
  )
  return within(found, LOOKUP_TIMEOUT_MS, false)
}

async function discoverEntries(context: EntriesContext, call: Call): Promise<Outcome> {
  const added = kinds
    .filter((kind) => listedEntries(context, kind, call).length > 0)
    .map((kind) => kind.registry)
  const outcome = await context.next(call)
  return added.length === 0 ? outcome : withCapabilities(outcome, added)
}

interface Kind {
  readonly registry: 'prompts' | 'resources'
  readonly list: string
  readonly listing: string
  /** The member that identifies an entry. */
  readonly key: 'name' | 'uri'
  unknown(name: string): Error
}

const prompts: Kind = {
  registry: 'prompts',
  list: 'prompts',
  listing: 'prompts/list',
  key: 'name',
  unknown: unknownPrompt,
}
const resources: Kind = {
  registry: 'resources',
  list: 'resources',
  listing: 'resources/list',
  key: 'uri',
  unknown: unknownResource,
}
const kinds = [prompts, resources]

/** The result of `server/discover` with added capabilities of the gateway. */
function withCapabilities(outcome: Outcome, names: readonly string[]): Outcome {
  if (outcome.kind !== 'result') return outcome
  const capabilities = outcome.result.at('capabilities') ?? Payload.of({})
  const missing = names.filter((name) => !isObject(capabilities.fields[name]))
  if (missing.length === 0) return outcome
  const added = Object.fromEntries(missing.map((name) => [name, {}]))
  return { kind: 'result', result: outcome.result.with({ capabilities: capabilities.with(added) }) }
}

/** An empty list, for a server that does not support such lists. */
function absentList(error: unknown, list: string): Outcome {
  if (asGatewayError(error).rpc === -32601) return { kind: 'result', result: Payload.of({ [list]: [] }) }
  throw error
}
