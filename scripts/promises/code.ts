/** A fingerprint of code that ignores comments and layout. */
import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../../src')

/** The SHA-256 of the files and folders of `src`, in hex, shortened to 16 digits. @throws if one does not exist */
export function codeHash(paths: readonly string[]): string {
  const files = paths.flatMap((path) =>
    statSync(join(root, path)).isDirectory() ? globSync(`${path}/**/*.ts`, { cwd: root }) : [path],
  )
  const hash = createHash('sha256')
  for (const file of files.toSorted()) {
    hash.update(`${file.replaceAll('\\', '/')}\n${bareCode(readFileSync(join(root, file), 'utf8'))}\n`)
  }
  return hash.digest('hex').slice(0, 16)
}

/** Code without comments and layout. */
export function bareCode(text: string): string {
  return text
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/^\s*\/\/.*$/gm, '')
    .replaceAll(/\s+/g, '')
}
