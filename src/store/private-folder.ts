/**
 * Files and folders whose content is trusted, because no other user of the machine can have put it there. The
 * administrator is trusted, as on any machine.
 */
import { type Stats, lstatSync, mkdirSync, realpathSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** Why the content of a folder cannot be trusted; undefined if it can, or if the folder does not exist. */
export function folderProblem(folder: string): string | undefined {
  const found = lstatSync(folder, { throwIfNoEntry: false })
  if (!found) return undefined
  if (!found.isDirectory()) return 'is not a folder'
  if (!isOf(found, ownUser())) return 'belongs to another user'
  return isWritableByOthers(found) ? 'can be written by other users' : undefined
}

/**
 * Creates a folder that only this user can read, and returns its path without links; undefined if it cannot be created,
 * or if others can change what is in it or replace it by another one.
 */
export function createPrivateFolder(folder: string): string | undefined {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const real = realpathSync(folder)
    const isSafe = folderProblem(folder) === undefined && [folder, real].flatMap(above).every(isKept)
    return isSafe ? real : undefined
  } catch {
    return undefined
  }
}

/**
 * Why a file that is looked for without being named is not trusted: another user made it, or the link to it. Undefined
 * if it is trusted, or there is none. `owner` is another user who is trusted.
 */
export function strangerProblem(path: string, owner?: number): string | undefined {
  const found = [lstatSync, statSync].map((stat) => attempt(() => stat(path, { throwIfNoEntry: false })))
  const isTrusted = (stats: Stats | undefined): boolean =>
    stats === undefined || [ownUser(), ADMINISTRATOR, owner].some((user) => isOf(stats, user))
  return found.every(isTrusted) ? undefined : 'belongs to another user'
}

/**
 * Why a file or folder is not trusted though it was named: another user made it in a folder that everybody can write to,
 * so it may be there before what was meant. Undefined if it is trusted, or there is none.
 */
export function plantedProblem(path: string): string | undefined {
  const folder = attempt(() => statSync(dirname(path), { throwIfNoEntry: false }))
  const isOpen = folder !== undefined && (folder.mode & WRITABLE_BY_ALL) !== 0
  if (!isOpen || strangerProblem(path) === undefined) return undefined
  return 'belongs to another user, in a folder that everybody can write to'
}

/** The same for a folder, and for those that it is in. */
export function plantedFolderProblem(folder: string): string | undefined {
  const planted = [folder, ...above(folder)].find((each) => plantedProblem(each) !== undefined)
  if (planted === undefined) return undefined
  const problem = plantedProblem(planted)
  return planted === folder ? problem : `is in ${planted}, which ${problem}`
}

/** What cannot be looked at cannot be read either, and that is reported. */
function attempt<Value>(look: () => Value): Value | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}

/** The folders that a path is in, from the nearest one to the root. */
function above(path: string): readonly string[] {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...above(parent)]
}

/** Whether only this user and the administrator can replace what is in a folder, or a link on the way to it. */
function isKept(folder: string): boolean {
  const found = lstatSync(folder)
  const isTrusted = isOf(found, ownUser()) || isOf(found, ADMINISTRATOR)
  // In a folder with the sticky bit, such as /tmp, only the owner of an entry can replace it.
  const isRestricted = (found.mode & 0o1000) !== 0
  return isTrusted && (found.isSymbolicLink() || isRestricted || !isWritableByOthers(found))
}

const ADMINISTRATOR = 0
const WRITABLE_BY_ALL = 0o002

/** On Windows, where files have no user ids, folders of a user are protected by their access control lists. */
function ownUser(): number | undefined {
  return process.getuid?.()
}

function isOf({ uid }: Stats, user: number | undefined): boolean {
  return ownUser() === undefined || uid === user
}

function isWritableByOthers({ mode }: Stats): boolean {
  return ownUser() !== undefined && (mode & 0o022) !== 0
}
