/**
 * Files and folders whose content is trusted, because no other user of the machine can have put it there. The
 * administrator is trusted, as on any machine.
 */
import { type Stats, lstatSync, mkdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { dirname, resolve, sep } from 'node:path'

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
  // Nothing is created in a folder of another user, or where a link of one leads.
  if (!isOwnPlace(folder)) return undefined
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const isSafe = folderProblem(folder) === undefined && wayTo(folder).slice(1).every(isKept)
    return isSafe ? realpathSync(folder) : undefined
  } catch {
    return undefined
  }
}

/**
 * Whether what this user makes at a path is its own: no other user owns the folder, or the nearest one that exists, unless
 * in it only the owner of an entry can replace it. The folders above that one are not judged, as in a sandbox those of the
 * administrator can seem to be of another user.
 */
export function isOwnPlace(path: string): boolean {
  const folder = statOf(path)
  if (folder === undefined && dirname(path) !== path) return isOwnPlace(dirname(path))
  const isShared = isRestricted(folder) && isWritableByAll(folder)
  return (isShared || !isStranger(folder)) && plantedProblem(path) === undefined
}

/**
 * Why a file that is looked for without being named is not trusted: another user made it, or the link to it, or can
 * change it. Undefined if it is trusted, or there is none. `owner` is another user who is trusted.
 */
export function strangerProblem(path: string, owner?: number): string | undefined {
  const found = statOf(path)
  if ([lstatOf(path), found].some((stats) => isStranger(stats, owner))) return 'belongs to another user'
  const isChangeable = ownUser() !== undefined && found?.isFile() === true && isWritableByAll(found)
  return isChangeable && isReachedByAll(path) ? 'can be changed by every user' : undefined
}

/** Whether every user may pass the folders that a file is in. */
function isReachedByAll(path: string): boolean {
  const file = attempt(() => realpathSync(path)) ?? path
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (((statOf(folder)?.mode ?? 0) & PASSABLE_BY_ALL) === 0) return false
    if (folder === dirname(folder)) return true
  }
}

/**
 * Why a file or folder is not trusted though it was named: another user made it, a folder that it is in, or a link on the
 * way to it, in a folder that everybody can write to, so it may be there before what was meant. Undefined if it is trusted,
 * or there is none.
 */
export function plantedProblem(path: string): string | undefined {
  const way = wayTo(path)
  const planted = way.find((each) => isStranger(lstatOf(each)) && isWritableByAll(statOf(dirname(each))))
  if (planted === undefined) return undefined
  const problem = 'belongs to another user, in a folder that everybody can write to'
  if (planted === way[0]) return problem
  return `${way[0]?.startsWith(planted + sep) === true ? 'is in' : 'leads to'} ${planted}, which ${problem}`
}

/** A path, the folders that it is in, and those to which links on the way lead, with what these are in; the path first. */
function wayTo(path: string): readonly string[] {
  const way = new Set<string>()
  const follow = (each: string): void => {
    if (way.has(each)) return
    way.add(each)
    const target = attempt(() => readlinkSync(each))
    if (target !== undefined) {
      const parent = dirname(each)
      follow(resolve(attempt(() => realpathSync(parent)) ?? parent, target))
    }
    follow(dirname(each))
  }
  follow(resolve(path))
  return [...way]
}

function isStranger(stats: Stats | undefined, owner?: number): boolean {
  return stats !== undefined && ![ownUser(), ADMINISTRATOR, owner].some((user) => isOf(stats, user))
}

function statOf(path: string): Stats | undefined {
  return attempt(() => statSync(path, { throwIfNoEntry: false }))
}

function lstatOf(path: string): Stats | undefined {
  return attempt(() => lstatSync(path, { throwIfNoEntry: false }))
}

/** What cannot be looked at cannot be read either, and that is reported. */
function attempt<Value>(look: () => Value): Value | undefined {
  try {
    return look()
  } catch {
    return undefined
  }
}

/** Whether only this user and the administrator can replace what is in a folder, or a link on the way to it. */
function isKept(folder: string): boolean {
  const found = lstatSync(folder)
  return !isStranger(found) && (found.isSymbolicLink() || isRestricted(found) || !isWritableByOthers(found))
}

/** In a folder with the sticky bit, such as /tmp, only the owner of an entry can replace it. */
function isRestricted(stats: Stats | undefined): boolean {
  return stats !== undefined && (stats.mode & 0o1000) !== 0
}

const ADMINISTRATOR = 0
const WRITABLE_BY_ALL = 0o002
const PASSABLE_BY_ALL = 0o001

/** On Windows, where files have no user ids, folders of a user are protected by their access control lists. */
function ownUser(): number | undefined {
  return process.getuid?.()
}

function isOf({ uid }: Stats, user: number | undefined): boolean {
  return ownUser() === undefined || uid === user
}

function isWritableByAll(stats: Stats | undefined): boolean {
  return stats !== undefined && (stats.mode & WRITABLE_BY_ALL) !== 0
}

function isWritableByOthers({ mode }: Stats): boolean {
  return ownUser() !== undefined && (mode & 0o022) !== 0
}
