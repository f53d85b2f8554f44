/**
 * Opens the database of a folder, once it is sure that it is whole and the one that belongs there; and says why one
 * cannot be used, and what to do.
 */
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import {
  checkFile,
  checkHeldFile,
  FOREIGN,
  looksWhole,
  LostStore,
  UnusableFile,
  DATA,
  FULL,
  hasData,
  hasRoom,
  makeFolder,
  reserveRoom,
} from './files.ts'
import { ACCEPT_HINT } from '../sentinel.ts'

/** How large a store may become, in bytes. */
export const MAX_STORE_BYTES = 1024 * 1024 * 1024
/** What tells a store from the databases of other programs. Its key is none that a value could have. */
export const FORMAT_MARK = { key: 'gatehouse', format: 1 }

/** How often a file is looked at again that another process may be about to make, and how long after, in milliseconds. */
const MAX_LOOKS = 10
const LOOK_AGAIN_MS = 100

/** The database of a folder. */
export type Base = RootDatabase<string, string>

/**
 * Opens the database of a folder, which is made where it is missing, unless it `isAwaited`: something was promised that
 * has to be there. @throws where it cannot be used
 */
export async function openDatabase(directory: string, isAwaited: boolean): Promise<Base> {
  // Whoever keeps nothing on the disk need not wait for it to load.
  const { open } = await import('lmdb')
  if (isAwaited && !existsSync(directory)) throw new LostStore('it is gone')
  makeFolder(directory)
  const state = await settled(directory)
  if (state === 'new' && isAwaited) throw new LostStore('what was kept there is gone')
  if (state === 'new') reserveRoom(directory)
  const options = {
    path: directory,
    noSubdir: false,
    mapSize: 2 * MAX_STORE_BYTES,
    encoding: 'string' as const,
    useVersions: true,
    // A promise is kept once the data has reached the disk, and what is there is whole at any time.
    overlappingSync: false,
    permissionsMode: 0o600,
  }
  const database = open<string, string>(options)
  try {
    // No other process can write within a transaction.
    if (state === 'busy') database.transactionSync(() => checkHeldFile(join(directory, DATA)))
    const [first] = database.getKeys({ limit: 1 })
    if (first !== undefined) checkMark(database.get(FORMAT_MARK.key))
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** What there is in a folder, once no other process is about to make it. @throws UnusableFile */
async function settled(directory: string): Promise<'new' | 'whole' | 'busy'> {
  for (let look = 1; ; look++) {
    try {
      return hasData(directory) ? await checkFile(join(directory, DATA)) : 'new'
    } catch (error) {
      const most = error instanceof LostStore ? MAX_LOOKS : 2
      if (look >= most || !(error instanceof UnusableFile)) throw error
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
    }
  }
}

/** Whether a glance finds nothing that would keep the database of a folder from being opened. */
export function looksUsable(directory: string, isAwaited: boolean): boolean {
  try {
    if (!existsSync(directory)) return !isAwaited && hasRoom(directory)
    accessSync(directory, constants.W_OK | constants.X_OK)
    return hasData(directory) ? looksWhole(join(directory, DATA)) : !isAwaited && hasRoom(directory)
  } catch {
    return false
  }
}

/** @throws UnusableFile where it is not the mark of a store */
function checkMark(mark: string | undefined): void {
  const format = /^[0-9a-z]+ format (\d+)$/.exec(mark ?? '')?.[1]
  if (format === undefined) throw new UnusableFile(FOREIGN)
  if (Number(format) === FORMAT_MARK.format) return
  throw new UnusableFile(
    `it was written by a newer version of Gatehouse (format ${format}), which has to be used`,
  )
}

/** Why a folder cannot be used, and what to do. */
export function reasonOf(error: unknown, directory: string): string {
  const at = `the store in ${directory} cannot be used: `
  const elsewhere = 'or name another folder under `store`'
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  const text = error instanceof Error ? error.message : String(error)
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return `${at}there is a file of that name. Remove it, ${elsewhere}`
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === '13' || code === '30')
    return `${at}it cannot be written to (${text}). Let this user write to it, ${elsewhere}`
  if (error instanceof LostStore) return `${at}${text}. Put it back, or ${ACCEPT_HINT}`
  if (code !== undefined && FULL.has(code)) return `${at}the disk is full. Make room, ${elsewhere}`
  if (text.includes('full')) return `${at}${text}. Make room, ${elsewhere}`
  const isBroken = text.includes('damaged') || text.includes('missing')
  const fix = isBroken
    ? 'Put a copy in its place, or move it away and run `gatehouse store accept` to go on without it'
    : 'Move it away'
  return `${at}${text}. ${fix}, ${elsewhere}`
}
