/**
 * Throw-away copies of what the command of a server works on: the folders among its arguments, and the files and folders
 * that its variables name. Invariant: the originals are only read.
 */
import {
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  type Stats,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path'
import { isObject } from '../../core/json/json.ts'
import type { ToolSettings, UpstreamSettings } from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'

/** A server that works on copies. */
export interface Copies {
  /** The settings, with the copies in the place of the originals, also in the examples of tools. */
  readonly server: UpstreamSettings
  /** The absolute paths of the folders in which the copies are. */
  readonly folders: readonly string[]
  /** Deletes the copies. */
  remove(): void
}

/** How much is copied for one server at most: entries of folders, and bytes. */
const MAX_ENTRIES = 20_000
const MAX_SIZE = 100_000_000

/** Programs whose first argument is the program of the server. */
const interpreters = /^(?:node|bun|deno|python[\d.]*)(?:\.exe)?$/

/** Copies what a server works on; relative paths are relative to `cwd`. @throws Error if there is too much of it */
export function copiesOf(server: UpstreamSettings, cwd: string): Copies {
  const { reach, tools } = server
  if (reach.kind === 'url') return { server, folders: [], remove: () => undefined }
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-copy-')))
  const remove = (): void => rmSync(root, { recursive: true, force: true, maxRetries: 5 })
  const copier = new Copier(root, reach.cwd ?? cwd)
  try {
    const first = interpreters.test(basename(reach.command)) ? 1 : 0
    const args = reach.args.map((word, at) => (at < first ? word : copier.argument(word)))
    const env = Object.fromEntries(
      Object.entries(reach.env).map(([name, value]) => [name, copier.variable(value)]),
    )
    const copied = { ...server, reach: { ...reach, args, env }, tools: copier.examples(tools) }
    return { server: copied, folders: copier.folders, remove }
  } catch (error) {
    remove()
    throw error
  }
}

class Copier {
  readonly #root: string
  readonly #cwd: string
  /** The copies, by the paths of the originals. */
  readonly #copies = new Map<string, string>()
  readonly #folders: string[] = []

  constructor(root: string, cwd: string) {
    this.#root = root
    this.#cwd = cwd
  }

  get folders(): readonly string[] {
    return this.#folders
  }

  /** An argument, with the copy of the folder that it names, as in `/srv/docs` or `--root=./docs`. */
  argument(word: string): string {
    const [, option = '', path = ''] = /^(--?[\w-]+=)?(.*)$/s.exec(word) ?? []
    if (!isAbsolute(path) && !/^\.{1,2}(?:[\\/]|$)/.test(path)) return word
    const original = resolve(this.#cwd, path)
    return found(original)?.isDirectory() === true ? `${option}${this.#copyOf(original)}` : word
  }

  /** A variable, with the copy of the file or folder that it names; the file may not exist yet. */
  variable(value: Secret): Secret {
    const path = value.reveal()
    if (!isAbsolute(path)) return value
    const at = found(path)
    const isProgram = at?.isFile() === true && (at.mode & 0o111) !== 0
    const isPossible = at ? at.isFile() || at.isDirectory() : found(dirname(path))?.isDirectory() === true
    return isPossible && !isProgram ? new Secret(this.#copyOf(resolve(path))) : value
  }

  /** The settings of tools, whose examples name the copies. */
  examples(tools: UpstreamSettings['tools']): UpstreamSettings['tools'] {
    const moved = Object.entries(tools).map(([glob, own]): [string, ToolSettings] => {
      const examples = own.examples?.map((each) => {
        const input = this.#moved(each.input)
        return { ...each, ...(isObject(input) && { input }) }
      })
      return [glob, { ...own, ...(examples && { examples }) }]
    })
    return Object.fromEntries(moved)
  }

  #moved(value: unknown): unknown {
    if (typeof value === 'string') return this.#movedPath(value)
    if (Array.isArray(value)) return value.map((each) => this.#moved(each))
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, this.#moved(member)]))
  }

  #movedPath(text: string): string {
    for (const [original, copy] of this.#copies)
      if (text === original || text.startsWith(`${original}${sep}`)) return copy + text.slice(original.length)
    return text
  }

  #copyOf(original: string): string {
    const known = this.#copies.get(original)
    if (known !== undefined) return known
    const folder = join(this.#root, String(this.#copies.size + 1))
    const copy = join(folder, basename(original))
    mkdirSync(folder)
    if (found(original)) {
      mustBeSmall(original)
      cpSync(original, copy, { recursive: true, verbatimSymlinks: true })
    }
    this.#copies.set(original, copy)
    this.#folders.push(folder)
    return copy
  }
}

function found(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** @throws Error if a file or folder is too large to be copied */
function mustBeSmall(path: string): void {
  let [entries, size] = [0, 0]
  const waiting = [path]
  // Folders are added to the end of the list while it is read.
  for (const next of waiting) {
    const at = lstatSync(next)
    entries += 1
    size += at.size
    if (entries > MAX_ENTRIES || size > MAX_SIZE)
      throw new Error(
        `${path} is not copied, because it has over ${MAX_ENTRIES} files or ${MAX_SIZE / 1_000_000} MB: give the server a smaller folder, or name a sandbox with --sandbox FOLDER`,
      )
    if (at.isDirectory()) waiting.push(...readdirSync(next).map((name) => join(next, name)))
  }
}
