/** Reads a file of bounded size, or says why it cannot be read. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'

/**
 * Reads small files that a configuration or a command line names. Only regular files are read, and only so much of
 * them: a pipe or a device may never end, or never begin.
 */

/** How large a file may be that holds a secret, variables, or the configuration of a client, in bytes. */
const MAX_BYTES = 1_048_576

/** The text of a regular file of up to 1 MB. @throws Error with the reason, or that of the system */
export function readText(path: string): string {
  // A pipe without a writer would block `open` itself.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    if (!fstatSync(file).isFile()) throw new Error('it is not a regular file')
    const buffer = Buffer.alloc(MAX_BYTES + 1)
    let length = 0
    for (let read = 1; read > 0 && length < buffer.length; length += read)
      read = readSync(file, buffer, length, buffer.length - length, null)
    if (length > MAX_BYTES) throw new Error('it is larger than 1 MB')
    return buffer.toString('utf8', 0, length)
  } finally {
    closeSync(file)
  }
}

/** Why a file could not be read, for people. */
export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'it does not exist'
  if (code === 'EACCES') return 'permission is denied'
  if (code === 'EISDIR') return 'it is a directory'
  if (typeof code === 'string') return code
  return error instanceof Error ? error.message : 'it is not readable'
}
