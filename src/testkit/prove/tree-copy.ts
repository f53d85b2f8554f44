/**
 * Copies a file, or a folder with all that is in it. Invariant: nothing that is written to the copy reaches the original:
 * a link within the folder leads to the same place of the copy, and the target of a link out of it is copied or refused.
 */
import { copyFile, lstat, mkdir, readdir, stat, symlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { isBelow, realPath } from './sandbox.ts'

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
export async function copyTree(original: string, copy: string): Promise<void> {
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
