/** Reads all pages of `tools/list`, as far as they can be read. */
import { isObject } from '../../core/json/json.ts'
import type { Fields } from '../../core/payload.ts'
import type { Endpoint } from './client.ts'

/** The tools at an address. */
export interface Listing {
  readonly entries: readonly Fields[]
  /** Why the list is not what it has to be. */
  readonly problem?: string
}

/** How many pages are read. */
const MAX_PAGES = 200

/** Reads the list of tools. Never throws: a check reports what is wrong with it. */
export async function listTools(endpoint: Endpoint): Promise<Listing> {
  const entries: Fields[] = []
  let cursor: unknown
  try {
    for (let page = 0; page < MAX_PAGES; page++) {
      const { result, error, status } = await endpoint.send(
        'tools/list',
        cursor === undefined ? {} : { cursor },
      )
      if (error) return { entries, problem: `tools/list failed: ${String(error.message)}` }
      const tools = result?.tools
      if (!Array.isArray(tools))
        return { entries, problem: `tools/list returned no array of tools (HTTP ${status})` }
      if (!tools.every(isObject))
        return { entries: entries.concat(tools.filter(isObject)), problem: 'a listed tool is no object' }
      entries.push(...tools)
      cursor = result?.nextCursor
      if (cursor === undefined) return { entries }
    }
    return { entries, problem: `tools/list has more than ${MAX_PAGES} pages` }
  } catch (error) {
    return {
      entries,
      problem: `tools/list failed: ${error instanceof Error ? error.message : String(error)}`,
    }
  }
}

/** The tools of a listing that are not among those of the gateway itself. */
export function withoutOwn({ entries }: Listing, own: ReadonlySet<unknown>): readonly Fields[] {
  return entries.filter(
    ({ name }) => !own.has(name) && !(typeof name === 'string' && own.has(name.replace(/^gateway_/, ''))),
  )
}
