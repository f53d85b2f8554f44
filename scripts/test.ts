/**
 * The tests: checks, builds, and runs vitest once. `npm test` is what a change must pass; `npm test -- --all` adds the
 * tests that crash processes, lose stores, restart and wait, and the peers in other languages. Other arguments are
 * those of vitest, such as a part of a file's path, or `-t` and a part of a title.
 */
import { spawnSync } from 'node:child_process'

const usual = ['unit', 'integration', 'conformance']
const others = ['long', 'peers']

const args = process.argv.slice(2)
const names = args.includes('--all') ? [...usual, ...others] : usual
const projects = names.flatMap((name) => ['--project', name])
const ownArgs = args.filter((arg) => arg !== '--all')

const commands = [
  ['npm', 'run', '--silent', 'check'],
  ['npm', 'run', '--silent', 'build'],
  ['vitest', 'run', ...projects, ...ownArgs],
]
for (const [program = '', ...words] of commands) {
  const { status, error } = spawnSync(program, words, { stdio: 'inherit' })
  if (error) throw error
  if (status === 0) continue
  process.exitCode = status ?? 1
  break
}
