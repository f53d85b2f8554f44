/**
 * Changes single members of the file of a client, JSON with comments, TOML or YAML: everything else in it stays as it is, with
 * its comments, order and line ends. What is written is read again, so that nothing is written that means something else.
 */
import { applyEdits, type FormattingOptions, modify } from 'jsonc-parser'
import { isDeepStrictEqual } from 'node:util'
import { stringify as tomlText } from 'smol-toml'
import { parseDocument } from 'yaml'
import { isObject } from '../../core/json/json.ts'
import { follow } from '../../core/json/path.ts'
import { parseClientFile, type Syntax, syntaxOf, unreadable } from './parse.ts'

/** A member by its path, and its value; it is removed if there is none. */
export interface Change {
  readonly path: readonly string[]
  readonly value?: unknown
}

/**
 * The text with these changes; an empty text is a file that does not exist yet.
 * @throws ConfigError if the file cannot be read, or not be changed without changing more of it
 */
export function withChanges(text: string, file: string, changes: readonly Change[]): string {
  const bare = text.replace(/^\uFEFF/, '')
  const isNew = bare.trim() === ''
  const edit = editors[isNew ? newSyntax(file) : syntaxOf(bare, file)]
  let value = isNew ? {} : parseClientFile(bare, file)
  let made = bare
  try {
    for (const change of changes.map((each) => withParents(each, value))) {
      made = edit(made, change)
      value = replaced(value, change.path, change.value)
    }
    if (isDeepStrictEqual(made.trim() === '' ? {} : parseClientFile(made, file), value))
      return text.startsWith('\uFEFF') ? `\uFEFF${made}` : made
  } catch {
    // What an editor writes may not be valid, as with a member of what is no mapping.
  }
  throw unreadable(file, 'cannot be changed without changing more of it: change it by hand')
}

/** A change of a member whose parent is empty, such as `servers: null`, sets that parent. */
function withParents({ path, value }: Change, whole: unknown): Change {
  const missing = path.findIndex((_key, index) => (follow(whole, path.slice(0, index)) ?? null) === null)
  if (missing < 1 || value === undefined) return { path, value }
  return { path: path.slice(0, missing), value: nested(path.slice(missing), value) }
}

function nested(path: readonly string[], value: unknown): unknown {
  return path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value)
}

function newSyntax(file: string): Syntax {
  if (/\.toml$/i.test(file)) return 'toml'
  return /\.ya?ml$/i.test(file) ? 'yaml' : 'json'
}

const editors: Readonly<Record<Syntax, (text: string, change: Change) => string>> = {
  json: (text, { path, value }) => {
    const whole = text.trim() === '' ? '{}\n' : text
    return applyEdits(whole, modify(whole, [...path], value, { formattingOptions: formatOf(whole) }))
  },
  yaml: (text, { path, value }) => {
    const document = parseDocument(text)
    if (value === undefined) document.deleteIn(path)
    else document.setIn(path, document.createNode(value))
    return document.toString({ lineWidth: 0, flowCollectionPadding: /\{ /.test(text) })
  },
  toml: (text, { path, value }) => {
    const rest = withoutTables(text, path)
    if (value === undefined) return rest
    const start = rest.trim() === '' ? '' : `${rest.trimEnd()}\n\n`
    const made = `${tomlText(nested(path, value)).trim()}\n`
    return text.includes('\r\n') ? `${start}${made}`.replaceAll(/\r?\n/g, '\r\n') : `${start}${made}`
  },
}

/** The indentation and line ends of a JSON text. */
function formatOf(text: string): FormattingOptions {
  const indent = /\n([ \t]+)\S/.exec(text)?.[1] ?? '  '
  return {
    insertSpaces: !indent.startsWith('\t'),
    tabSize: indent.startsWith('\t') ? 1 : indent.length,
    eol: text.includes('\r\n') ? '\r\n' : '\n',
  }
}

/** The text without the table at a path and those below it, or without its line if that is where it is. */
function withoutTables(text: string, path: readonly string[]): string {
  let table: readonly string[] = []
  const kept: string[] = []
  // Comments behind the last line of a table are about the next one.
  let comments: string[] = []
  for (const line of text.split(/(?<=\n)/)) {
    const header = /^\s*\[\[?\s*(.+?)\s*\]?\]\s*(?:#.*)?$/.exec(line.trimEnd())?.[1]
    if (header !== undefined) table = keysOf(header)
    const key = header === undefined ? (/^\s*([^=#]+?)\s*=/.exec(line)?.[1] ?? '') : ''
    const isRemoved = startsWith([...table, ...keysOf(key)], path)
    const isComment = /^\s*#/.test(line)
    if (isRemoved) comments = isComment ? [...comments, line] : []
    else kept.push(...comments.splice(0), line)
  }
  return [...kept, ...comments].join('')
}

/** The keys of a dotted key of TOML, whose parts can be in quotes. */
function keysOf(dotted: string): readonly string[] {
  return [...dotted.matchAll(/"((?:[^"\\]|\\.)*)"|'([^']*)'|([\w-]+)/g)].map(([, basic, literal, plain]) =>
    basic === undefined ? (literal ?? plain ?? '') : basic.replaceAll(/\\(.)/g, '$1'),
  )
}

function startsWith(keys: readonly string[], path: readonly string[]): boolean {
  return path.every((key, index) => keys[index] === key)
}

/** A value with a member replaced, or removed if there is no new one. */
function replaced(value: unknown, [key = '', ...rest]: readonly string[], next: unknown): Values {
  const own = isObject(value) ? value : {}
  if (rest.length === 0 && next === undefined)
    return Object.fromEntries(Object.entries(own).filter(([each]) => each !== key))
  return { ...own, [key]: rest.length === 0 ? next : replaced(own[key], rest, next) }
}

type Values = Readonly<Record<string, unknown>>
