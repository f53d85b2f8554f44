import { spawnSync } from 'node:child_process'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')

/** Builds `dist` when a source file is newer than it; vitest calls it once before the tests that start it. */
export function setup(): void {
  const built = changed(join(root, 'dist/main.js'))
  const sources = readdirSync(join(root, 'src'), { recursive: true, withFileTypes: true })
  const newest = Math.max(...sources.map((entry) => changed(join(entry.parentPath, entry.name))))
  if (built > newest) return
  const { status, stdout } = spawnSync('npm', ['run', '--silent', 'build'], { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`The build failed:\n${stdout}`)
}

function changed(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
