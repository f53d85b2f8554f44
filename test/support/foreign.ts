/**
 * Programs of others that tests start and no code imports: the conformance suites, the Inspector, and servers that bring
 * many packages. They have a lock file of their own, `test/foreign`, so that whoever only builds or runs Gatehouse does not
 * install them.
 *
 * vitest installs them once into `out/foreign`, before the first tests that may start one, and again when that lock file
 * changes. Without a network the tests that need one fail; all others run.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const source = join(import.meta.dirname, '../foreign')
const out = join(import.meta.dirname, '../../out/foreign')

const INSTALL_TIMEOUT_MS = 600_000

/** Where a file of one of these packages is. */
export function foreignFile(path: string): string {
  return join(out, 'node_modules', path)
}

/** Installs the packages where they are not there in these versions; vitest calls it once. */
export function setup(): void {
  const lock = readFileSync(join(source, 'package-lock.json'), 'utf8')
  // Copied last, so that a copy says that all of it is there.
  const copy = join(out, 'installed.json')
  if (existsSync(copy) && readFileSync(copy, 'utf8') === lock) return
  mkdirSync(out, { recursive: true })
  rmSync(copy, { force: true })
  for (const file of ['package.json', 'package-lock.json']) copyFileSync(join(source, file), join(out, file))
  const args = ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  const done = spawnSync('npm', args, { cwd: out, encoding: 'utf8', timeout: INSTALL_TIMEOUT_MS })
  if (done.status === 0) copyFileSync(join(source, 'package-lock.json'), copy)
  else
    process.stderr.write(`Tests that start programs of others will fail: npm ci in ${out}:\n${done.stderr}\n`)
}
