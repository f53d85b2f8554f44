import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { type Mirror, readMirror } from '../wire/headers.ts'

const MAX_PAGES = 1000
const none: Mirror = []

/** Which arguments of a server's tools are repeated in headers, from its list of tools. */
export class MirrorIndex {
  readonly #list: (params: Payload) => Promise<Payload>
  #known: Map<string, Mirror> | undefined
  #walking: Promise<void> | undefined

  constructor(list: (params: Payload) => Promise<Payload>) {
    this.#list = list
  }

  /** The mirror of a tool; at once, once the tools were listed. @throws what listing them throws */
  of(tool: string): Mirror | Promise<Mirror> {
    if (this.#known) return this.#known.get(tool) ?? none
    this.#walking ??= this.#walk().finally(() => {
      this.#walking = undefined
    })
    return this.#walking.then(() => this.#known?.get(tool) ?? none)
  }

  /** Takes note of tools that were listed for somebody. */
  learn(result: Payload): void {
    if (this.#known) read(result, this.#known)
  }

  forget(): void {
    this.#known = undefined
  }

  async #walk(): Promise<void> {
    const found = new Map<string, Mirror>()
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

function read({ fields: { tools } }: Payload, into: Map<string, Mirror>): void {
  for (const tool of Array.isArray(tools) ? tools : []) {
    if (isObject(tool) && typeof tool.name === 'string')
      into.set(tool.name, readMirror(tool.inputSchema) ?? none)
  }
}
