import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** One row of the corporate standard: how much it binds, and who keeps it (gateway, added, linted). */
export interface Row {
  readonly id: string
  readonly level: 'must' | 'should' | 'forbidden' | 'may'
  readonly who: string
}

const folder = join(import.meta.dirname, '..')

/** Every row. */
export const rows: readonly Row[] = read('rows.json')

/** The rows that are left to a later area, with the area. */
export const left: readonly (readonly [id: string, area: string])[] = Object.entries(
  read<Record<string, string[]>>('pending.json'),
).flatMap(([area, ids]) => ids.map((id) => [id, area] as const))

/** The area of each row that is left to a later one. */
export const pending: ReadonlyMap<string, string> = new Map(left)

/** The rows that need a test: those the gateway keeps itself or for its servers. */
export const binding: readonly Row[] = rows.filter(({ who }) => /[GA]/.test(who))

/** The rows a test's name starts with, one or several, and what follows them. */
export function startOf(name: string): { readonly ids: readonly string[]; readonly rest: string } {
  const start = /^(?:C\d{3},? )*/.exec(name)?.[0] ?? ''
  return { ids: start.match(/C\d{3}/g) ?? [], rest: name.slice(start.length) }
}

/** Every row that the name of a test starts with, as far as the sources show. */
export function namedInSources(): ReadonlySet<string> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8'))
  // A list of numbers alone names no test.
  const starts = texts.flatMap((text) => text.match(/(?<=['"`])(?:C\d{3},? )+(?!C\d{3}|['"`])/g) ?? [])
  return new Set(starts.flatMap((start) => startOf(start).ids))
}

/** What is wrong with the coverage: rows without a test, pending rows with one, and numbers that are no row. */
export function gaps(tested: ReadonlySet<string>) {
  const known = new Set(rows.map(({ id }) => id))
  const bound = new Set(binding.map(({ id }) => id))
  return {
    untested: [...bound].filter((id) => !tested.has(id) && !pending.has(id)),
    pendingButTested: [...pending.keys()].filter((id) => tested.has(id)),
    unknown: [...tested, ...pending.keys()].filter((id) => !known.has(id)),
    pendingForNobody: [...pending.keys()].filter((id) => known.has(id) && !bound.has(id)),
  }
}

function read<Value>(name: string): Value {
  return JSON.parse(readFileSync(join(folder, 'standard', name), 'utf8'))
}
