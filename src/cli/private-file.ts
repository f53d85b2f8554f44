/** Files that only their owner can read. */
import { closeSync, createWriteStream, fchmodSync, fstatSync, ftruncateSync, openSync } from 'node:fs'
import type { Writable } from 'node:stream'

/** Writes a file that only its owner can read, even if it existed before. */
export function privateFile(file: string): Writable {
  const fd = openSync(file, 'a', 0o600)
  try {
    // Restrict the permissions before anything is written; only a regular file is truncated.
    const found = fstatSync(fd)
    if (found.isFile()) {
      if (process.getuid !== undefined && found.uid !== process.getuid())
        throw new Error(`${file} belongs to another user, who could read what is written: give another file`)
      fchmodSync(fd, 0o600)
      ftruncateSync(fd)
    }
  } catch (error) {
    closeSync(fd)
    throw error
  }
  return createWriteStream(file, { fd })
}
