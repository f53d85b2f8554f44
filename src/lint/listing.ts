import type { GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json.ts'
import { method } from '../wire/methods.ts'
import type { Ask } from './asking.ts'

/** The methods that list something. */
export type ListMethod = 'tools/list' | 'prompts/list' | 'resources/list' | 'resources/templates/list'

/** What a server lists. */
export interface List {
  readonly items: readonly unknown[]
  /** How many entries each page had. */
  readonly pages: readonly number[]
  /** Listing it twice gave the same entries in the same order. */
  readonly isStable: boolean
  readonly error?: GatewayError
}

/** A server that never ends a list is read this far. */
const MAX_PAGES = 100

/** Reads a list to its end, twice. */
export async function readList(ask: Ask, name: ListMethod): Promise<List> {
  const first = await walk(ask, name)
  if (first.error) return { ...first, isStable: true }
  const second = await walk(ask, name)
  return { ...first, isStable: namesOf(first.items) === namesOf(second.items) }
}

async function walk(ask: Ask, name: ListMethod): Promise<Omit<List, 'isStable'>> {
  const items: unknown[] = []
  const pages: number[] = []
  let cursor: unknown
  while (pages.length < MAX_PAGES) {
    const { result, error } = await ask(name, cursor === undefined ? {} : { cursor })
    if (error) return { items, pages, error }
    const found = result.fields[method(name).list ?? '']
    const page: readonly unknown[] = Array.isArray(found) ? found : []
    items.push(...page)
    pages.push(page.length)
    cursor = result.fields.nextCursor
    if (typeof cursor !== 'string') break
  }
  return { items, pages }
}

function namesOf(items: readonly unknown[]): string {
  return canonical(items.map((each) => (isObject(each) ? (each.uri ?? each.uriTemplate ?? each.name) : each)))
}
