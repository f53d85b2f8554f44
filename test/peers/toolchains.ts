/**
 * Peers in other languages: the official SDKs of Python (1.x and 2.x), Go and Rust, and fastmcp (3.x and 4.x); and the
 * frameworks LangChain.js and AI SDK.
 *
 * Each is built once into `out/peers`, from the versions named beside it, and again when one of the files changes that it
 * is built from. Test files run side by side: one of them builds, and the others wait. A language that the machine does not
 * have, or whose packages cannot be fetched, yields a reason instead of a peer, and its tests are skipped with that reason.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { isRunning } from '../support/process-tree.ts'

/** One peer: the command of its server, and the command of its client. */
export interface Peer {
  readonly server: readonly string[]
  readonly client: readonly string[]
  /** The command of a client that calls slow tools; only Python has one. */
  readonly slow?: readonly string[]
}

interface Missing {
  readonly missing: string
}

/** A peer that was built, or why it could not be. */
export type Built = { readonly peer: Peer } | Missing

const run = promisify(execFile)
const here = fileURLToPath(new URL('.', import.meta.url))
const out = fileURLToPath(new URL('../../out/peers/', import.meta.url))

const BUILD_TIMEOUT_MS = 900_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

/** Builds every peer this machine has a language for. */
export async function buildPeers(): Promise<Readonly<Record<string, Built>>> {
  mkdirSync(out, { recursive: true })
  const [pythons, go, rust] = await Promise.all([
    buildPythonPeers(),
    needs('go', ['version'], async () => ({ peer: await buildGo() })),
    needs('cargo', ['--version'], async () => ({ peer: await buildRust() })),
  ])
  return { ...pythons, go, rust }
}

/** Builds the peers on Python alone. */
export async function buildPythonPeers(): Promise<Readonly<Record<string, Built>>> {
  mkdirSync(out, { recursive: true })
  const [older, newer] = await Promise.all([python('old'), python('new')])
  return { ...older, ...newer }
}

/** A server on Python with events of its own: its command, or why it could not be built. */
export async function buildEventsServer(): Promise<{ readonly server: readonly string[] } | Missing> {
  mkdirSync(out, { recursive: true })
  return needs('python3', ['-c', 'import ensurepip, venv'], async () => {
    const interpreter = await pythonWith('events')
    return { server: [interpreter, join(here, 'python', 'events_server.py')] }
  })
}

/** A program that calls tools through agent frameworks: its command, or why it could not be built. */
export async function buildAdapters(): Promise<{ readonly client: readonly string[] } | Missing> {
  const folder = join(out, 'node')
  mkdirSync(folder, { recursive: true })
  for (const file of ['package.json', 'package-lock.json', 'adapters.mjs'])
    copyFileSync(join(here, 'node', file), join(folder, file))
  return needs('npm', ['--version'], async () => {
    await once('node', ['node/package.json', 'node/package-lock.json'], () =>
      command('npm', ['ci', '--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund'], {
        cwd: folder,
      }),
    )
    return { client: [process.execPath, join(folder, 'adapters.mjs')] }
  })
}

/** Two peers of one generation of the Python packages. */
async function python(generation: 'old' | 'new'): Promise<Record<string, Built>> {
  const build = async (script: string, interpreter: string): Promise<Peer> => ({
    server: [interpreter, join(here, 'python', `${script}_server.py`)],
    client: [interpreter, join(here, 'python', `${script}_client.py`)],
    slow: [interpreter, join(here, 'python', `${script}_slow.py`)],
  })
  const installed = await needs('python3', ['-c', 'import ensurepip, venv'], async () => {
    const interpreter = await pythonWith(generation)
    return { mcp: await build('mcp', interpreter), fastmcp: await build('fastmcp', interpreter) }
  })
  const isMissing = 'missing' in installed
  return {
    [`mcp ${generation}`]: isMissing ? installed : { peer: installed.mcp },
    [`fastmcp ${generation}`]: isMissing ? installed : { peer: installed.fastmcp },
  }
}

/** The interpreter of an environment with the packages that a file of requirements names. */
async function pythonWith(requirements: string): Promise<string> {
  const venv = join(out, `python-${requirements}`)
  const interpreter = join(venv, 'bin', 'python')
  const file = `python/requirements-${requirements}.txt`
  await once(`python-${requirements}`, [file], async () => {
    await command('python3', ['-m', 'venv', '--clear', venv])
    const options = ['--quiet', '--disable-pip-version-check', '--no-compile']
    await command(interpreter, ['-m', 'pip', 'install', ...options, '--requirement', join(here, file)])
  })
  return interpreter
}

async function buildGo(): Promise<Peer> {
  const program = join(out, 'go-peer')
  await once('go', ['go/go.mod', 'go/go.sum', 'go/main.go'], () =>
    command('go', ['build', '-o', program, '.'], { cwd: join(here, 'go') }),
  )
  return { server: [program, 'serve'], client: [program, 'call'] }
}

async function buildRust(): Promise<Peer> {
  const target = join(out, 'rust')
  await once('rust', ['rust/Cargo.toml', 'rust/Cargo.lock', 'rust/src/main.rs'], () =>
    command('cargo', ['build', '--quiet', '--locked'], {
      cwd: join(here, 'rust'),
      env: { ...process.env, CARGO_TARGET_DIR: target, CARGO_INCREMENTAL: '0' },
    }),
  )
  const program = join(target, 'debug', 'peer')
  return { server: [program, 'serve'], client: [program, 'call'] }
}

/** Builds unless what is there was built from the same files. One process at a time builds something. */
async function once(name: string, files: readonly string[], build: () => Promise<void>): Promise<void> {
  const hash = createHash('sha256')
  for (const file of files) hash.update(readFileSync(join(here, file)))
  const [digest, stamp, lock] = [hash.digest('hex'), join(out, `${name}.built`), join(out, `${name}.lock`)]
  await until(() => hasLocked(lock), `${name} to be built`, BUILD_TIMEOUT_MS)
  try {
    if (existsSync(stamp) && readFileSync(stamp, 'utf8') === digest) return
    rmSync(stamp, { force: true })
    await build()
    writeFileSync(stamp, digest)
  } finally {
    rmSync(lock)
  }
}

/** Whether this process has the lock now. That of a process that has ended is removed. */
function hasLocked(lock: string): boolean {
  try {
    writeFileSync(lock, `${process.pid}`, { flag: 'wx' })
    return true
  } catch {
    const holder = Number(readFileSync(lock, 'utf8'))
    if (holder > 0 && !isRunning(holder)) rmSync(lock, { force: true })
    return false
  }
}

/** The messages of tools whose registry cannot be reached. */
const unreachable =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENETUNREACH|no such host|dial tcp|NewConnectionError|Could not resolve host|failed to resolve|network is unreachable/i

/**
 * Builds with a tool. If the tool is missing, or its packages because there is no network, returns the reason; any other
 * failed build is an error.
 */
async function needs<Made>(
  tool: string,
  args: readonly string[],
  build: () => Promise<Made>,
): Promise<Made | Missing> {
  try {
    await command(tool, args)
  } catch {
    return { missing: `${tool} is not on this machine` }
  }
  try {
    return await build()
  } catch (error) {
    if (unreachable.test(String(error))) return { missing: `${tool} cannot reach its registry` }
    throw error
  }
}

async function command(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  await run(program, [...args], { ...options, timeout: BUILD_TIMEOUT_MS, maxBuffer: MAX_OUTPUT_BYTES })
}
