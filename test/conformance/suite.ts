import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { foreignFile } from '../support/foreign.ts'
import { readScenarios, requirementsOf, type Revision, type Scenario } from './results.ts'

/**
 * Which scenarios to run: a frozen requirement set, a suite at one revision, one scenario, or all scenarios of the
 * edition of the suite that is published as the latest, which supports only the older revisions.
 */
export type Selection =
  | { readonly requirements: Revision }
  | { readonly suite: string; readonly specVersion: string }
  | { readonly scenario: string; readonly specVersion: string }
  | { readonly edition: '0.1' }

/** What one run of the official suite found. */
export interface SuiteRun {
  readonly scenarios: readonly Scenario[]
  /** The verdict of the suite itself: 0 is good. */
  readonly exitCode: number
  readonly output: string
}

/** Options of a run; `timeout` is per scenario, in milliseconds. */
interface RunOptions {
  readonly timeout?: number
  readonly env?: NodeJS.ProcessEnv
  /** Runs scenarios of extensions too, which belong to no revision. */
  readonly isForced?: boolean
}

/** Runs the official server scenarios against the endpoint at `url`, which must be on loopback. */
export function runServerSuite(
  url: string,
  selection: Selection,
  options: RunOptions = {},
): Promise<SuiteRun> {
  return runSuite('server', ['--url', url], selection, options)
}

/** Runs official client scenarios: `command` is started with the URL of the suite's server as last argument. */
export function runClientScenario(
  command: readonly string[],
  selection: Selection,
  options: RunOptions = {},
): Promise<SuiteRun> {
  // The suite splits the command at spaces and hands the pieces to a shell.
  const quoted = command.map((part) => `'${part.replaceAll("'", String.raw`'\''`)}'`).join(' ')
  return runSuite('client', ['--command', quoted], selection, options)
}

/** The client scenarios a revision runs that need no authorization server. */
export async function openClientScenarios(revision: Revision): Promise<string[]> {
  const { scored, notScored } = await requirementsOf(revision, 'client')
  return [...scored, ...notScored].filter((name) => !name.startsWith('auth/'))
}

/** Starts a client with a gateway that is the OAuth client of the suite's server. */
export const authCommand: readonly string[] = [
  process.execPath,
  fileURLToPath(new URL('../fixtures/conformance-client.ts', import.meta.url)),
]

/**
 * The client scenarios with an authorization server that a revision runs, with those of extensions. The two of 2025-03-26
 * are in no requirement set.
 */
export async function authScenarios(revision: Revision | '2025-03-26'): Promise<string[]> {
  if (revision === '2025-03-26')
    return ['auth/2025-03-26-oauth-metadata-backcompat', 'auth/2025-03-26-oauth-endpoint-fallback']
  const { scored, notScored } = await requirementsOf(revision, 'client')
  return [...scored, ...notScored].filter((name) => name.startsWith('auth/'))
}

const suite = foreignFile('@modelcontextprotocol/conformance/dist/index.js')
const latestEdition = foreignFile('conformance-0.1/dist/index.js')

async function runSuite(
  leg: 'server' | 'client',
  target: readonly string[],
  selection: Selection,
  { timeout, env = {}, isForced = false }: RunOptions,
): Promise<SuiteRun> {
  const folder = await mkdtemp(join(tmpdir(), 'conformance-'))
  const program = 'edition' in selection ? latestEdition : suite
  const args = [program, leg, ...target, ...selectionArgs(selection), '-o', folder]
  if (timeout !== undefined) args.push('--timeout', String(timeout))
  if (isForced) args.push('--force')
  try {
    const { exitCode, output } = await run(args, env)
    const required =
      'requirements' in selection ? await requirementsOf(selection.requirements, leg) : undefined
    const scenarios = await readScenarios(folder, leg, required?.scored)
    if (scenarios.length === 0) throw new Error(`The suite ran nothing:\n${output}`)
    return { scenarios, exitCode, output }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function selectionArgs(selection: Selection): string[] {
  if ('edition' in selection) return []
  if ('requirements' in selection) return ['--requirements', selection.requirements]
  const version = ['--spec-version', selection.specVersion]
  if ('suite' in selection) return ['--suite', selection.suite, ...version]
  return ['--scenario', selection.scenario, ...version]
}

async function run(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ exitCode: number; output: string }> {
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NO_COLOR: '1', ...env },
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (output += chunk))
  const exitCode = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve(code ?? -1))
  })
  return { exitCode, output }
}
