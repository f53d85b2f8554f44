/**
 * Throw-away copies of what the command of a server works on: the files and folders that its arguments and variables name.
 * Invariant: the originals are only read. The copies are deleted at the latest when the process ends.
 */
import { mkdtempSync, realpathSync, rmSync, statSync, type Stats } from 'node:fs'
import { mkdir, rm, copyFile, lstat, readdir, stat, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, isAbsolute, join, parse, resolve, sep, relative } from 'node:path'
import { isObject } from '../../core/json/json.ts'
import type { CommandReach, ToolSettings, UpstreamSettings } from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'
import { realPath, isBelow } from './sandbox.ts'

/** A server that works on copies. */
interface Copies {
  /** The settings, with the copies in the place of the originals, also in the examples of tools. */
  readonly server: UpstreamSettings
  /** The absolute paths of the copied folders, then of the folders with the copied files. */
  readonly folders: readonly string[]
  /** Deletes the copies. */
  remove(): Promise<void>
}

/** Where a server is started: the folder of relative paths, and the variables of the process. */
interface Place {
  readonly cwd: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The folders of all copies. */
const existing = new Set<string>()
process.on('exit', () => {
  for (const root of existing) rmSync(root, removal)
})

const removal = { recursive: true, force: true, maxRetries: 5 } as const

/** Copies what a server works on. @throws Error if there is too much of it, or a link leads to another folder */
export async function copiesOf(server: UpstreamSettings, place: Place): Promise<Copies> {
  const { reach, tools } = server
  if (reach.kind === 'url') return { server, folders: [], remove: async () => undefined }
  // At once, so that no folder is made that nothing deletes.
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-copy-')))
  existing.add(root)
  const remove = async (): Promise<void> => {
    await rm(root, removal)
    existing.delete(root)
  }
  const copier = new Copier(root, reach, place)
  try {
    const copied = { ...server, reach: await copier.reach(), tools: copier.examples(tools) }
    return { server: copied, folders: copier.folders, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

class Copier {
  readonly #root: string
  readonly #reach: CommandReach
  readonly #cwd: string
  /** The folders of programs that are found by their name. */
  readonly #searched: ReadonlySet<string>
  /** The words of the command that are programs, and their real paths. */
  readonly #programs: ReadonlySet<number>
  readonly #programFiles: ReadonlySet<string>
  /** The copies, by the paths of the originals, as they are written and without links. */
  readonly #copies = new Map<string, string>()
  readonly #folders: string[] = []
  readonly #foldersOfFiles: string[] = []

  constructor(root: string, reach: CommandReach, { cwd, env }: Place) {
    this.#root = root
    this.#reach = reach
    this.#cwd = reach.cwd ?? cwd
    this.#searched = new Set((env.PATH ?? env.Path ?? '').split(delimiter).filter(isAbsolute).map(realPath))
    const words = [reach.command, ...reach.args]
    this.#programs = programsIn(words)
    const programs = words.filter((word, at) => (at === 0 || this.#programs.has(at)) && /[\\/]/.test(word))
    this.#programFiles = new Set(programs.map((word) => realPath(this.#path(word))))
  }

  /** Generated paths are in the first one. */
  get folders(): readonly string[] {
    return [...this.#folders, ...this.#foldersOfFiles]
  }

  /** The command, with copies in the place of what its arguments and variables name. */
  async reach(): Promise<CommandReach> {
    const args: string[] = []
    for (const [index, word] of this.#reach.args.entries()) {
      const [, option = '', text = ''] = /^(--?[\w-]+=)?(.*)$/s.exec(word) ?? []
      args.push(this.#programs.has(index + 1) ? word : `${option}${await this.#moved(text)}`)
    }
    const env: Record<string, Secret> = {}
    for (const [name, value] of Object.entries(this.#reach.env)) {
      const text = value.reveal()
      const moved = await this.#moved(text)
      env[name] = moved === text ? value : new Secret(moved)
    }
    return { ...this.#reach, args, env }
  }

  /** The settings of tools, whose examples name the copies. */
  examples(tools: UpstreamSettings['tools']): UpstreamSettings['tools'] {
    const moved = Object.entries(tools).map(([glob, own]): [string, ToolSettings] => {
      const examples = own.examples?.map((each) => {
        const input = this.#inCopies(each.input)
        return { ...each, ...(isObject(input) && { input }) }
      })
      return [glob, { ...own, ...(examples && { examples }) }]
    })
    return Object.fromEntries(moved)
  }

  /** The copy of what a text such as `/srv/docs` or `./new.db` names, which may not exist yet; other texts as they are. */
  async #moved(text: string): Promise<string> {
    if (!isAbsolute(text) && !/^\.{1,2}(?:[\\/]|$)/.test(text)) return text
    const path = this.#path(text)
    const at = found(path)
    const isPossible = at ? at.isFile() || at.isDirectory() : isInFolder(path)
    return isPossible && !this.#isProgram(path, at) ? this.#copyOf(path, at) : text
  }

  #path(text: string): string {
    return resolve(this.#cwd, text)
  }

  #isProgram(path: string, at: Stats | undefined): boolean {
    if (at?.isFile() !== true) return false
    const isSearched = [path, realpathSync(path)].some((each) => this.#searched.has(realPath(dirname(each))))
    return this.#programFiles.has(realpathSync(path)) || ((at.mode & 0o111) !== 0 && isSearched)
  }

  async #copyOf(original: string, at: Stats | undefined): Promise<string> {
    const real = realPath(original)
    const known = this.#copies.get(original) ?? this.#copies.get(real)
    if (known !== undefined) return known
    const folder = join(this.#root, String(this.folders.length + 1))
    const copy = join(folder, basename(original))
    await mkdir(folder)
    if (at) await copyTree(real, copy)
    this.#copies.set(original, copy).set(real, copy)
    if (at?.isDirectory() === true) this.#folders.push(copy)
    else this.#foldersOfFiles.push(folder)
    return copy
  }

  #inCopies(value: unknown): unknown {
    if (typeof value === 'string') return this.#pathInCopies(value)
    if (Array.isArray(value)) return value.map((each) => this.#inCopies(each))
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, this.#inCopies(member)]))
  }

  #pathInCopies(text: string): string {
    for (const [original, copy] of this.#copies)
      if (text === original || text.startsWith(`${original}${sep}`)) return copy + text.slice(original.length)
    return text
  }
}

function found(path: string): Stats | undefined {
  try {
    return statSync(path)
  } catch {
    return undefined
  }
}

/** Whether a file can be made at a path. What is directly below the root is rather a path of a URL, such as `/mcp`. */
function isInFolder(path: string): boolean {
  const folder = dirname(path)
  return folder !== parse(path).root && found(folder)?.isDirectory() === true
}

/** Commands that run the file or package that the next word names. */
const runners =
  /^(?:node|bunx?|deno|tsx|ts-node|npx|npm|pnpm|yarn|python[\d.]*|uvx?|ruby|perl|php|java|sh|bash)(?:\.(?:exe|cmd))?$/
/** Their words before it. */
const subcommands = /^(?:run|exec|x|dlx|tool)$/
/** Their options with a word of its own: a file that is loaded first, and the folder of a project. */
const loading = /^(?:-r|--require|--import|--loader|--env-file)$/
const placing = /^--(?:directory|project)$/

/**
 * The positions of the program in a command line, and of the files that it loads first: 1 in `node server.js docs`, 0 in
 * `/usr/bin/server docs`.
 */
export function programsIn(words: readonly string[]): ReadonlySet<number> {
  const programs = new Set<number>()
  for (const [at, word] of words.entries()) {
    const before = words[at - 1] ?? ''
    const isRunner = runners.test(basename(word))
    const isPassedOver = word.startsWith('-') || placing.test(before) || (at > 0 && subcommands.test(word))
    if (loading.test(before)) programs.add(at)
    else if (!isRunner && !isPassedOver) return programs.add(at)
  }
  return programs
}

/*
 * Copies a file, or a folder with all that is in it. Invariant: nothing that is written to the copy reaches the original:
 * a link within the folder leads to the same place of the copy, and the target of a link out of it is copied or refused.
 */

/** How much is copied at most: entries of folders, and bytes. */
const MAX_ENTRIES = 20_000
const MAX_SIZE = 100_000_000

/** What is at a path of a folder. */
interface Entry {
  /** Where it is in the folder; empty for the folder itself. */
  readonly way: string
  readonly kind: 'folder' | 'file' | 'link'
  /** The absolute path of what it is, or leads to. */
  readonly target: string
}

/**
 * Copies what is at a real path to one where nothing is. Sockets, pipes and devices are left out.
 * @throws Error if it is too large, or a link leads to a folder outside of it
 */
async function copyTree(original: string, copy: string): Promise<void> {
  const entries = await entriesOf(original)
  for (const { way, kind, target } of entries) {
    if (kind === 'folder') await mkdir(join(copy, way))
    if (kind === 'file') await copyFile(target, join(copy, way))
  }
  // Last, because some systems have to know whether the target is a folder.
  for (const { way, kind, target } of entries) {
    const path = join(copy, way)
    const inCopy = join(copy, relative(original, target))
    if (kind === 'link') await symlink(relative(dirname(path), inCopy) || '.', path)
  }
}

async function entriesOf(root: string): Promise<readonly Entry[]> {
  const entries: Entry[] = []
  const waiting = ['']
  let size = 0
  // The content of a folder is added to the end of the list while it is read.
  for (const way of waiting) {
    const path = join(root, way)
    const entry = await entryAt(root, way)
    if (!entry) continue
    entries.push(entry)
    if (entry.kind !== 'link') size += (await stat(path)).size
    if (entry.kind === 'folder') for (const name of await readdir(path)) waiting.push(join(way, name))
    if (waiting.length > MAX_ENTRIES || size > MAX_SIZE)
      throw new Error(
        `${root} is not copied, because it has over ${MAX_ENTRIES} files or ${MAX_SIZE / 1_000_000} MB: give the server a smaller folder, or name a sandbox with --sandbox FOLDER`,
      )
  }
  return entries
}

async function entryAt(root: string, way: string): Promise<Entry | undefined> {
  const path = join(root, way)
  const at = await lstat(path)
  if (at.isDirectory()) return { way, kind: 'folder', target: path }
  if (at.isFile()) return { way, kind: 'file', target: path }
  if (!at.isSymbolicLink()) return undefined
  const target = realPath(path)
  if (isBelow(root, target)) return { way, kind: 'link', target }
  const isFile = await stat(target).then(
    (found) => found.isFile(),
    () => false,
  )
  if (isFile) return { way, kind: 'file', target }
  throw new Error(
    `${root} is not copied, because the link ${way} in it leads to ${target}: give the server a folder without it, or name a sandbox with --sandbox FOLDER`,
  )
}
