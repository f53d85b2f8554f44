/**
 * A server of records in memory whose tools are generated: what a tool does follows from its name and its schemas
 * alone, in the widest way that such a server could mean them. A selector that is left out selects everything, an
 * unknown argument that is left out widens what is hit, and a maker whose server says so takes what is there.
 */
import type { Json } from './server/json.ts'

/** A record, by the id its server gave it. */
export interface Entry {
  readonly id: string
  /** What it is in. */
  readonly board: string
  readonly name: string
  readonly title: string
  readonly isClosed: boolean
}

/** A tool, and what it does to the records. */
export interface WorldTool {
  readonly definition: Json
  /** @throws Error where the server refuses it */
  run(world: World, args: Json): Json
}

/** The records of a server. */
export class World {
  readonly records: Map<string, Entry>
  #next: number

  constructor(records: readonly Entry[]) {
    this.records = new Map(records.map((each) => [each.id, each]))
    this.#next = records.length + 1
  }

  add(fields: Omit<Entry, 'id'>): Entry {
    const entry = { ...fields, id: `r${this.#next++}` }
    this.records.set(entry.id, entry)
    return entry
  }

  /** Those that fit what is given; all of them where nothing is. */
  fitting(args: Json): Entry[] {
    return [...this.records.values()].filter((entry) => fits(entry, args))
  }

  copy(): ReadonlyMap<string, Entry> {
    return new Map(this.records)
  }
}

/** The ids of the records that are not as they were. */
export function changedIds(
  before: ReadonlyMap<string, Entry>,
  after: ReadonlyMap<string, Entry>,
): Set<string> {
  const ids = new Set([...before.keys(), ...after.keys()])
  return new Set([...ids].filter((id) => JSON.stringify(before.get(id)) !== JSON.stringify(after.get(id))))
}

function fits(entry: Entry, args: Json): boolean {
  return Object.entries(args).every(([key, value]) => {
    if (key === 'id' || key.endsWith('_id')) return entry.id === value
    if (key === 'ids') return list(value).includes(entry.id)
    if (key === 'names') return list(value).includes(entry.name)
    if (key === 'name' || key === 'board' || key === 'title') return entry[key] === value
    if (key === 'filter' || key === 'where') return fits(entry, Object(value))
    return true
  })
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/**
 * Makes a record. Of one name there is one in a board, or at all where the tool knows of no boards, unless its server
 * takes what is there.
 */
export function make(world: World, args: Json, { takes, definition }: Making): Entry {
  const board = String(args['board'] ?? 'inbox')
  const title = String(args['title'] ?? '')
  const name = typeof args['name'] === 'string' ? args['name'] : undefined
  const found =
    name === undefined ? [] : world.fitting({ name, ...(takesArgument(definition, 'board') && { board }) })
  const [there] = found
  if (!there) return world.add({ board, name: name ?? `n${world.records.size}`, title, isClosed: false })
  if (!takes) throw new Error('there is one')
  const changed = { ...there, title }
  world.records.set(there.id, changed)
  return changed
}

interface Making {
  readonly takes: boolean
  readonly definition: Json
}

/** Whether a tool has an argument. */
export function takesArgument({ inputSchema }: Json, name: string): boolean {
  const { properties } = Object(inputSchema)
  return Object.hasOwn(Object(properties), name)
}

/** Removes what fits; without an argument that its schema knows but nobody gave, all of the same boards too. */
export function remove(world: World, args: Json, definition: Json): number {
  if (args['dry_run'] === true) return 0
  const hit = new Set(args['all'] === true ? world.fitting({}) : world.fitting(args))
  const isWide = takesArgument(definition, 'scope') && args['scope'] === undefined
  const boards = new Set([...hit].map(({ board }) => board))
  for (const entry of world.fitting({})) {
    if (hit.has(entry) || (isWide && boards.has(entry.board))) world.records.delete(entry.id)
  }
  return hit.size
}

/** Changes what fits the arguments that select. */
export function change(world: World, selecting: Json, fields: Partial<Entry>): number {
  const hit = world.fitting(selecting)
  if (hit.length > 1 && selecting['name'] !== undefined) throw new Error('there are several')
  for (const entry of hit) world.records.set(entry.id, { ...entry, ...fields })
  return hit.length
}
