// Packages of the registries, each in a folder of its own of a cache that later runs use again.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, globSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

const cache = process.env['GATEHOUSE_BENCH_CACHE'] ?? join(homedir(), '.cache', 'gatehouse-bench')

/** A package of a registry, with its exact version. */
export interface Package {
  readonly name: string
  readonly version: string
}

/** Where an installed package is. */
export function folderOf({ name, version }: Package): string {
  return join(cache, `${name}-${version}`)
}

/** Installs a package of npm with its dependencies. */
export function installNpm(one: Package): Promise<void> {
  return install(one, (folder) =>
    run(['npm', 'install', '--no-audit', '--no-fund', '--prefix', folder, `${one.name}@${one.version}`]),
  )
}

/** Builds a program of crates.io with the versions of its lock file. */
export function installCrate(one: Package, folderName = one.name): Promise<void> {
  const jobs = process.env['CARGO_BUILD_JOBS'] ?? '2'
  return install({ ...one, name: folderName }, (folder) =>
    run(['cargo', 'install', one.name, '--version', one.version, '--locked', '--root', folder, '-j', jobs]),
  )
}

/** Installs a package of PyPI into an environment of its own, for a Python of at least this version 3. */
export function installPython(one: Package, minor: number): Promise<void> {
  return install(
    one,
    async (folder) => {
      await run([await findPython(minor), '-m', 'venv', folder])
      await run([join(folder, 'bin', 'pip'), 'install', '--quiet', `${one.name}==${one.version}`])
    },
    // The programs of an environment name its folder, so it cannot be moved there when it is complete.
    'in place',
  )
}

/** The path of a program on PATH, or where packages of the system put servers. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map((folder) => join(folder, name)).find((file) => existsSync(file))
}

async function install(
  one: Package,
  into: (folder: string) => Promise<void>,
  how: 'moved' | 'in place' = 'moved',
): Promise<void> {
  const folder = folderOf(one)
  const mark = join(folder, '.complete')
  if (existsSync(mark)) return
  process.stderr.write(`installing ${one.name} ${one.version} into ${folder}\n`)
  rmSync(folder, { recursive: true, force: true })
  const place = how === 'moved' ? `${folder}.part` : folder
  rmSync(place, { recursive: true, force: true })
  mkdirSync(place, { recursive: true })
  await into(place)
  mkdirSync(join(place, '.complete'))
  if (place !== folder) renameSync(place, folder)
}

async function findPython(minor: number): Promise<string> {
  const installed = globSync(join(homedir(), '.pyenv/versions/3.*/bin/python3'))
  const versioned = Array.from({ length: 4 }, (_none, more) => `python3.${minor + more}`)
  for (const python of [...versioned, 'python3', ...installed]) {
    const check = `import sys; sys.exit(sys.version_info[:2] < (3, ${minor}))`
    const found = await run([python, '-c', check]).then(
      () => true,
      () => false,
    )
    if (found) return python
  }
  throw new Error(`Python 3.${minor} or later is not installed`)
}

async function run([file = '', ...args]: readonly string[]): Promise<void> {
  const child = spawn(file, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let output = ''
  child.stderr.on('data', (chunk: Buffer) => (output = (output + chunk.toString()).slice(-2000)))
  const [code] = (await once(child, 'close').catch((error: Error) => {
    throw new Error(error.message.includes('ENOENT') ? `${file} is not installed` : error.message)
  })) as [number | null]
  if (code !== 0)
    throw new Error(`${file} ${args[0] ?? ''} failed: ${output.trim().split('\n').at(-1) ?? ''}`)
}
