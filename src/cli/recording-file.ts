/** Reads the file of a recording. */
import { readFileSync, statSync } from 'node:fs'
import { type Cassette, parseCassette } from '../testkit/cassette.ts'
import { inputPath, type Io } from './io.ts'

/** The largest file that is read, in bytes. */
const MAX_FILE = 256 * 1024 * 1024

/** Reads a recording. @throws Error that names the file, and the line where there is one */
export function readRecording(file: string, io: Io): Cassette {
  const path = inputPath(file, io)
  let size: number
  try {
    const found = statSync(path)
    if (!found.isFile()) throw new Error(`${file} is not a file`)
    size = found.size
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    throw isMissing
      ? new Error(`${file} does not exist. Record one with gatehouse record SERVER -o ${file}`)
      : error
  }
  if (size > MAX_FILE) throw new Error(`${file} has ${size} bytes; at most ${MAX_FILE} are read`)
  return parseCassette(readFileSync(path, 'utf8'), file)
}
