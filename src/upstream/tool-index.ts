/**
 * The tools of a server by name, from its lists: header mirrors, required tasks, renamed and hidden tools. Bounded,
 * because lists are untrusted.
 */
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import { world } from '../core/world.ts'
import type { Client, Call, Handler } from '../core/call.ts'
import { asGatewayError, GatewayError, unknownTool } from '../core/error.ts'
import { canonical, isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { type UpstreamSettings, settingOf } from '../core/settings.ts'
import { namesByAlias } from '../core/text/alias.ts'
import type { ListedTool } from '../protocol/found-tool.ts'
import { readMirror } from '../protocol/headers.ts'
import { checkedPage, entriesOf } from '../protocol/server-shapes.ts'

const MAX_PAGES = 1000
/** How long a list is not requested again for an unknown tool or after a refusal, in milliseconds. */
const UNKNOWN_TTL_MS = 10_000
/** The maximum number of client capability sets for which that is tracked. */
const MAX_CLIENT_KEYS = 100

/** Why the tools are unknown. */
interface Refusal {
  readonly error: unknown
  readonly at: number
  /** No response came in time. */
  readonly isTimeout: boolean
}

type List = (params: Payload, client?: Client) => Promise<Payload>

/** The tools in a server's own list. */
export class ToolIndex {
  readonly #list: List
  #known: Map<string, ListedTool> | undefined
  /** The capability set the tools were last listed for: others may be offered other tools. */
  #clientKey: string | undefined
  #listing: Promise<void> | undefined
  readonly #listedAt = new LRUCache<string, number>({ max: MAX_CLIENT_KEYS })
  #byAlias: ReadonlyMap<string, readonly string[]> | undefined
  #definitions: readonly ListedTool['definition'][] | undefined
  #refusal: Refusal | undefined

  constructor(list: List) {
    this.#list = list
  }

  /**
   * A tool by its name or alias, if it is listed; immediately, once the tools were listed. @throws the error of listing
   */
  of(tool: string, client?: Client): ListedTool | undefined | Promise<ListedTool | undefined> {
    const found = this.#find(tool)
    if (found) return found
    const refusal = this.#refusal
    if (refusal) {
      const isOver = world.now() - refusal.at >= UNKNOWN_TTL_MS
      // Calls do not wait again for a list that timed out: it is requested in the background.
      if (isOver && refusal.isTimeout && !this.#listing) this.#learnAll(client).catch(() => undefined)
      if (!isOver || refusal.isTimeout) return Promise.reject(refusal.error)
    }
    const clientKey = clientKeyOf(client)
    const isSame = this.#clientKey === clientKey
    if (this.#listing) {
      const again = () => this.of(tool, client)
      return isSame ? this.#listing.then(() => this.#find(tool)) : this.#listing.then(again, again)
    }
    if (this.#known && this.#isRecent(clientKey)) return undefined
    return this.#learnAll(client).then(() => this.#find(tool))
  }

  /** Whether the tools were listed for such a client a moment ago, and none has this name or alias. */
  lacks(tool: string, client?: Client): boolean {
    return this.#known !== undefined && this.#isRecent(clientKeyOf(client)) && !this.#find(tool)
  }

  #isRecent(clientKey: string): boolean {
    return world.now() - (this.#listedAt.get(clientKey) ?? 0) < UNKNOWN_TTL_MS
  }

  /** Lists the tools for a client. @throws the error of listing */
  #learnAll(client: Client | undefined): Promise<void> {
    const clientKey = clientKeyOf(client)
    const isSame = this.#clientKey === clientKey
    this.#clientKey = clientKey
    this.#listing = this.#readPages(client, isSame)
      .then(
        () => {
          this.#refusal = undefined
          this.#listedAt.set(clientKey, world.now())
        },
        (error: unknown) => {
          const isTimeout = asGatewayError(error).code === 'OPERATION_TIMEOUT'
          this.#refusal = isTimeout || isAnswered(error) ? { error, at: world.now(), isTimeout } : undefined
          throw error
        },
      )
      .finally(() => {
        this.#listing = undefined
      })
    return this.#listing
  }

  /** Records the tools listed for a caller. A list without further pages also shows which tools were removed. */
  learn(result: Payload, requested: Payload, client?: Client): void {
    if (!this.#known || !entriesOf(result, 'tools')) return
    const isWhole = requested.fields.cursor === undefined && isLast(result.fields.nextCursor)
    if (isWhole && this.#clientKey === clientKeyOf(client)) this.#known.clear()
    read(
      checkedPage(
        boundedPage(result, 'tools', () => undefined),
        'tools',
      ).payload,
      this.#known,
      this.#all,
    )
    this.#derive()
  }

  forget(): void {
    this.#known = undefined
    this.#refusal = undefined
    this.#derive()
  }

  /** Forgets what follows from the known tools. */
  #derive(): void {
    this.#byAlias = undefined
    this.#definitions = undefined
  }

  readonly #all = (): readonly ListedTool['definition'][] => {
    this.#definitions ??= [...(this.#known?.values() ?? [])].map(({ definition }) => definition)
    return this.#definitions
  }

  /** A name takes precedence over an alias, and an ambiguous alias is ignored. */
  #find(tool: string): ListedTool | undefined {
    const found = this.#known?.get(tool)
    if (found || !this.#known) return found
    this.#byAlias ??= namesByAlias(this.#known.keys())
    const [only, ...others] = this.#byAlias.get(tool) ?? []
    return only !== undefined && others.length === 0 ? this.#known.get(only) : undefined
  }

  async #readPages(client: Client | undefined, isAnew: boolean): Promise<void> {
    const found = new Map<string, ListedTool>()
    const seen = new Set<unknown>()
    let cursor: unknown
    // A server that repeats a cursor would be listed forever.
    for (let page = 0; page < MAX_PAGES && found.size < MAX_LIST_ENTRIES && !seen.has(cursor); page++) {
      seen.add(cursor)
      const given = await this.#list(Payload.of(cursor === undefined ? {} : { cursor }), client)
      if (!entriesOf(given, 'tools')) throw new GatewayError('UPSTREAM_ERROR', NO_LIST)
      const result = checkedPage(
        boundedPage(given, 'tools', () => undefined),
        'tools',
      ).payload
      read(result, found, this.#all)
      cursor = result.fields.nextCursor
      if (isLast(cursor)) break
    }
    this.#known = isAnew ? found : new Map([...(this.#known ?? []), ...found])
    this.#derive()
  }
}

/** A tool of a server that does not list its tools: it may exist. */
export function unlistedTool(name: string): ListedTool {
  return { mirror: [], definition: { name }, isUnlisted: true }
}

/** Distinguishes clients by capabilities: those with equal capabilities are offered the same tools. */
function clientKeyOf(client: Client | undefined): string {
  return createHash('sha256')
    .update(canonical(client?.capabilities ?? {}))
    .digest('base64url')
}

/** Whether there is no further page; some servers send an empty cursor instead of none. */
function isLast(nextCursor: unknown): boolean {
  return typeof nextCursor !== 'string' || nextCursor === ''
}

const NO_LIST = "The server's response to tools/list is not a list."

/** Whether the server itself refused: it would refuse again. */
function isAnswered(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'UPSTREAM_ERROR'
}

function read(
  { fields: { tools } }: Payload,
  into: Map<string, ListedTool>,
  list: NonNullable<ListedTool['list']>,
): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    if (!isObject(tool) || typeof tool.name !== 'string') continue
    const support = isObject(tool.execution) ? tool.execution.taskSupport : undefined
    const isSupported = support === 'optional' || support === 'required'
    into.set(tool.name, {
      mirror: readMirror(tool.inputSchema) ?? [],
      definition: tool,
      list,
      ...(isSupported && { taskSupport: support }),
    })
  }
}

// Bounds on listed entries: their number, their size, and the total size of a page. Every listed entry is classified,
// described and cached, so an endless list would block all other servers. Excess entries are dropped and reported to
// `onCut`.

/** The maximum number of entries of one page, and of all pages together. */
export const MAX_LIST_ENTRIES = 2000
/** The maximum length of an entry, in characters of JSON. */
const MAX_ENTRY_LENGTH = 256 * 1024
/** The maximum total length of the entries of a page, in characters of JSON. */
const MAX_PAGE_LENGTH = 8 * 1024 * 1024

/** The entries dropped from a list. */
export interface Cut {
  readonly entries: number
  readonly oversized: number
}

/** A page of a list within the bounds; unchanged if it complies. */
export function boundedPage(page: Payload, key: string, onCut: (cut: Cut) => void): Payload {
  const listed = page.member(key)
  if (!Array.isArray(listed) || (listed.length <= MAX_LIST_ENTRIES && isShort(page))) return page
  let length = 0
  let oversized = 0
  const kept: string[] = []
  for (const { text } of page.at(key)?.items ?? []) {
    if (text.length > MAX_ENTRY_LENGTH) oversized++
    else if (kept.length < MAX_LIST_ENTRIES && length + text.length <= MAX_PAGE_LENGTH) {
      kept.push(text)
      length += text.length
    }
  }
  if (kept.length === listed.length) return page
  onCut({ entries: listed.length - kept.length, oversized })
  return page.with({ [key]: Payload.text(`[${kept.join(',')}]`) })
}

/** A short page contains no entry that is too long. */
function isShort({ text }: Payload): boolean {
  return text.length <= MAX_ENTRY_LENGTH
}

// Renamed and hidden tools. Everything except the server's own connection uses only the new name of a renamed tool:
// rules, classification, logs, documents. Invariant: a name refers to one tool. A new name takes precedence over a tool
// of that name in the server's list, which is then left out, so no server can take a name by listing it.

/** Finds the tool a call names. */
export type FindTool = (call: Call) => ListedTool | undefined | Promise<ListedTool | undefined>

/** The server under the names its tools have in the gateway. */
interface ToolNames {
  /** Runs its calls and lists. With `withHidden` the tools that are not offered are included. */
  handle(next: Handler, withHidden?: boolean): Handler
  find(next: FindTool): FindTool
  /** The call with the server's name of its tool; undefined where no offered tool has its name. */
  original(call: Call): Call | undefined
  /** Renamed tools whose new name the server also lists itself, with that name. */
  readonly taken: ReadonlyMap<string, string>
}

/** Renames and hides the tools of a server; undefined where nothing is configured. */
export function toolNames({ renames, tools }: UpstreamSettings, log: Log): ToolNames | undefined {
  const isHiding = Object.values(tools).some(({ hide }) => hide === true)
  if (Object.keys(renames).length === 0 && !isHiding) return undefined
  return new ConfiguredNames({ renames, tools }, log)
}

class ConfiguredNames implements ToolNames {
  readonly taken = new Map<string, string>()
  readonly #tools: UpstreamSettings['tools']
  /** New names by the server's names, and the reverse. */
  readonly #renames: ReadonlyMap<string, string>
  readonly #originals: ReadonlyMap<string, string>
  readonly #definitions = new WeakMap<object, ListedTool>()
  readonly #log: Log

  constructor({ renames, tools }: Pick<UpstreamSettings, 'renames' | 'tools'>, log: Log) {
    this.#tools = tools
    this.#renames = new Map(Object.entries(renames))
    this.#originals = new Map([...this.#renames].map(([name, renamed]) => [renamed, name]))
    this.#log = log
  }

  handle(next: Handler, withHidden = false): Handler {
    return async (call) => {
      if (call.method === 'tools/list') {
        const outcome = await next(call)
        if (outcome.kind !== 'result') return outcome
        return { ...outcome, result: this.#renamedList(outcome.result, withHidden) }
      }
      if (call.method !== 'tools/call') return next(call)
      const original = this.#toServer(call, withHidden)
      if (!original) throw unknownTool(String(call.params.fields.name))
      return next(original)
    }
  }

  find(next: FindTool): FindTool {
    return (call) => {
      const original = this.#toServer(call, false)
      if (!original) return undefined
      const found = next(original)
      return found instanceof Promise
        ? found.then((tool) => this.#renamedTool(tool))
        : this.#renamedTool(found)
    }
  }

  original(call: Call): Call | undefined {
    return this.#toServer(call, false)
  }

  #isHidden(name: string): boolean {
    return settingOf(this.#tools, name, 'hide')?.value === true
  }

  /** The server's name of a tool; undefined where no offered tool has this name. */
  #originalOf(name: string, withHidden: boolean): string | undefined {
    if (!withHidden && this.#isHidden(name)) return undefined
    return this.#originals.get(name) ?? (this.#renames.has(name) ? undefined : name)
  }

  /** The name of a listed tool in the gateway; undefined where it is left out. */
  #nameOf(listed: string, withHidden: boolean): string | undefined {
    const renamed = this.#renames.get(listed)
    if (renamed === undefined && this.#originals.has(listed)) {
      this.#reportTaken(listed)
      return undefined
    }
    const name = renamed ?? listed
    return !withHidden && this.#isHidden(name) ? undefined : name
  }

  #reportTaken(name: string): void {
    const original = this.#originals.get(name) ?? ''
    if (this.taken.has(original)) return
    this.taken.set(original, name)
    this.#log.warn('upstream.name_taken', { name, reason: `it is the new name of ${original}` })
  }

  #renamedList(result: Payload, withHidden: boolean): Payload {
    const list = result.at('tools')
    if (!list || !Array.isArray(list.value)) return result
    const kept = list.items.flatMap((entry) => {
      const { name: listed } = entry.fields
      if (typeof listed !== 'string') return [entry]
      const name = this.#nameOf(listed, withHidden)
      if (name === undefined) return []
      return [name === listed ? entry : entry.with({ name })]
    })
    return result.with({ tools: Payload.text(`[${kept.map(({ text }) => text).join(',')}]`) })
  }

  #toServer(call: Call, withHidden: boolean): Call | undefined {
    const { name } = call.params.fields
    if (typeof name !== 'string') return call
    const original = this.#originalOf(name, withHidden)
    if (original === undefined) return undefined
    if (original === name) return call
    return {
      ...call,
      params: call.params.with({ name: original }),
      target: { ...call.target, name: original },
    }
  }

  #renamedTool(tool: ListedTool | undefined): ListedTool | undefined {
    if (!tool) return undefined
    const name = this.#nameOf(String(tool.definition.name), false)
    if (name === undefined) return undefined
    if (name === tool.definition.name) return tool
    // Caches are keyed by the definition, so the same tool always gets the same one.
    const renamed = this.#definitions.get(tool.definition) ?? {
      ...tool,
      definition: { ...tool.definition, name },
    }
    this.#definitions.set(tool.definition, renamed)
    return renamed
  }
}
