// What is measured as the gateway: the working copy, and commits that are built for the time of the benchmark.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, realpathSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runCommand } from './launch.ts'

/** A built gateway. */
export interface Build {
  /** How the commit was named on the command line; absent of the working copy. */
  readonly name?: string
  /** The hash of its commit; it ends with `+` if the working copy has changes. */
  readonly commit: string
  /** The program that runs it. */
  readonly main: string
  /** The features that its configuration can name. */
  readonly features: readonly string[]
}

const root = fileURLToPath(new URL('../..', import.meta.url))

/** The working copy. @throws if it is not built */
export async function workingCopy(): Promise<Build> {
  if (!existsSync(mainOf(root))) throw new Error('dist/main.js is missing: run npm run build')
  const changes = await git('status', '--porcelain', '--untracked-files=no')
  const commit = `${await git('rev-parse', 'HEAD')}${changes === '' ? '' : '+'}`
  return buildAt(root, commit)
}

/** Worktrees of commits, in one folder. */
export class Checkouts {
  readonly #folder: string
  readonly #paths: string[] = []

  constructor(folder: string) {
    this.#folder = folder
  }

  /** Checks a commit out and builds it. @throws if there is no such commit, or it cannot be built */
  async build(name: string): Promise<Build> {
    const commit = await git('rev-parse', '--verify', '--quiet', `${name}^{commit}`).catch(() => '')
    if (commit === '') throw new Error(`--compare ${name}: there is no such commit`)
    const path = join(this.#folder, `commit-${this.#paths.length}`)
    this.#paths.push(path)
    await git('worktree', 'add', '--detach', '--force', path, commit)
    process.stderr.write(`building ${name}\n`)
    await installDependencies(path)
    await runCommand(['npm', 'run', '--silent', 'build'], path)
    return { ...buildAt(path, commit), name }
  }

  /** Removes all worktrees, at once: also those that are half made. */
  remove(): void {
    for (const path of this.#paths.splice(0)) {
      const args = ['worktree', 'remove', '--force', '--force', path]
      const { status, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
      if (status !== 0) process.stderr.write(`${path} may be left: ${stderr}`)
    }
  }
}

/** The installed packages are those of the working copy, if they are the same. */
async function installDependencies(path: string): Promise<void> {
  const lock = (folder: string) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
  if (lock(path) !== lock(root)) await runCommand(['npm', 'ci', '--no-audit', '--no-fund'], path)
  else symlinkSync(realpathSync(join(root, 'node_modules')), join(path, 'node_modules'))
}

function buildAt(folder: string, commit: string): Build {
  const schema = JSON.parse(readFileSync(join(folder, 'gateway.schema.json'), 'utf8')) as ConfigSchema
  const features = Object.keys(schema.properties?.features?.properties ?? {})
  return { commit, main: mainOf(folder), features }
}

/** The part of the schema of a configuration that lists the features. */
interface ConfigSchema {
  readonly properties?: { readonly features?: { readonly properties?: object } }
}

function mainOf(folder: string): string {
  return join(folder, 'dist/main.js')
}

async function git(...args: string[]): Promise<string> {
  return (await runCommand(['git', ...args], root)).trim()
}
