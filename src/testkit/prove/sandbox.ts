/**
 * The part of a server's world that a proof may touch: folders, values of named arguments, or a server that is only
 * there for tests. Invariant: a call passes `problem` only if every argument that looks like a place is inside.
 */
import { existsSync, readlinkSync, realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../core/json/json.ts'
import { wordsOf } from '../../core/text/words.ts'
import { isPlacing } from '../../core/undo/selectors.ts'

/** Where calls may have effects. */
export interface Sandbox {
  /** Everything that the server keeps is in it, except files and URLs. */
  readonly isServer: boolean
  /** Absolute paths. */
  readonly folders: readonly string[]
  /** Values of arguments: exactly this one, or, with `*` at the end, all that begin like it. */
  readonly named: ReadonlyMap<string, string>
}

/** Reads the values of `--sandbox`; folders may be relative to `place`. @throws Error that says what is wrong, and how it is written */
export function readSandbox(texts: readonly string[], place: string): Sandbox {
  const folders: string[] = []
  const named = new Map<string, string>()
  for (const text of texts) {
    const [, name, value] = /^([\p{L}_][\p{L}\p{N}_.-]*)=(.+)$/u.exec(text) ?? []
    if (name !== undefined && value !== undefined)
      named.set(name, isFolder(value) ? folderOf(value, place) : value)
    else if (isFolder(text)) folders.push(folderOf(text, place))
    else if (text !== 'server')
      throw new Error(
        `--sandbox ${JSON.stringify(text)}: give a folder such as /tmp/scratch, an argument and its value such as repo=scratch or key=test:*, or "server" if the whole server is there for tests`,
      )
  }
  return { isServer: texts.includes('server'), folders, named }
}

/** Whether a text is written as a folder. */
function isFolder(text: string): boolean {
  return isAbsolute(text) || /^\.{1,2}(?:[\\/]|$)/.test(text)
}

function folderOf(text: string, place: string): string {
  const folder = resolve(place, text)
  if ([folder, realPath(folder)].some((each) => each === parse(each).root || each === homedir()))
    throw new Error(`--sandbox ${text}: this folder holds more than a sandbox; give a folder made for tests`)
  return folder
}

/** An argument that looks like a place, and its value. */
interface Place {
  readonly name: string
  readonly text: string
}

/** Why a call may have effects outside; undefined if it may not. `mustBind` refuses calls that name no place in it. */
export function outsideOf(
  sandbox: Sandbox,
  args: Readonly<Record<string, unknown>>,
  { mustBind }: { readonly mustBind: boolean },
): string | undefined {
  const leaves = [...leavesOf(args, '')]
  for (const leaf of leaves) {
    const problem = problemOf(sandbox, leaf, leaves)
    if (problem !== undefined) return problem
  }
  if (!mustBind || sandbox.isServer || leaves.some((leaf) => isBound(sandbox, leaf))) return undefined
  return 'none of its arguments is in the sandbox, so its effect may be anywhere: name one with --sandbox NAME=VALUE, or give --sandbox server if the whole server is there for tests'
}

/** Whether an argument has to be in the sandbox, by its name. */
function isPlaceName(name: string): boolean {
  const words = wordsOf(name)
  return words.some((word) => pathWords.has(word.replace(/s$/, ''))) || isPlacing({ words })
}

/** Whether an argument is a path or a URL, by its name. */
export function isPathName(name: string): boolean {
  return wordsOf(name).some((word) => pathWords.has(word.replace(/s$/, '')))
}

const pathWords = new Set(
  'path filepath file filename folder dir directory uri url source destination dest cwd root location'.split(
    ' ',
  ),
)

function problemOf(
  { isServer, folders, named }: Sandbox,
  { name, text }: Place,
  all: readonly Place[],
): string | undefined {
  const own = named.get(name)
  const what = `the argument ${JSON.stringify(name)}`
  if (own !== undefined) return fits(text, own) ? undefined : `${what} is not ${own}, which --sandbox says`
  const isPath = isPathName(name)
  if (looksLikePlace(text) || (isPath && folders.length > 0)) {
    if (folders.some((folder) => isInside(folder, text))) return undefined
    return `${what} is a place outside of the sandbox: add its folder with --sandbox FOLDER, or --sandbox ${name}=VALUE`
  }
  // A relative path belongs to the place that another argument names, or to the server.
  const isHeld = isServer || all.some((each) => named.has(each.name))
  if (isPath && isHeld) return undefined
  if ((isPath || isPlaceName(name)) && !isServer)
    return `${what} looks like a place: say which is in the sandbox with --sandbox ${name}=VALUE`
  return undefined
}

function isBound({ folders, named }: Sandbox, { name, text }: Place): boolean {
  return named.has(name) || (looksLikePlace(text) && folders.some((folder) => isInside(folder, text)))
}

/** Whether a value is a place wherever it stands: an absolute path, one that leads upwards, or a URL. */
function looksLikePlace(text: string): boolean {
  return (
    /^(?:[\\/~]|[A-Za-z]:[\\/]|[a-z][a-z0-9+.-]*:\/\/)|(?:^|[\\/])\.\.(?:[\\/]|$)/i.test(text) &&
    !/\n/.test(text)
  )
}

function fits(text: string, own: string): boolean {
  if (isFolder(own)) return isInside(own, text)
  if (own.endsWith('*')) return text.startsWith(own.slice(0, -1))
  return text === own
}

/** Whether a path is in a folder, also if it leads there or away by links. */
function isInside(folder: string, text: string): boolean {
  const path = pathOf(text)
  if (path === undefined || !isAbsolute(path)) return false
  return isBelow(folder, resolve(path)) && isBelow(realPath(folder), realPath(resolve(path)))
}

function pathOf(text: string): string | undefined {
  if (!/^file:/i.test(text)) return text
  try {
    return fileURLToPath(text)
  } catch {
    return undefined
  }
}

/** Whether a path is a folder or in it. Neither is looked up. */
export function isBelow(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}

/** The most links that are followed one after the other. */
const MAX_LINKS = 40

/** The path with its links resolved, also those that lead to nothing: writing to one creates its target. */
export function realPath(path: string, links = MAX_LINKS): string {
  if (existsSync(path)) return realpathSync(path)
  const above = dirname(path)
  if (above === path || links === 0) return path
  const inAbove = join(realPath(above, links), basename(path))
  const target = linkTarget(inAbove)
  return target === undefined ? inAbove : realPath(target, links - 1)
}

function linkTarget(path: string): string | undefined {
  try {
    return resolve(dirname(path), readlinkSync(path))
  } catch {
    return undefined
  }
}

function* leavesOf(value: unknown, name: string): Generator<Place> {
  if (typeof value === 'string') yield { name, text: value }
  else if (Array.isArray(value)) for (const each of value) yield* leavesOf(each, name)
  else if (isObject(value)) {
    for (const [key, member] of Object.entries(value)) {
      if (looksLikePlace(key)) yield { name, text: key }
      yield* leavesOf(member, key)
    }
  }
}
