/**
 * The files of commands. What they write only its owner can read: configurations, reports and recordings hold credentials,
 * arguments and results.
 */
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  createWriteStream,
  existsSync,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { plantedProblem } from '../store/private-folder.ts'
import { inputPath, type Io, pathOf } from './io.ts'

/** Writes a file that only its owner can read, even if it existed before. */
export function privateFile(file: string): Writable {
  return createWriteStream(file, { fd: opened(file, 'a') })
}

/** The same with all of its text; `isNew` refuses to replace a file. @throws the system error */
export function writePrivate(file: string, text: string, { isNew = false } = {}): void {
  const fd = opened(file, isNew ? 'ax' : 'a')
  try {
    writeFileSync(fd, text)
  } finally {
    closeSync(fd)
  }
}

/**
 * Replaces the text of a file that others write too; an empty text removes it. It keeps its permissions, and can be a link.
 * @throws Error if it is not as it was read: empty if there was none
 */
export function replaceText(file: string, before: string, after: string): void {
  const now = existsSync(file) ? readFileSync(file, 'utf8') : ''
  if (now !== before)
    throw new Error(`${file} changed in the meantime, and was not written: repeat the command`)
  if (after === '') return rmSync(file, { force: true })
  const target = existsSync(file) ? realpathSync(file) : file
  const mode = existsSync(file) ? statSync(target).mode & 0o777 : 0o600
  // Renamed into place: a process that is killed here leaves the old text or the new one.
  const fresh = `${target}.${process.pid}.gatehouse`
  try {
    writeFileSync(fresh, after, { mode, flag: 'wx' })
    chmodSync(fresh, mode)
    renameSync(fresh, target)
  } catch (error) {
    rmSync(fresh, { force: true })
    throw error
  }
}

/** Why this user cannot replace a file; undefined if that can be done. */
export function whyNotReplaceable(file: string): string | undefined {
  const target = existsSync(file) ? realpathSync(file) : file
  let folder = dirname(target)
  while (!existsSync(folder)) folder = dirname(folder)
  try {
    accessSync(folder, constants.W_OK)
    if (existsSync(target)) accessSync(target, constants.W_OK)
    return undefined
  } catch {
    return `${file} cannot be written by this user`
  }
}

/** @throws Error if another user can have put the file or folder there, such as a link that leads to any one of this user */
export function mustBeOwn(path: string): void {
  const problem = plantedProblem(path)
  if (problem !== undefined) throw new Error(`${path} ${problem}: give another one`)
}

function opened(file: string, flags: 'a' | 'ax'): number {
  mustBeOwn(file)
  const fd = openSync(file, flags, 0o600)
  try {
    // Restrict the permissions before anything is written; only a regular file is truncated.
    const found = fstatSync(fd)
    if (found.isFile()) {
      if (process.getuid !== undefined && found.uid !== process.getuid())
        throw new Error(`${file} belongs to another user, who could read what is written: give another file`)
      fchmodSync(fd, 0o600)
      ftruncateSync(fd)
    }
    return fd
  } catch (error) {
    closeSync(fd)
    throw error
  }
}

/** The text of a file that a command is given. @throws Error that names it */
export function readInput(file: string, io: Io): string {
  const path = inputPath(file, io)
  try {
    return readFileSync(path, 'utf8')
  } catch (cause) {
    throw new Error(`${file} cannot be read`, { cause })
  }
}

/** Writes a report to the file of an option. @throws Error if it cannot be written */
export function writeReport(file: string, text: string, io: Io): void {
  try {
    writePrivate(pathOf(file, io), text)
  } catch (cause) {
    throw new Error(`${file} cannot be written: its folder does not exist, or is not writable`, { cause })
  }
}

/** @throws Error if a file exists that a command would write, unless it may replace it */
export function mustBeFree(file: string, mayReplace: boolean, io: Io): void {
  if (existsSync(pathOf(file, io)) && !mayReplace)
    throw new Error(`${file} exists. Give another file, or --force to replace it`)
}
