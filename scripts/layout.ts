/**
 * Checks that `src` is not cut into pieces: a file of fewer than 60 lines that one other file imports belongs to that file,
 * unless it is in the list below; and that its files do not import each other in a circle, types included. Prints what else
 * grows unnoticed: names exported by several files, interfaces called `…Options`, short files, and how many folders import
 * which. `npm run check` runs it.
 */
import { globSync, readFileSync } from 'node:fs'
import { posix } from 'node:path'

/** A file with fewer lines needs two importers. */
const MIN_LINES_FOR_ONE_IMPORTER = 60
/** A file of at most so many lines counts as short. */
const SHORT_FILE_LINES = 40

/** How many layers of folders there may be, and how many pairs of folders of which one imports the other. */
const MAX_LAYERS = 7
const MAX_FOLDER_PAIRS = 59

/** The files that are small and have one importer, with the reason. */
const alone: Record<string, string> = {
  'src/features/gateway-proof.ts': 'a feature of the list features/index.ts',
  'src/features/structured-text.ts': 'a feature of the list features/index.ts',
  'src/features/notify/notify.ts': 'a feature of the list features/index.ts',
  'src/config/load-channels.ts': 'loads what other commands need not load (config/load-sections.ts)',
  'src/gateway/channel-test.ts': 'what a command has of a feature: commands import no features',
  'src/catalog/own-names.ts': 'the table that a new tool adds a line to',
  'src/gateway/console/console.ts': 'the table that a new page of the console adds a line to',
  'src/core/collect.ts': 'the only file that may use node:v8 and node:vm (scripts/walls.ts)',
  'src/store/portable.ts': 'loads no store that commands cannot read',
  'src/durable/when-changed.ts': 'a part of durable/, which knows nothing of operations',
}

const texts = new Map(globSync('src/**/*.ts').map((file) => [file, readFileSync(file, 'utf8')] as const))
const importers = importersOf()
const names = exportedNames()
const lonely = [...texts.keys()].filter((file) => isLonely(file) && !Object.hasOwn(alone, file))

for (const file of lonely) {
  console.error(`${file}: ${linesOf(file)} lines, and only ${[...importersOfFile(file)].join()} imports it.`)
}
if (lonely.length > 0) {
  console.error(
    'Move what they hold into the file that imports it, or list them with a reason in scripts/layout.ts.',
  )
  process.exitCode = 1
}

const circular = layersOf(importers).rest
if (circular.length > 0) {
  console.error(`These files import each other in a circle, types included: ${circular.join(' ')}`)
  process.exitCode = 1
}
const folders = foldersOf(importers)
const layers = layersOf(folders)
const pairs = [...folders.values()].reduce((sum, { size }) => sum + size, 0)
if (layers.rest.length > 0 || layers.count > MAX_LAYERS || pairs > MAX_FOLDER_PAIRS) {
  const circle = layers.rest.length > 0 ? `, and a circle of ${layers.rest.join(' ')}` : ''
  console.error(
    `The folders have ${layers.count} layers of at most ${MAX_LAYERS}, and ${pairs} pairs of at most ${MAX_FOLDER_PAIRS}${circle}.`,
  )
  process.exitCode = 1
}

const repeated = [...names].filter(([, files]) => files.length > 1)
const optionBags = [...texts.values()].flatMap((text) => text.match(/interface \w*Options\b/g) ?? [])
const short = [...texts.keys()].filter((file) => linesOf(file) <= SHORT_FILE_LINES)
console.log(
  `src: ${texts.size} files; ${repeated.length} names exported by several files, ${optionBags.length} interfaces ` +
    `called Options, ${short.length} files of at most ${SHORT_FILE_LINES} lines; ${layers.count} layers of folders, ` +
    `${pairs} pairs of which one imports the other.`,
)
if (process.argv.includes('--list')) {
  for (const [name, files] of repeated) console.log(`${name}: ${files.join(' ')}`)
  for (const option of optionBags) console.log(option)
  for (const [folder, by] of folders) console.log(`${folder} is imported by ${[...by].join(' ')}`)
  for (const file of short) console.log(`${file}: ${linesOf(file)} lines`)
}

function isLonely(file: string): boolean {
  return linesOf(file) < MIN_LINES_FOR_ONE_IMPORTER && importersOfFile(file).size === 1
}

function linesOf(file: string): number {
  return (texts.get(file) ?? '').split('\n').length - 1
}

function importersOfFile(file: string): ReadonlySet<string> {
  return importers.get(file) ?? new Set()
}

/** The files that import each file. What is loaded on demand is a file of its own for that reason, and is left out. */
function importersOf(): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  for (const [file, text] of texts) {
    for (const [, specifier = ''] of text.matchAll(/^(?:import|export|\}) .*from '(\..+)'$/gm)) {
      const imported = posix.join(posix.dirname(file), specifier)
      found.set(imported, (found.get(imported) ?? new Set()).add(file))
    }
  }
  return found
}

/** The folders of `src` that import each of them. */
function foldersOf(files: ReadonlyMap<string, ReadonlySet<string>>): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>()
  const folderOf = (file: string): string | undefined => /^src\/([^/]+)\//.exec(file)?.[1]
  for (const [file, by] of files) {
    const folder = folderOf(file)
    for (const other of [...by].map(folderOf)) {
      if (folder === undefined || other === undefined || other === folder) continue
      found.set(folder, (found.get(folder) ?? new Set()).add(other))
    }
  }
  return found
}

/** How many layers there are, from those that nothing imports downwards; and the rest, which is in a circle or below one. */
function layersOf(graph: ReadonlyMap<string, ReadonlySet<string>>): {
  readonly count: number
  readonly rest: readonly string[]
} {
  const rest = new Map(graph)
  let count = 1
  for (;;) {
    const free = [...rest].filter(([, by]) => [...by].every((each) => !rest.has(each)))
    if (free.length === 0) return { count, rest: [...rest.keys()] }
    for (const [each] of free) rest.delete(each)
    count++
  }
}

/** The files that declare each exported name. */
function exportedNames(): Map<string, string[]> {
  const found = new Map<string, string[]>()
  const declaration = /^export (?:abstract |async )?(?:interface|class|function\*?|type|const|let) (\w+)/gm
  for (const [file, text] of texts) {
    for (const name of new Set([...text.matchAll(declaration)].map(([, name = '']) => name))) {
      found.set(name, [...(found.get(name) ?? []), file])
    }
  }
  return found
}
