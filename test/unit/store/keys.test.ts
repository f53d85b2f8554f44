import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { keyPrefixes } from '../../../src/store/store.ts'
import { inRepository } from '../../support/document.ts'

const declared = Object.keys(keyPrefixes)

/** Calls of a store, and what makes them. */
const USE =
  /\.(?:setIfAbsent|compareAndSwap|compareAndDelete|scan|takeTokens)\(|[sS]tore\b[^\n]*\.(?:get|put)\(|RecordKind|[a-z]+Prefix: |casUpdate\(/
/** A text that is a prefix, or begins with one before a part that is inserted. */
const BEGINNING = /[`'](?<prefix>[a-z]+(?:-[a-z]+)*(?::[a-z]+)?[:/])\{?(?=\$\{|['`])/g
const COMMENT = /^ *(?:\/?\*|\/\/).*$/gm
/** Collections of the store by their names. */
const COLLECTION = /= '(?<name>[a-z]+(?:-[a-z]+)*)'\n/g

/** Texts in the same files that look like prefixes: of URLs, people, methods, placeholders, leases, and pseudo-scopes. */
const others = new Set(['https:', 'user:', 'events/', 'notifications/', 'spooled:', 'undo:', 'temp:'])

/** The tables of all prefixes. */
const tables = new Set(['src/store/store.ts', 'src/records/persons.ts'])

interface Found {
  readonly file: string
  readonly prefix: string
  /** Whether the file uses a store. */
  readonly isUser: boolean
}

/** What looks like the beginning of a key, in all files. */
function beginnings(): readonly Found[] {
  const files = globSync('src/**/*.ts', { cwd: inRepository('.') }).filter((file) => !tables.has(file))
  return files.flatMap((file) => {
    const text = readFileSync(inRepository(file), 'utf8').replace(COMMENT, '')
    const isUser = USE.test(text)
    const written = [...text.matchAll(BEGINNING)].flatMap(({ groups }) => groups?.['prefix'] ?? [])
    const named = [...text.matchAll(COLLECTION)].flatMap(({ groups }) => `${groups?.['name']}/`)
    const found = [...written, ...named.filter((name) => declared.includes(name))]
    return [...new Set(found)].map((prefix) => ({ file, prefix, isUser }))
  })
}

describe('the keys of a store', () => {
  it('begin with a prefix that is declared', () => {
    const unknown = beginnings().filter(
      ({ prefix, isUser }) => isUser && !declared.includes(prefix) && !others.has(prefix),
    )
    expect(unknown).toEqual([])
  })

  it('are of one file each, and every declared prefix is used', () => {
    const files = new Map<string, string[]>()
    const all = beginnings()
    for (const { file, prefix, isUser } of all)
      if (isUser) files.set(prefix, [...(files.get(prefix) ?? []), file])
    const shared = [...files].filter(([prefix, each]) => declared.includes(prefix) && each.length > 1)
    expect(shared).toEqual([])
    expect(declared.filter((prefix) => !all.some((found) => found.prefix === prefix))).toEqual([])
  })
})
