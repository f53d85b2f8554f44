import { accessSync, constants, existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { checkFile, FOREIGN, looksWhole, UnusableFile } from './lmdb-file.ts'

/** How large a store may become, in bytes. */
export const LIMIT = 1024 * 1024 * 1024
/** What tells a store from the databases of other programs. Its key is none that a value could have. */
export const MARK = { key: 'gatehouse', format: 1 }
/** The file LMDB keeps everything in. */
export const FILE = 'data.mdb'

/** Opens the database of a folder, which is made where it is missing. @throws where it can not be used */
export async function openDatabase(directory: string): Promise<RootDatabase<string, string>> {
  // Whoever keeps nothing on the disk need not wait for it to load.
  const { open } = await import('lmdb')
  makeFolder(directory)
  const file = join(directory, FILE)
  try {
    checkFile(file)
  } catch {
    // Another process may be about to make it.
    await new Promise((resolve) => setTimeout(resolve, 100))
    checkFile(file)
  }
  const options = {
    path: directory,
    noSubdir: false,
    mapSize: 2 * LIMIT,
    encoding: 'string' as const,
    useVersions: true,
    // A promise is kept once the data has reached the disk, and what is there is whole at any time.
    overlappingSync: false,
    permissionsMode: 0o600,
  }
  const database = open<string, string>(options)
  const [first] = database.getKeys({ limit: 1 })
  const found = first === undefined ? undefined : read(database.get(MARK.key))
  const problem = first === undefined ? undefined : problemOf(found?.text)
  if (problem === undefined) return database
  await database.close()
  throw new UnusableFile(problem)
}

/** Whether a glance finds nothing that would keep the database of a folder from being opened. */
export function looksUsable(directory: string): boolean {
  if (!existsSync(directory)) return true
  try {
    accessSync(directory, constants.W_OK | constants.X_OK)
    return looksWhole(join(directory, FILE))
  } catch {
    return false
  }
}

/** Makes a folder with those it is in. Node.js would do it, but never ends where the system makes none, as in /proc. */
function makeFolder(path: string): void {
  const parent = dirname(path)
  if (!existsSync(parent) && parent !== path) makeFolder(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!existsSync(path) || !statSync(path).isDirectory()) throw error
  }
}

function problemOf(mark: string | undefined): string | undefined {
  const format = /^format (\d+)$/.exec(mark ?? '')?.[1]
  if (format === undefined) return FOREIGN
  if (Number(format) === MARK.format) return undefined
  return `it was written by a newer version of Gatehouse (format ${format}), which has to be used`
}

/** A value that was found, and what it is told apart from others by. */
export interface Found {
  readonly text: string
  readonly until: number
  readonly version: number
}

/** A value as it is stored: until when it is kept, and its text. */
export function read(stored: string | undefined, own = 0): Found | undefined {
  const end = stored?.indexOf(' ') ?? -1
  if (stored === undefined || end === -1) return undefined
  return { until: Number.parseInt(stored.slice(0, end), 36), text: stored.slice(end + 1), version: own }
}

/** What no other write has, of any process. */
export function version(): number {
  return 1 + Math.floor(Math.random() * 2 ** 52)
}

/** Why a folder can not be used, and what to do. */
export function reasonOf(error: unknown, directory: string): string {
  const at = `the store in ${directory} can not be used: `
  const elsewhere = 'or name another folder under `store`'
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  const text = error instanceof Error ? error.message : String(error)
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return `${at}there is a file of that name. Remove it, ${elsewhere}`
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === '13' || code === '30')
    return `${at}it can not be written to (${text}). Let this user write to it, ${elsewhere}`
  const fix =
    text.includes('damaged') || text.includes('missing') ? 'Put a copy in its place' : 'Move it away'
  return `${at}${text}. ${fix}, ${elsewhere}`
}
