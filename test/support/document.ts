import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isObject } from './server/json.ts'

/** A public document of the repository, by its path from the root. */
export interface Document {
  readonly file: string
  readonly text: string
  /** The fenced blocks of a language. */
  blocks(language: string): string[]
  /** The rows of the table with this first column, each as its cells. */
  table(firstColumn: string): string[][]
  /** The targets of links that are no URLs. */
  links(): string[]
}

/** Where a file of the repository is. */
export function inRepository(path: string): string {
  return fileURLToPath(new URL(`../../${path}`, import.meta.url))
}

/** Reads a document. */
export function readDocument(path: string): Document {
  const file = inRepository(path)
  const text = readFileSync(file, 'utf8')
  return {
    file,
    text,
    blocks: (language) => {
      const fences = text.matchAll(/^```(\w+)\n(.*?)^```$/gms)
      return [...fences].flatMap(([, of, body]) => (of === language && body !== undefined ? [body] : []))
    },
    table: (firstColumn) => {
      const lines = text.split('\n')
      const head = lines.findIndex((line) => line.startsWith(`| ${firstColumn} |`))
      if (head === -1) throw new Error(`${path} has no table with the column ${firstColumn}`)
      const rest = lines.slice(head + 2)
      const end = rest.findIndex((line) => !line.startsWith('|'))
      return rest.slice(0, end === -1 ? rest.length : end).map(cells)
    },
    links: () => {
      const targets = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
      return targets.filter((target) => !/^[a-z]+:/.test(target))
    },
  }
}

/** The keys of a schema of the configuration: `a.b`, and `<name>` where any name can stand. */
export function schemaKeys(schema: unknown, path: readonly string[] = []): Map<string, unknown> {
  const keys = new Map<string, unknown>()
  if (!isObject(schema)) return keys
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : []
  const named = path.length === 1 && isObject(schema.additionalProperties)
  const children = named ? [['<name>', schema.additionalProperties] as const] : properties
  if (path.length > 0 && (children.length === 0 || path.at(-1) === '<name>'))
    keys.set(path.join('.'), schema.default)
  for (const [key, child] of children) {
    for (const [name, value] of schemaKeys(child, [...path, key])) keys.set(name, value)
  }
  return keys
}

function cells(row: string): string[] {
  return row
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim())
}
