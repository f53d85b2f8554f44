import { createHash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { namesByAlias } from '../core/alias.ts'
import type { Client } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { type HeaderMirror, readMirror } from '../wire/headers.ts'
import { boundedPage, MAX_LIST_ENTRIES } from './list-bounds.ts'

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

  /** Takes note of tools that were listed for somebody. A list without pages also says which there are no more. */
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
