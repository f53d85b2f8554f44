/**
 * Tools whose definition is not as a person accepted it (`gatehouse.lock`): they are logged, or held: left out of lists, and not
 * called, until they are accepted.
 *
 * Invariant: with `hold`, the server gets no call of a tool whose last listed definition is not the accepted one. That is checked
 * twice: where the call enters, so that nothing is spent on it and no one is asked about it, and next to the server, as a call may
 * have waited for an approval in between.
 */
import { LRUCache } from 'lru-cache'
import { hash } from 'node:crypto'
import type { Call, Middleware, Outcome } from '../core/call.ts'
import { GatewayError, unknownTool } from '../core/error.ts'
import { background } from '../core/log.ts'
import { definitionHash } from '../core/pack.ts'
import { Payload } from '../core/payload.ts'
import { oneLine } from '../core/text/escape.ts'
import type { Feature, Services } from './feature.ts'
import { type Pinning, pinning, type ToolChange } from './offers.ts'
import { type PinSettings, pinSchema } from './settings/authorize.ts'

/** Compares what servers list with what was accepted. */
export const pin: Feature<PinSettings | false> = {
  ...pinSchema,
  create: (settings, deps) => {
    const known = new Map<string, PinnedServer>()
    const pinned = (upstream: string): PinnedServer | undefined => {
      const own = settings(upstream)
      const { accepted } = deps.gateway.settings
      if (own === false || !accepted) return undefined
      const found = known.get(upstream) ?? new PinnedServer(upstream, own.mode === 'hold', deps)
      known.set(upstream, found)
      return found
    }
    return {
      calls: {
        middleware: ({ method, upstream, isBuiltin }) => {
          const isOfServer = method === 'tools/call' && upstream !== undefined && !isBuiltin
          return isOfServer ? pinned(upstream)?.guard : undefined
        },
        dryRun: 'same', // it keeps nothing, and a tool that is held has no dry run
      },
      offers: [pinning.offer(pinned)],
      start: async () => {
        // Their lists pass `atServer`, which logs what is not accepted.
        for (const upstream of deps.servers.names())
          if (pinned(upstream))
            background(
              deps.servers.tools(upstream).catch(() => undefined),
              deps.log,
            )
      },
      close: async () => {
        for (const server of known.values()) server.end()
      },
    }
  },
}

type Deps = Pick<Services, 'log' | 'servers' | 'scope' | 'gateway'>
type Definition = Readonly<Record<string, unknown>>

/** How many entries of lists have their hash remembered. */
const MAX_REMEMBERED_HASHES = 10_000
/** How many tools of one list are logged with their name. */
const MAX_LOGGED_TOOLS = 20
/** How many names are told to people at once. */
const MAX_NAMES = 20

/** One server whose tools are compared. */
class PinnedServer implements Pinning {
  readonly isHolding: boolean
  readonly #upstream: string
  readonly #accepted: ReadonlyMap<string, string>
  readonly #log: Deps['log']
  readonly #reported: ReportedTools
  /** The hashes of definitions that are kept, and of the texts of entries of lists, which are read anew for each list. */
  readonly #ofDefinition = new WeakMap<Definition, string>()
  readonly #ofText = new LRUCache<string, string>({ max: MAX_REMEMBERED_HASHES })
  #isEnded = false
  /** What is not accepted in the last list. */
  #unaccepted = new Map<string, ToolChange>()

  constructor(upstream: string, isHolding: boolean, { log, scope, gateway }: Deps) {
    this.isHolding = isHolding
    this.#upstream = upstream
    this.#accepted = gateway.settings.accepted?.servers.get(upstream) ?? new Map()
    this.#log = log
    this.#reported = scope.once(ReportedTools)
  }

  /** From now on, another configuration says what is accepted: what is still compared here is not logged. */
  end(): void {
    this.#isEnded = true
  }

  get shown(): string {
    return this.isHolding ? JSON.stringify([...this.#accepted]) : ''
  }

  get unaccepted(): ReadonlyMap<string, ToolChange> {
    return this.#unaccepted
  }

  get findings(): readonly string[] {
    if (this.#unaccepted.size === 0) return []
    const names = [...this.#unaccepted].map(([name, change]) => `${oneLine(name)} (${change})`)
    const more = names.length > MAX_NAMES ? ` and ${names.length - MAX_NAMES} more` : ''
    const what = this.isHolding ? 'held, because not' : 'not'
    const command = acceptCommand(this.#upstream)
    return [
      `${what} as in gatehouse.lock: ${names.slice(0, MAX_NAMES).join(', ')}${more}: accept with ${command}`,
    ]
  }

  changeOf(definition: Definition): ToolChange | undefined {
    return this.#change(String(definition.name), this.#hashOfKept(definition))
  }

  /** Around the calls of the tools of the server, above all that is spent on them. */
  readonly guard: Middleware = (next) => (call) => {
    const { tool, toolError } = call
    if (toolError !== undefined && this.isHolding) return Promise.reject(toolError)
    // One that is not listed is unknown: what is next to the server refuses it.
    if (!tool || (tool.isUnlisted && !this.isHolding)) return next(call)
    if (tool.isUnlisted) return Promise.reject(notCompared())
    const change = this.changeOf(tool.definition)
    if (!change) return next(call)
    if (this.isHolding) return Promise.reject(this.#refusal(tool.name, change))
    this.#report([[tool.name, change, this.#hashOfKept(tool.definition)]])
    return next(call)
  }

  readonly atServer: Pinning['atServer'] = (find) => (next) => async (call) => {
    if (call.method === 'tools/list') return this.#compared(await next(call), call)
    if (call.method === 'tools/call' && this.isHolding) {
      const name = String(call.params.fields.name)
      const found = await find(call)
      if (!found) throw unknownTool(name)
      if (found.isUnlisted) throw notCompared()
      const change = this.changeOf(found.definition)
      if (change) throw this.#refusal(name, change)
    }
    return next(call)
  }

  #hashOfKept(definition: Definition): string {
    const known = this.#ofDefinition.get(definition)
    if (known !== undefined) return known
    const own = definitionHash(definition)
    this.#ofDefinition.set(definition, own)
    return own
  }

  #change(name: string, own: string): ToolChange | undefined {
    const accepted = this.#accepted.get(name)
    if (accepted === own) return undefined
    return accepted === undefined ? 'new' : 'changed'
  }

  /** A list without what is held. */
  #compared(outcome: Outcome, call: Call): Outcome {
    const list = outcome.kind === 'result' ? outcome.result.at('tools') : undefined
    if (outcome.kind !== 'result' || !list || !Array.isArray(list.value)) return outcome
    const unaccepted =
      call.params.fields.cursor === undefined ? new Map<string, ToolChange>() : this.#unaccepted
    const changed: Reported[] = []
    const { items } = list
    const kept = items.filter((entry) => {
      const { name } = entry.fields
      // What has no name is no tool, but models may read it.
      if (typeof name !== 'string') return !this.isHolding
      const own = this.#hashOf(entry)
      const change = this.#change(name, own)
      if (change) {
        changed.push([name, change, own])
        unaccepted.set(name, change)
      } else if (!this.#isEnded) this.#reported.accepted(this.#upstream, name)
      return !change || !this.isHolding
    })
    this.#unaccepted = unaccepted
    this.#report(changed)
    if (kept.length === items.length) return outcome
    return { ...outcome, result: outcome.result.with({ tools: Payload.list(kept) }) }
  }

  #hashOf(entry: Payload): string {
    const key = hash('sha256', entry.text, 'base64url')
    const known = this.#ofText.get(key)
    if (known !== undefined) return known
    const own = definitionHash(entry.fields)
    this.#ofText.set(key, own)
    return own
  }

  #report(found: readonly Reported[]): void {
    if (this.#isEnded) return
    const fresh = found.filter(([name, , own]) => this.#reported.isNew(this.#upstream, name, own))
    for (const [tool, change] of fresh.slice(0, MAX_LOGGED_TOOLS))
      this.#log.warn('upstream.unaccepted', {
        upstream: this.#upstream,
        tool,
        change,
        held: this.isHolding,
        accept: acceptCommand(this.#upstream, tool),
      })
    const more = fresh.length - MAX_LOGGED_TOOLS
    if (more > 0)
      this.#log.warn('upstream.unaccepted', {
        upstream: this.#upstream,
        more,
        held: this.isHolding,
        accept: acceptCommand(this.#upstream),
      })
  }

  /** It says nothing of what the definition has become, which no one has read. */
  #refusal(name: string, change: ToolChange): GatewayError {
    const why = {
      new: 'it is not among the tools that the operator of this gateway accepted',
      changed: 'its definition is another one than the operator of this gateway accepted',
    }[change]
    return new GatewayError('PERMISSION_DENIED', `This tool is held: ${why}. It was not called.`, {
      isUnsent: true,
      field: 'name',
      reason: 'not_accepted',
      suggestion: `Do without it. The operator can accept it with \`${acceptCommand(this.#upstream, name)}\`.`,
    })
  }
}

/** The refusal while the server does not list its tools: the tool may well be accepted. */
function notCompared(): GatewayError {
  const message =
    'The server does not list its tools now, so this tool cannot be compared with what was accepted. It was not called.'
  return new GatewayError('SERVER_UNAVAILABLE', message, { isUnsent: true })
}

/** A tool that is not accepted, and the hash of its definition. */
type Reported = readonly [name: string, change: ToolChange, definition: string]

/** How many tools that are not accepted are remembered. */
const MAX_REPORTED_TOOLS = 20_000

/** What was logged of tools of all servers, so that a change is logged once; a tool that changes back, and again, changes anew. */
class ReportedTools {
  readonly #definitions = new LRUCache<string, string>({ max: MAX_REPORTED_TOOLS })

  /** Whether this definition of a tool was not reported before. From now on it was. */
  isNew(upstream: string, tool: string, definition: string): boolean {
    const key = keyOf(upstream, tool)
    if (this.#definitions.get(key) === definition) return false
    this.#definitions.set(key, definition)
    return true
  }

  accepted(upstream: string, tool: string): void {
    if (this.#definitions.size > 0) this.#definitions.delete(keyOf(upstream, tool))
  }

  close(): void {
    this.#definitions.clear()
  }
}

function keyOf(upstream: string, tool: string): string {
  return JSON.stringify([upstream, tool])
}

/** The command that accepts a tool, or all of a server; a name that would need quotes in a shell is left out. */
function acceptCommand(upstream: string, tool?: string): string {
  const isPlain = tool !== undefined && /^\w[\w.+:/-]{0,99}$/.test(tool)
  return ['gatehouse', 'accept', upstream, ...(isPlain ? [tool] : [])].join(' ')
}
