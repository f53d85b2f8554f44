import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'

const MAX_PAGES = 1000

/** The input schemas of a server's tools, listed when first needed. */
export class SchemaIndex {
  readonly #list: (params: Payload) => Promise<Payload>
  #schemas: Promise<ReadonlyMap<string, unknown>> | undefined

  constructor(list: (params: Payload) => Promise<Payload>) {
    this.#list = list
  }

  get(): Promise<ReadonlyMap<string, unknown>> {
    this.#schemas ??= this.#walk().catch((error: unknown) => {
      this.#schemas = undefined
      throw error
    })
    return this.#schemas
  }

  forget(): void {
    this.#schemas = undefined
  }

  async #walk(): Promise<ReadonlyMap<string, unknown>> {
    const schemas = new Map<string, unknown>()
    const seen = new Set<unknown>()
    let cursor: unknown
    // A server that repeats a cursor would be walked for ever.
    for (let page = 0; page < MAX_PAGES && !seen.has(cursor); page++) {
      seen.add(cursor)
      const { tools, nextCursor } = (await this.#list(Payload.of(cursor === undefined ? {} : { cursor }))).fields
      for (const tool of Array.isArray(tools) ? tools : []) {
        if (isObject(tool) && typeof tool.name === 'string') schemas.set(tool.name, tool.inputSchema)
      }
      if (typeof nextCursor !== 'string' || nextCursor === '') break
      cursor = nextCursor
    }
    return schemas
  }
}
