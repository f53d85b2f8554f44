/** Folders whose content is trusted, because no other user of the machine can have put it there. */
import { type Stats, lstatSync, mkdirSync, realpathSync } from 'node:fs'
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
