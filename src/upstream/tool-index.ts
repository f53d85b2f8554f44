/**
 * The tools of a server by name, from its lists: header mirrors, required tasks, renamed and hidden tools.
 * Bounded, as lists are foreign.
 */
import { LRUCache } from 'lru-cache'
import { createHash } from 'node:crypto'
import type { Client, Call, Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import { type UpstreamSettings, settingOf } from '../core/settings.ts'
import { namesByAlias } from '../core/text/alias.ts'
import { unknownTool } from '../core/error.ts'
import { type HeaderMirror, readMirror } from '../protocol/headers.ts'

const MAX_PAGES = 1000
/** How long a tool that is not listed, or a list that is refused, is not asked for again, in milliseconds. */
const UNKNOWN_TTL_MS = 10_000
/** For how many kinds of clients that is known. */
const MAX_ASKERS = 100

/** What must be known of a tool before it is called. */
export interface IndexedTool {
  /** Which arguments are repeated in headers. */
  readonly mirror: HeaderMirror
  /** It runs only as a task of 2025-11-25. */
  readonly isTask: boolean
  /** The entry of the server's list. */
  readonly definition: Readonly<Record<string, unknown>>
  /** Set where the server does not list its tools, so that nothing but the name is known. */
  readonly isUnlisted?: true
}

/** Why the tools are not known. */
interface Refusal {
  readonly error: unknown
  readonly at: number
  /** No answer came in time. */
  readonly isSilent: boolean
}

type List = (params: Payload, client?: Client) => Promise<Payload>

/** The tools of a server, from its own list. */
export class ToolIndex {
  readonly #list: List
  #known: Map<string, IndexedTool> | undefined
  /** Whom the tools were last listed for, by what it can do: others may be offered others. */
  #asker: string | undefined
  #walking: Promise<void> | undefined
  readonly #walkedAt = new LRUCache<string, number>({ max: MAX_ASKERS })
  #byAlias: ReadonlyMap<string, readonly string[]> | undefined
  #refusal: Refusal | undefined

  constructor(list: List) {
    this.#list = list
  }

  /** A tool by its name or alias, if it is listed; at once, once the tools were listed. @throws what listing them throws */
  of(tool: string, client?: Client): IndexedTool | undefined | Promise<IndexedTool | undefined> {
    const found = this.#find(tool)
    if (found) return found
    const refusal = this.#refusal
    if (refusal) {
      const isOver = Date.now() - refusal.at >= UNKNOWN_TTL_MS
      // A list that does not come is not waited for again: it is asked for meanwhile.
      if (isOver && refusal.isSilent && !this.#walking) this.#learnAll(client).catch(() => undefined)
      if (!isOver || refusal.isSilent) return Promise.reject(refusal.error)
    }
    const asker = askerOf(client)
    const isSame = this.#asker === asker
    if (this.#walking) {
      const again = () => this.of(tool, client)
      return isSame ? this.#walking.then(() => this.#find(tool)) : this.#walking.then(again, again)
    }
    if (this.#known && Date.now() - (this.#walkedAt.get(asker) ?? 0) < UNKNOWN_TTL_MS) return undefined
    return this.#learnAll(client).then(() => this.#find(tool))
  }

  /** Lists the tools for a client. @throws what listing them throws */
  #learnAll(client: Client | undefined): Promise<void> {
    const asker = askerOf(client)
    const isSame = this.#asker === asker
    this.#asker = asker
    this.#walking = this.#walk(client, isSame)
      .then(
        () => {
          this.#refusal = undefined
          this.#walkedAt.set(asker, Date.now())
        },
        (error: unknown) => {
          const isSilent = asGatewayError(error).code === 'OPERATION_TIMEOUT'
          this.#refusal = isSilent || isAnswered(error) ? { error, at: Date.now(), isSilent } : undefined
          throw error
        },
      )
      .finally(() => {
        this.#walking = undefined
      })
    return this.#walking
  }

  /** Records the tools listed for a caller. A list without pages also shows which tools are gone. */
  learn(result: Payload, asked: Payload, client?: Client): void {
    if (!this.#known || !Array.isArray(result.fields.tools)) return
    const isWhole = asked.fields.cursor === undefined && isLast(result.fields.nextCursor)
    if (isWhole && this.#asker === askerOf(client)) this.#known.clear()
    read(result, this.#known)
    this.#byAlias = undefined
  }

  forget(): void {
    this.#known = undefined
    this.#refusal = undefined
    this.#byAlias = undefined
  }

  /** A name goes before an alias, and an alias that could be of several is of none. */
  #find(tool: string): IndexedTool | undefined {
    const found = this.#known?.get(tool)
    if (found || !this.#known) return found
    this.#byAlias ??= namesByAlias(this.#known.keys())
    const [only, ...others] = this.#byAlias.get(tool) ?? []
    return only !== undefined && others.length === 0 ? this.#known.get(only) : undefined
  }

  async #walk(client: Client | undefined, isAnew: boolean): Promise<void> {
    const found = new Map<string, IndexedTool>()
    const seen = new Set<unknown>()
    let cursor: unknown
    // A server that repeats a cursor would be walked for ever.
    for (let page = 0; page < MAX_PAGES && found.size < MAX_LIST_ENTRIES && !seen.has(cursor); page++) {
      seen.add(cursor)
      const given = await this.#list(Payload.of(cursor === undefined ? {} : { cursor }), client)
      const result = boundedPage(given, 'tools', () => undefined)
      if (!Array.isArray(result.fields.tools)) throw new GatewayError('UPSTREAM_ERROR', NO_LIST)
      read(result, found)
      cursor = result.fields.nextCursor
      if (isLast(cursor)) break
    }
    this.#known = isAnew ? found : new Map([...(this.#known ?? []), ...found])
    this.#byAlias = undefined
  }
}

/** A tool of a server that does not list its tools: it may have it. */
export function unlistedTool(name: string): IndexedTool {
  return { mirror: [], isTask: false, definition: { name }, isUnlisted: true }
}

/** What clients are told apart by: those that can do the same are offered the same. */
function askerOf(client: Client | undefined): string {
  return createHash('sha256')
    .update(canonical(client?.capabilities ?? {}))
    .digest('base64url')
}

/** Whether there is no page after one; some servers say so with a cursor that is empty. */
function isLast(nextCursor: unknown): boolean {
  return typeof nextCursor !== 'string' || nextCursor === ''
}

const NO_LIST = 'The server answered tools/list with something else than a list.'

/** Whether the server itself said no: it would say so again. */
function isAnswered(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'UPSTREAM_ERROR'
}

function read({ fields: { tools } }: Payload, into: Map<string, IndexedTool>): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    if (!isObject(tool) || typeof tool.name !== 'string') continue
    const isTask = isObject(tool.execution) && tool.execution.taskSupport === 'required'
    into.set(tool.name, { mirror: readMirror(tool.inputSchema) ?? [], isTask, definition: tool })
  }
}

// Bounds on what a server lists: how many entries, how large each, and how large all of a page.
// Everything a list holds is judged, described and kept, so a server that lists without end would stall all others.
// What is over is left out, and `onCut` hears of it.

/** How many entries of one page are taken, and how many of all pages together. */
export const MAX_LIST_ENTRIES = 2000
/** How long one entry may be, in characters of JSON. */
const MAX_ENTRY_LENGTH = 256 * 1024
/** How long the entries of a page may be together, in characters of JSON. */
const MAX_PAGE_LENGTH = 8 * 1024 * 1024

/** What was left out of a list. */
export interface Cut {
  readonly entries: number
  readonly oversized: number
}

/** A page of a list within the bounds; the same one where it is. */
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

/** No entry of a short page is too long. */
function isShort({ text }: Payload): boolean {
  return text.length <= MAX_ENTRY_LENGTH
}

// What tools of a server are called here, and which are not offered. Everything outside of the server's own connection
// knows a renamed tool by its new name alone: rules, judgement, logs, documents. Invariant: a name stands for one tool.
// A new name goes before one the server lists itself, which is then left out, so no server takes a name by listing it.

type FindTool = (call: Call) => IndexedTool | undefined | Promise<IndexedTool | undefined>

/** The server by the names tools have here. */
interface ToolNames {
  /** Its calls and lists. With `isWhole` the tools that are not offered are there. */
  handle(next: Handler, isWhole?: boolean): Handler
  find(next: FindTool): FindTool
  /** Tools that have a new name which the server turned out to list itself, with that name. */
  readonly taken: ReadonlyMap<string, string>
}

/** What renames and hides the tools of a server; nothing where nothing is to be. */
export function toolNames({ renames, tools }: UpstreamSettings, log: Log): ToolNames | undefined {
  const given = new Map(Object.entries(renames))
  const isHiding = Object.values(tools).some(({ hide }) => hide === true)
  if (given.size === 0 && !isHiding) return undefined
  const original = new Map([...given].map(([name, renamed]) => [renamed, name]))
  const isHidden = (name: string): boolean => settingOf(tools, name, 'hide')?.value === true
  const definitions = new WeakMap<object, IndexedTool>()
  const taken = new Map<string, string>()

  /** The name the server knows a tool by; nothing where none has this name. */
  const nameAt = (name: string, isWhole: boolean): string | undefined => {
    if (!isWhole && isHidden(name)) return undefined
    return original.get(name) ?? (given.has(name) ? undefined : name)
  }
  /** What a listed tool is called; nothing where it is left out. */
  const nameOf = (listed: string, isWhole: boolean): string | undefined => {
    const name = given.get(listed) ?? listed
    if (!given.has(listed) && original.has(listed)) {
      reportTaken(listed)
      return undefined
    }
    return !isWhole && isHidden(name) ? undefined : name
  }
  const reportTaken = (name: string): void => {
    const renamed = original.get(name) ?? ''
    if (taken.has(renamed)) return
    taken.set(renamed, name)
    log.warn('upstream.name_taken', { name, reason: `it is the new name of ${renamed}` })
  }
  const listed = (result: Payload, isWhole: boolean): Payload => {
    const list = result.at('tools')
    if (!list || !Array.isArray(list.value)) return result
    const kept = list.items.flatMap((entry) => {
      const { name } = entry.fields
      if (typeof name !== 'string') return [entry]
      const shown = nameOf(name, isWhole)
      if (shown === undefined) return []
      return [shown === name ? entry : entry.with({ name: shown })]
    })
    return result.with({ tools: Payload.text(`[${kept.map(({ text }) => text).join(',')}]`) })
  }
  const called = (call: Call, isWhole: boolean): Call | undefined => {
    const { name } = call.params.fields
    if (typeof name !== 'string') return call
    const known = nameAt(name, isWhole)
    if (known === undefined || known === name) return known === undefined ? undefined : call
    return { ...call, params: call.params.with({ name: known }), target: { ...call.target, name: known } }
  }
  const shownTool = (tool: IndexedTool | undefined): IndexedTool | undefined => {
    const name = tool && nameOf(String(tool.definition.name), false)
    if (!tool || name === undefined || name === tool.definition.name)
      return name === undefined ? undefined : tool
    // The same definition for the same tool: what is known of it is kept by that.
    const made = definitions.get(tool.definition) ?? { ...tool, definition: { ...tool.definition, name } }
    definitions.set(tool.definition, made)
    return made
  }

  return {
    taken,
    handle:
      (next, isWhole = false) =>
      async (call) => {
        if (call.method === 'tools/list') {
          const outcome = await next(call)
          return outcome.kind === 'result' ? { ...outcome, result: listed(outcome.result, isWhole) } : outcome
        }
        if (call.method !== 'tools/call') return next(call)
        const known = called(call, isWhole)
        if (!known) throw unknownTool(String(call.params.fields.name))
        return next(known)
      },
    find: (next) => (call) => {
      const known = called(call, false)
      if (!known) return undefined
      const found = next(known)
      return found instanceof Promise ? found.then(shownTool) : shownTool(found)
    },
  }
}
