import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { type Mirror, readMirror } from '../wire/headers.ts'

const MAX_PAGES = 1000
/** How long a tool that is not listed stays unknown before the list is read again, in milliseconds. */
const UNKNOWN_FOR = 10_000

/** What must be known of a tool before it is called. */
export interface Tool {
  /** Which arguments are repeated in headers. */
  readonly mirror: Mirror
  /** It runs only as a task of 2025-11-25. */
  readonly isTask: boolean
  /** The entry of the server's list. */
  readonly definition: Readonly<Record<string, unknown>>
}

/** The tools of a server, from its own list. */
export class ToolIndex {
  readonly #list: (params: Payload) => Promise<Payload>
  #known: Map<string, Tool> | undefined
  #walking: Promise<void> | undefined
  #walkedAt = 0

  constructor(list: (params: Payload) => Promise<Payload>) {
    this.#list = list
  }

  /** A tool, if it is listed; at once, once the tools were listed. @throws what listing them throws */
  of(tool: string): Tool | undefined | Promise<Tool | undefined> {
    const found = this.#known?.get(tool)
    if (found || (this.#known && Date.now() - this.#walkedAt < UNKNOWN_FOR)) return found
    this.#walking ??= this.#walk().finally(() => {
      this.#walking = undefined
    })
    return this.#walking.then(() => this.#known?.get(tool))
  }

  /** Takes note of tools that were listed for somebody. */
  learn(result: Payload): void {
    if (this.#known) read(result, this.#known)
  }

  forget(): void {
    this.#known = undefined
  }

  async #walk(): Promise<void> {
    const found = new Map<string, Tool>()
    const seen = new Set<unknown>()
    let cursor: unknown
    // A server that repeats a cursor would be walked for ever.
    for (let page = 0; page < MAX_PAGES && !seen.has(cursor); page++) {
      seen.add(cursor)
      const result = await this.#list(Payload.of(cursor === undefined ? {} : { cursor }))
      read(result, found)
      cursor = result.fields.nextCursor
      if (typeof cursor !== 'string' || cursor === '') break
    }
    this.#known = found
    this.#walkedAt = Date.now()
  }
}

function read({ fields: { tools } }: Payload, into: Map<string, Tool>): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    if (!isObject(tool) || typeof tool.name !== 'string') continue
    const isTask = isObject(tool.execution) && tool.execution.taskSupport === 'required'
    into.set(tool.name, { mirror: readMirror(tool.inputSchema) ?? [], isTask, definition: tool })
  }
}
