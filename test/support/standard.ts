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

/** Why the gateway deliberately does something else than a row says, by row; `docs/guard.md` says the same to users. */
export const deviations: ReadonlyMap<string, string> = new Map(
  Object.entries(read<Record<string, string>>('deviations.json')),
)

/** The rows that need a test: those the gateway keeps itself or for its servers. */
export const binding: readonly Row[] = rows.filter(({ who }) => /[GA]/.test(who))

/** The rows a test's name starts with, one or several, and what follows them. */
export function startOf(name: string): { readonly ids: readonly string[]; readonly rest: string } {
  const start = /^(?:C\d{3},? )*/.exec(name)?.[0] ?? ''
  return { ids: start.match(/C\d{3}/g) ?? [], rest: name.slice(start.length) }
}

/** Every row that the name of a test starts with, as far as the sources show. */
export function namedInSources(): ReadonlySet<string> {
  return new Set([...sources().values()].flatMap(namesIn).flatMap((start) => startOf(start).ids))
}

/** The test files in which a test has the number of a row, itself or by what it imports, as absolute paths. */
export function filesOfRows(): readonly string[] {
  const texts = sources()
  const reaches = (file: string, seen: Set<string>): boolean => {
    const text = texts.get(file)
    if (text === undefined || seen.has(file)) return false
    seen.add(file)
    const imported = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => join(file, '..', path))
    return namesIn(text).length > 0 || imported.some((each) => reaches(each, seen))
  }
  return [...texts.keys()].filter((file) => file.endsWith('.test.ts') && reaches(file, new Set()))
}

/** The sources of the tests, by their absolute paths. */
function sources(): ReadonlyMap<string, string> {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.ts'),
  )
  return new Map(files.map((file) => [join(folder, file), readFileSync(join(folder, file), 'utf8')] as const))
}

/** The numbers that titles in a source begin with; a list of numbers alone is no title. */
function namesIn(text: string): readonly string[] {
  return text.match(/(?<=['"`])(?:C\d{3},? )+(?!C\d{3}|['"`])/g) ?? []
}

/** What is wrong with the coverage: rows without a test, pending rows with one, and numbers that are no row. */
export function gaps(tested: ReadonlySet<string>) {
  const known = new Set(rows.map(({ id }) => id))
  const bound = new Set(binding.map(({ id }) => id))
  return {
    deviatingUntested: [...deviations.keys()].filter((id) => !tested.has(id)),
    untested: [...bound].filter((id) => !tested.has(id) && !pending.has(id)),
    pendingButTested: [...pending.keys()].filter((id) => tested.has(id)),
    unknown: [...tested, ...pending.keys()].filter((id) => !known.has(id)),
    pendingForNobody: [...pending.keys()].filter((id) => known.has(id) && !bound.has(id)),
  }
}

function read<Value>(name: string): Value {
  return JSON.parse(readFileSync(join(folder, 'standard', name), 'utf8'))
}
