/**
 * Opens the database of a folder after checking that it is intact and the expected one; explains why a folder cannot be
 * used, and how to fix it.
 */
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import {
  BLOBS,
  checkFile,
  checkHeldFile,
  FOREIGN,
  looksWhole,
  LostStore,
  UnusableFile,
  DATA,
  FULL,
  GENERATION_FILE,
  hasData,
  LOCK,
  hasSpace,
  makeFolder,
  reserveSpace,
} from './files.ts'
import { plantedProblem } from '../private-folder.ts'
import { ACCEPT_HINT } from '../sentinel.ts'

/** The maximum size of a store, in bytes. */
export const MAX_STORE_BYTES = 1024 * 1024 * 1024
/** Distinguishes a store from the databases of other programs. No stored value can have this key. */
export const FORMAT_MARK = { key: 'gatehouse', format: 1 }

/** How often a file is checked again that another process may be creating, and the delay, in milliseconds. */
const MAX_CHECKS = 10
const RECHECK_DELAY_MS = 100

/** The database of a folder. */
export type Base = RootDatabase<string, string>

/**
 * Opens the database of a folder. A missing database is created, unless it `isAwaited`: then critical data has to be
 * there. @throws if it cannot be used
 */
export async function openDatabase(directory: string, isAwaited: boolean): Promise<Base> {
  // Loaded lazily: gateways without a folder do not need the library.
  const { open } = await import('lmdb')
  const problem = plantedProblem(directory)
  if (problem !== undefined) throw new PlantedStore(`it ${problem}`)
  if (isAwaited && !existsSync(directory)) throw new LostStore('it is gone')
  makeFolder(directory)
  // Also in a folder that was made meanwhile.
  for (const name of [DATA, LOCK, GENERATION_FILE, BLOBS]) {
    const planted = plantedProblem(join(directory, name))
    if (planted !== undefined) throw new PlantedStore(`its ${name} ${planted}`)
  }
  const state = await detectState(directory)
  if (state === 'new' && isAwaited) throw new LostStore('its data is gone')
  if (state === 'new') reserveSpace(directory)
  const options = {
    path: directory,
    noSubdir: false,
    mapSize: 2 * MAX_STORE_BYTES,
    encoding: 'string' as const,
    useVersions: true,
    // A write is acknowledged once it is on disk, and the file is consistent at any time.
    overlappingSync: false,
    permissionsMode: 0o600,
  }
  const database = open<string, string>(options)
  try {
    // Within a transaction no other process can write.
    if (state === 'busy') database.transactionSync(() => checkHeldFile(join(directory, DATA)))
    const [first] = database.getKeys({ limit: 1 })
    if (first !== undefined) checkMark(database.get(FORMAT_MARK.key))
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** The state of a folder, once no other process is creating a store there. @throws UnusableFile */
async function detectState(directory: string): Promise<'new' | 'whole' | 'busy'> {
  for (let attempt = 1; ; attempt++) {
    try {
      return hasData(directory) ? await checkFile(join(directory, DATA)) : 'new'
    } catch (error) {
      const maxAttempts = error instanceof LostStore ? MAX_CHECKS : 2
      if (attempt >= maxAttempts || !(error instanceof UnusableFile)) throw error
      await new Promise((resolve) => setTimeout(resolve, RECHECK_DELAY_MS))
    }
  }
}

/** Whether a quick check finds nothing that would prevent opening the database of a folder. */
export function looksUsable(directory: string, isAwaited: boolean): boolean {
  try {
    if (plantedProblem(directory) !== undefined) return false
    if (!existsSync(directory)) return !isAwaited && hasSpace(directory)
    accessSync(directory, constants.W_OK | constants.X_OK)
    return hasData(directory) ? looksWhole(join(directory, DATA)) : !isAwaited && hasSpace(directory)
  } catch {
    return false
  }
}

/** @throws UnusableFile if it is not the mark of a store */
function checkMark(mark: string | undefined): void {
  const format = /^[0-9a-z]+ format (\d+)$/.exec(mark ?? '')?.[1]
  if (format === undefined) throw new UnusableFile(FOREIGN)
  if (Number(format) === FORMAT_MARK.format) return
  throw new UnusableFile(
    `it was written by a newer version of Gatehouse (format ${format}), so use that version`,
  )
}

/** Another user may have made the store, and what is in it. */
class PlantedStore extends UnusableFile {}

/** Why a folder cannot be used, and how to fix it. */
export function reasonOf(error: unknown, directory: string): string {
  const at = `the store in ${directory} cannot be used: `
  const elsewhere = 'or name another folder under `store`'
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined
  const text = error instanceof Error ? error.message : String(error)
  if (code === 'EEXIST' || code === 'ENOTDIR')
    return `${at}a file of that name exists. Remove it, ${elsewhere}`
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS' || code === '13' || code === '30')
    return `${at}it is not writable (${text}). Give this user write access, ${elsewhere}`
  if (error instanceof PlantedStore)
    return `${at}${text}, who may read and change what is in it. Name a folder under \`store\` that only this user can write to`
  if (error instanceof LostStore) return `${at}${text}. Restore it, or ${ACCEPT_HINT}`
  if (code !== undefined && FULL.has(code)) return `${at}the disk is full. Free some space, ${elsewhere}`
  if (text.includes('full')) return `${at}${text}. Free some space, ${elsewhere}`
  const isBroken = text.includes('damaged') || text.includes('missing')
  const fix = isBroken
    ? 'Restore it from a backup, or move it away and run `gatehouse store accept` to continue without it'
    : 'Move it away'
  return `${at}${text}. ${fix}, ${elsewhere}`
}
