import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { type Mirror, readMirror } from '../wire/headers.ts'

const MAX_PAGES = 1000
const unknown: Tool = { mirror: [], isTask: false }

/** What must be known of a tool before it is called. */
export interface Tool {
  /** Which arguments are repeated in headers. */
  readonly mirror: Mirror
  /** It runs only as a task of 2025-11-25. */
  readonly isTask: boolean
}

/** The tools of a server, from its own list. */
export class ToolIndex {
  readonly #list: (params: Payload) => Promise<Payload>
  #known: Map<string, Tool> | undefined
  #walking: Promise<void> | undefined

  constructor(list: (params: Payload) => Promise<Payload>) {
    this.#list = list
  }

  /** A tool; at once, once the tools were listed. @throws what listing them throws */
  of(tool: string): Tool | Promise<Tool> {
    if (this.#known) return this.#known.get(tool) ?? unknown
    this.#walking ??= this.#walk().finally(() => {
      this.#walking = undefined
    })
    return this.#walking.then(() => this.#known?.get(tool) ?? unknown)
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
  }
}

function read({ fields: { tools } }: Payload, into: Map<string, Tool>): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    if (!isObject(tool) || typeof tool.name !== 'string') continue
    const isTask = isObject(tool.execution) && tool.execution.taskSupport === 'required'
    into.set(tool.name, { mirror: readMirror(tool.inputSchema) ?? [], isTask })
  }
}
