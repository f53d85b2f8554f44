/**
 * Descriptors of the tools that calls name, from the servers' lists; cached by definition; and
 * their undo rules: a configured rule takes precedence over one derived from the list.
 */
import type { Call, Middleware, Outcome } from '../core/call.ts'
import type { Classification, Descriptor } from '../core/descriptor.ts'
import type { ListedTool } from '../protocol/found-tool.ts'
import { GatewayError } from '../core/error.ts'
import {
  areSameSurroundings,
  noSurroundings,
  type Surroundings,
  surroundingsOf,
} from '../core/judgement/surroundings.ts'
import type { UpstreamSettings, ToolSettings } from '../core/settings.ts'
import { attempt, untilAborted, within } from '../core/time/waiting.ts'
import {
  classify,
  classifyBuiltin,
  classifyUnlisted,
  mayBeProved,
  provedOf,
} from '../core/judgement/classify.ts'
import { world } from '../core/world.ts'
import { type UndoRule, undoRuleOf } from '../core/undo/rules.ts'
import { isProvedExact, isUndoProposed, judgeUndo } from '../core/undo/judge-undo.ts'

type Definition = Readonly<Record<string, unknown>>
type Found<Value> = Value | undefined | Promise<Value | undefined>

/** Where the tools of calls are found. */
interface ToolSources {
  server(upstream: string): UpstreamSettings | undefined
  /** The list entry of the tool a call names. */
  tool(call: Call): Found<ListedTool>
  /** The built-in tool a call names. */
  own(call: Call): Found<{ readonly definition: Definition }>
  /** The call as its server receives it. */
  resolve(call: Call): Call | Promise<Call | undefined>
}

/** The descriptors of the tools of all servers, each made once per definition. */
export class Descriptors {
  readonly #sources: ToolSources
  readonly #entries = new WeakMap<Definition, { readonly entry: Descriptor; readonly around: Surroundings }>()
  /** What the last list of each server said. */
  readonly #last = new Map<string, Surroundings>()

  constructor(sources: ToolSources) {
    this.#sources = sources
  }

  /**
   * The descriptor of the tool a call names, immediately if the server's list is known. @throws the error of listing
   */
  readonly of = (call: Call): Found<Descriptor> => {
    const { own, resolve } = this.#sources
    return after(own(call), (found): Found<Descriptor> => {
      if (found)
        return { ...toolOf('', found.definition, classifyBuiltin(found.definition)), isBuiltin: true }
      return call.target.upstream === undefined ? after(resolve(call), this.ofServer) : this.ofServer(call)
    })
  }

  /** The same for a call on its way to a server, which knows nothing of the gateway's own tools. */
  readonly ofServer = (call: Call | undefined): Found<Descriptor> => {
    const upstream = call?.target.upstream
    if (!call || upstream === undefined) return undefined
    return after(this.#sources.tool(call), (found) => {
      if (!found?.isUnlisted) return found && this.listed(upstream, found.definition, found.list?.())
      const settings = this.#sources.server(upstream)
      if (!settings) return undefined
      const classification = classifyUnlisted(found.definition, settings)
      return { ...toolOf(upstream, found.definition, classification), isUnlisted: true }
    })
  }

  /**
   * The descriptor of a listed tool. Without the list that it is in, the last known list of the server counts.
   */
  readonly listed = (
    upstream: string,
    definition: Definition,
    list?: readonly Definition[],
  ): Descriptor | undefined => {
    const around = list ? surroundingsOf(list) : (this.#last.get(upstream) ?? noSurroundings)
    const known = this.#entries.get(definition)
    if (known && areSameSurroundings(known.around, around)) return known.entry
    const settings = this.#sources.server(upstream)
    if (!settings) return undefined
    if (list) this.#last.set(upstream, around)
    const proved = provedOf(definition, settings.trust)
    const described = toolOf(upstream, definition, classify(definition, settings, around))
    const entry = { ...described, ...(proved && { proved }) }
    this.#entries.set(definition, { entry, around })
    return entry
  }
}

function toolOf(upstream: string, definition: Definition, classification: Classification): Descriptor {
  return { upstream, kind: 'tool', name: String(definition.name), definition, classification }
}

/** Maps a value synchronously, or a promise asynchronously. */
function after<In, Out>(
  value: In | Promise<In>,
  read: (value: In) => Out | Promise<Out>,
): Out | Promise<Out> {
  return value instanceof Promise ? value.then(read) : read(value)
}

// Resolves the tool of a `tools/call` once, before the features see the call. An unavailable list does not fail the
// call here: the error is recorded on the call, and each feature decides whether to continue.

/** Sets `tool` or `toolError` of calls; waits at most this many milliseconds for an unknown list. */
export function resolveTool(find: (call: Call) => Found<Descriptor>, timeout: number): Middleware {
  return (next) => {
    const afterListing = async (call: Call, found: Promise<Descriptor | undefined>): Promise<Outcome> =>
      next({ ...call, ...(await settled(call, found, timeout)) })
    return (call) => {
      const found = attempt(() => find(call))
      return found instanceof Promise
        ? afterListing(call, found)
        : next({ ...call, tool: found, toolError: undefined })
    }
  }
}

/** @throws the reason if the call itself was aborted */
async function settled(
  { signal }: Call,
  found: Promise<Descriptor | undefined>,
  timeout: number,
): Promise<Pick<Call, 'tool' | 'toolError'>> {
  try {
    const tool = await untilAborted(within<Descriptor | 'late' | undefined>(found, timeout, 'late'), signal)
    return tool === 'late' ? { tool: undefined, toolError: late(timeout) } : { tool, toolError: undefined }
  } catch (error) {
    if (signal.aborted) throw error
    return { tool: undefined, toolError: error instanceof Error ? error : new Error(String(error)) }
  }
}

function late(timeout: number): GatewayError {
  return new GatewayError(
    'OPERATION_TIMEOUT',
    `The server did not list its tools within ${timeout / 1000} s.`,
    {
      isUnsent: true,
      suggestion: 'Try again, or raise limits.timeout for this server.',
    },
  )
}

/*
 * Finds the undo rule of a tool: the configured rule takes precedence over one that is proved, or derived from the server's
 * list. Only what `judgeUndo` reports as derived is used.
 */

interface UndoRuleSources {
  settings(upstream: string): Readonly<Record<string, ToolSettings>> | undefined
  /** The descriptors of all tools of a server. @throws the error of listing */
  tools(upstream: string): Promise<readonly Descriptor[]>
  /** Which undo rules may be used that are not configured. */
  unconfigured(upstream: string): UnconfiguredRules
}

/** Which undo rules of a server may be used that are not configured. */
export interface UnconfiguredRules {
  /** Those that follow from the list of its tools. */
  readonly isDerived: boolean
  /** Those that are proved for exactly its tools. */
  readonly usesProofs: boolean
}

/** How long the list of a server's tools is cached, in milliseconds. */
const FRESH_MS = 10_000

/** The undo rules of the servers' tools. */
export class UndoRules {
  readonly #sources: UndoRuleSources
  readonly #lists = new Map<
    string,
    { readonly at: number; readonly listed: Promise<readonly Descriptor[]> }
  >()
  readonly #derived = new WeakMap<Descriptor, { readonly rule: UndoRule | undefined }>()
  readonly #proposed = new WeakMap<Descriptor, boolean>()

  constructor(sources: UndoRuleSources) {
    this.#sources = sources
  }

  /** The undo rule of a tool, immediately if it is configured, or cannot be found otherwise. @throws the error of listing */
  of(upstream: string, tool: string): UndoRule | undefined | Promise<UndoRule | undefined> {
    const settings = this.#sources.settings(upstream)
    const configured = settings && undoRuleOf(settings, tool)
    if (configured || !settings) return configured?.rule
    const { isDerived, usesProofs } = this.#sources.unconfigured(upstream)
    if (!isDerived && !(usesProofs && mayBeProved(tool))) return undefined
    return this.#listedBy(upstream).then((all) => {
      const entry = all.find(({ name }) => name === tool)
      return entry && this.#derive(entry, all)
    })
  }

  /** The undo rule of a tool, given all tools of its server. */
  among(entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined {
    const configured = undoRuleOf(this.#sources.settings(entry.upstream) ?? {}, entry.name)
    if (configured) return configured.rule
    const { isDerived, usesProofs } = this.#sources.unconfigured(entry.upstream)
    return isDerived || (usesProofs && entry.proved) ? this.#derive(entry, all) : undefined
  }

  /** Whether a tool restores exactly what is read before it, as it was proved for the tools of its server. */
  isProvedAmong(entry: Descriptor, all: readonly Descriptor[]): boolean {
    const unconfigured = this.#sources.unconfigured(entry.upstream)
    if (!entry.proved || !unconfigured.usesProofs) return false
    const tools = this.#sources.settings(entry.upstream) ?? {}
    return isProvedExact(judgeUndo(entry, all, { tools, ...unconfigured }))
  }

  /** The same for a tool by its name. @throws the error of listing */
  async isProved(upstream: string, tool: string): Promise<boolean> {
    const all = await this.#listedBy(upstream)
    const entry = all.find(({ name }) => name === tool)
    return entry !== undefined && this.isProvedAmong(entry, all)
  }

  /** Whether `gatehouse plan --write` would configure an undo for a tool. @throws the error of listing */
  async isProposed(upstream: string, tool: string): Promise<boolean> {
    const tools = this.#sources.settings(upstream) ?? {}
    if (undoRuleOf(tools, tool)) return false
    const all = await this.#listedBy(upstream)
    const entry = all.find(({ name }) => name === tool)
    if (!entry) return false
    const known =
      this.#proposed.get(entry) ?? isUndoProposed(judgeUndo(entry, all, { tools, isDerived: false }))
    this.#proposed.set(entry, known)
    return known
  }

  #derive(entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined {
    const { upstream } = entry
    const tools = this.#sources.settings(upstream) ?? {}
    const found =
      this.#derived.get(entry) ?? judgeUndo(entry, all, { tools, ...this.#sources.unconfigured(upstream) })
    this.#derived.set(entry, { rule: found.rule })
    return found.rule
  }

  #listedBy(upstream: string): Promise<readonly Descriptor[]> {
    const found = this.#lists.get(upstream)
    if (found && world.monotonic() - found.at < FRESH_MS) return found.listed
    const listed = this.#sources.tools(upstream)
    this.#lists.set(upstream, { at: world.monotonic(), listed })
    listed.catch(() => this.#lists.delete(upstream))
    return listed
  }
}
