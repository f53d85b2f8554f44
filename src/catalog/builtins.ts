/** The gateway's own tools, prompts, resources and pages next to those of the servers. */
import { listAllPages } from '../protocol/listing.ts'
import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, unknownPrompt, unknownResource, unknownTool } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { within } from '../core/time/waiting.ts'
import { isExtensionMethod, pageMethod, routeMethod, unknownMethod } from '../protocol/methods.ts'
import { itemCall } from './listed-names.ts'
import { methodNamed, toolNamed } from './own-names.ts'

/** A tool, prompt or resource implemented by the gateway. */
interface BuiltinEntry {
  readonly definition: Readonly<Record<string, unknown>>
  /** Whether it is listed; `metaTools` decides if undefined. */
  readonly isListed?: boolean | ((upstream?: string) => boolean | undefined)
  /** Whether it also answers for other names or URIs. */
  matches?(name: string): boolean
  readonly handle: Handler
}

/** What answers at an HTTP path. `*` in the path of a page stands for the name of a server. */
interface BuiltinPath {
  readonly path: string
  readonly handle: Handler
}

type BuiltinRoute = BuiltinPath & { readonly verb: string }

type Extensions = Readonly<Record<string, Readonly<Record<string, unknown>>>>

/** The built-ins of one part of the gateway, and the endpoints they are available at. */
export interface Answering {
  readonly methods?: Readonly<Record<string, Handler>>
  readonly tools?: readonly BuiltinEntry[]
  readonly pages?: readonly BuiltinPath[]
  readonly routes?: readonly BuiltinRoute[]
  /** Paths for bytes, whose calls have an `exchange`. */
  readonly byteRoutes?: readonly BuiltinRoute[]
  prompts?(upstream?: string): readonly BuiltinEntry[]
  resources?(upstream?: string): readonly BuiltinEntry[]
  /** Its entry among the extension capabilities of endpoints with tools, by extension name. */
  extensions?(upstream?: string): Extensions
  /** Whether its tools exist whatever `metaTools` says. */
  readonly isKept?: true
  /** Whether it is available at the endpoint of a server, or at the shared one without a name. */
  isOn(upstream?: string): boolean
}

/** The built-ins of the gateway, and what they depend on. */
interface BuiltinSources {
  readonly parts: readonly Answering[]
  /** Whether the tools are listed, callable only, or disabled. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may use methods that are not part of the protocol and its extensions. */
  readonly hasMethods: boolean
  /** Whether a server has the tool a call names; for another name of the gateway's, also one that is listed with a prefix. */
  isTaken(call: Call, isOther?: boolean): boolean | Promise<boolean>
  /** Whether a built-in tool exists at the address of a call. */
  isShown?(call: Call, name: string): boolean
  /** Runs a call of a built-in through the chain of its target. */
  run(call: Call, end: Handler): Promise<Outcome>
}

/** The prefix of a built-in tool's name if a server has a tool of that name. */
export const PREFIX = 'gateway_'

/** How long a server may take to list what it has when a built-in is looked up, in milliseconds. */
const LOOKUP_TIMEOUT_MS = 5000

interface Registered {
  readonly handle: Handler
  readonly part: Answering
}

/** The gateway's own answers next to those of its servers; what a server has of the same name takes precedence. */
export class Builtins {
  readonly #sources: BuiltinSources
  readonly #methods: ReadonlyMap<string, Registered>
  /** Pages and paths over HTTP by the method that requests them. */
  readonly #pages: ReadonlyMap<string, Registered>
  readonly #tools: ReadonlyMap<unknown, { readonly tool: BuiltinEntry; readonly part: Answering }>

  constructor(sources: BuiltinSources) {
    const { parts, metaTools } = sources
    this.#sources = sources
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
    const offered = metaTools === 'off' ? parts.filter(({ isKept }) => isKept) : parts
    this.#tools = new Map(
      offered.flatMap((part) =>
        (part.tools ?? []).map((tool) => [tool.definition.name, { tool, part }] as const),
      ),
    )
  }

  /** The built-in tool a call names, if no server has one of that name. */
  readonly tool = (call: Call): BuiltinEntry | undefined | Promise<BuiltinEntry | undefined> => {
    const found = this.#named(call)
    return found && this.#unlessTaken(call, found, isOtherName(call, found))
  }

  /** Handles calls of built-ins and passes all others to the servers. */
  answer(servers: Handler): Handler {
    const withEntries: Handler = (call) => this.#answerEntries(call, servers)
    return (call) => {
      const { method, upstream, isBuiltin } = call.target
      if (method === 'tools/call') return this.#callTool(call, servers)
      const own = this.#methodOf(method, isBuiltin === true)
      if (own?.part.isOn(upstream) === true) return this.#run(call, own.handle)
      return isBuiltin ? Promise.reject(unknownMethod(method)) : this.#callByOtherName(call, withEntries)
    }
  }

  #callTool(call: Call, servers: Handler): Promise<Outcome> {
    const found = this.tool(call)
    const run = (tool: BuiltinEntry): Promise<Outcome> => {
      const name = String(tool.definition.name)
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
    const isTaken = this.#sources.isTaken(call, isOther)
    if (!(isTaken instanceof Promise)) return isTaken ? undefined : own
    // A server that does not list its tools in time does not block the gateway's own answers.
    return within(isTaken, LOOKUP_TIMEOUT_MS, false).then((is) => (is ? undefined : own))
  }

  #methodOf(method: string, isBuiltin: boolean): Registered | undefined {
    const isOpen = this.#sources.hasMethods || isBuiltin || isExtensionMethod(method)
    // Only the gateway itself requests a page.
    return (
      (isOpen ? this.#methods.get(method) : undefined) ?? (isBuiltin ? this.#pages.get(method) : undefined)
    )
  }

  #run(call: Call, handle: Handler): Promise<Outcome> {
    return this.#sources.run({ ...call, target: { ...call.target, isBuiltin: true } }, handle)
  }

  #named(call: Call): BuiltinEntry | undefined {
    const { name = '', upstream } = call.target
    const bare = withoutPrefix(name)
    const found = this.#tools.get(name) ?? this.#tools.get(toolNamed(bare) ?? bare)
    return found?.part.isOn(upstream) === true && this.#isShown(call, found.tool) ? found.tool : undefined
  }

  #isShown(call: Call, { definition }: BuiltinEntry): boolean {
    return this.#sources.isShown?.(call, String(definition.name)) !== false
  }

  /** Lists and reads with the gateway's own entries, and capabilities for them. */
  #answerEntries(call: Call, next: Handler): Promise<Outcome> {
    if (call.method === 'server/discover') return this.#discover(call, next)
    if (call.method === 'resources/templates/list') return this.#listTemplates(call, next)
    const listed = kinds.find(({ listing }) => listing === call.method)
    if (listed) return this.#list(call, listed, next)
    const read = kinds.find(({ reading }) => reading === call.method)
    return read ? this.#read(call, read, next) : next(call)
  }

  #entries(kind: Kind, call: Call): readonly BuiltinEntry[] {
    const { upstream } = call.target
    const { parts, metaTools } = this.#sources
    const { list } = kind
    if (list === 'tools')
      return [...this.#tools.values()].flatMap(({ part, tool }) =>
        part.isOn(upstream) && this.#isShown(call, tool) ? [tool] : [],
      )
    return parts
      .flatMap((part) => (part.isOn(upstream) ? (part[list]?.(upstream) ?? []) : []))
      .filter((entry) => metaTools !== 'off' || entry.isListed !== undefined)
  }

  /** The definitions that are listed: the others can be used, and nothing else shows them. */
  #listed(kind: Kind, call: Call): readonly BuiltinEntry['definition'][] {
    const { upstream } = call.target
    return this.#entries(kind, call)
      .filter(({ isListed }) => {
        const own = typeof isListed === 'function' ? isListed(upstream) : isListed
        return own ?? this.#sources.metaTools === 'listed'
      })
      .map(({ definition }) => definition)
  }

  /** Appends to the last page of a list, even if the server reports that it has none. */
  async #list(call: Call, kind: Kind, next: Handler): Promise<Outcome> {
    const own = this.#listed(kind, call)
    if (own.length === 0) return next(call)
    const outcome = await next(call).catch((error: unknown) => absentList(error, kind.list))
    if (outcome.kind !== 'result' || typeof outcome.result.fields.nextCursor === 'string') return outcome
    const entries = outcome.result.at(kind.list)?.items ?? []
    const taken = new Set(entries.map(({ fields }) => fields[kind.key]))
    const added =
      kind.list === 'tools'
        ? await Promise.all(own.map((tool) => this.#renamedIfTaken(call, tool)))
        : own.filter((definition) => !taken.has(definition[kind.key]))
    if (added.length === 0) return outcome
    const list = Payload.list([...entries, ...added.map((each) => Payload.of(each))])
    return { kind: 'result', result: outcome.result.with({ [kind.list]: list }) }
  }

  /** A tool gets a prefix if a server has one of its name. */
  async #renamedIfTaken(call: Call, tool: BuiltinEntry['definition']): Promise<BuiltinEntry['definition']> {
    const name = String(tool.name)
    const isTaken = await this.#sources.isTaken(naming(call, name))
    return isTaken ? { ...tool, name: `${PREFIX}${name}` } : tool
  }

  /** A server without resources of its own has no templates either. */
  async #listTemplates(call: Call, next: Handler): Promise<Outcome> {
    if (this.#listed(resources, call).length === 0) return next(call)
    return next(call).catch((error: unknown) => absentList(error, 'resourceTemplates'))
  }

  async #read(call: Call, kind: Kind, next: Handler): Promise<Outcome> {
    const own = this.#entries(kind, call)
    if (own.length === 0) return next(call)
    const name = call.target.name ?? ''
    const found = own.find((entry) => entry.definition[kind.key] === name || entry.matches?.(name) === true)
    if (found && !(await isEntryTaken(next, kind, call))) return this.#run(call, found.handle)
    if (this.#listed(kind, call).length === 0) return next(call)
    return next(call).catch((error: unknown) => {
      throw asGatewayError(error).rpc === -32601 ? kind.unknown(name) : error
    })
  }

  /** Declares what is listed, and the extensions where there are tools to use them with. */
  async #discover(call: Call, next: Handler): Promise<Outcome> {
    const { upstream } = call.target
    const outcome = await next(call)
    if (outcome.kind !== 'result') return outcome
    const { result } = outcome
    const declared = result.at('capabilities') ?? Payload.of({})
    const listed = kinds.filter((kind) => this.#listed(kind, call).length > 0).map(({ list }) => list)
    const missing = listed.filter((list) => !isObject(declared.fields[list]))
    const capabilities = declared.with(Object.fromEntries(missing.map((list) => [list, {}])))
    const there = this.#sources.parts.filter((part) => part.isOn(upstream))
    const extensions = Object.assign({}, ...there.map((part) => part.extensions?.(upstream))) as Extensions
    const isUsable = isObject(capabilities.fields.tools) && Object.keys(extensions).length > 0
    if (missing.length === 0 && !isUsable) return outcome
    const extended = (): Payload => (capabilities.at('extensions') ?? Payload.of({})).with(extensions)
    const added = isUsable ? capabilities.with({ extensions: extended() }) : capabilities
    return { kind: 'result', result: result.with({ capabilities: added }) }
  }
}

/** Whether a call names a tool of the gateway by one of its other names. */
function isOtherName({ target: { name = '' } }: Call, tool: BuiltinEntry): boolean {
  return toolNamed(withoutPrefix(name)) === tool.definition.name
}

function withoutPrefix(name: string): string {
  return name.startsWith(PREFIX) ? name.slice(PREFIX.length) : name
}

/** The call as a call of a tool of this name. */
function naming(call: Call, name: string): Call {
  return itemCall(call, 'tools/call', { upstream: call.target.upstream, name })
}

/** Whether the server lists the entry; one that does not answer in time does not block the gateway's own answer. */
function isEntryTaken(next: Handler, { listing, key }: Kind, call: Call): Promise<boolean> {
  const entries = listAllPages(next, { ...call, emit: () => undefined }, listing)
  const found = entries.then(
    (all) => all.some(({ fields }) => fields[key] === (call.target.name ?? '')),
    () => false,
  )
  return within(found, LOOKUP_TIMEOUT_MS, false)
}

/** A kind of entries: the member that has their list, the methods that list and read them, and the member that identifies one. */
interface Kind {
  readonly list: 'tools' | 'prompts' | 'resources'
  readonly listing: string
  /** Absent for tools, which are called. */
  readonly reading?: string
  readonly key: 'name' | 'uri'
  unknown(name: string): Error
}

const resources: Kind = {
  list: 'resources',
  listing: 'resources/list',
  reading: 'resources/read',
  key: 'uri',
  unknown: unknownResource,
}
const kinds: readonly Kind[] = [
  { list: 'tools', listing: 'tools/list', key: 'name', unknown: unknownTool },
  {
    list: 'prompts',
    listing: 'prompts/list',
    reading: 'prompts/get',
    key: 'name',
    unknown: unknownPrompt,
  },
  resources,
]

/** An empty list, for a server that does not support such lists. */
function absentList(error: unknown, list: string): Outcome {
  if (asGatewayError(error).rpc === -32601) return { kind: 'result', result: Payload.of({ [list]: [] }) }
  throw error
}
