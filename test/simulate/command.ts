/** The command line of the simulator: which simulations run, in which processes, and what is printed. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { loadSettings } from '../../src/config/load.ts'
import { ConfigError, problemLine } from '../../src/config/problem.ts'
import { self } from '../../src/core/identity.ts'
import type { Settings } from '../../src/core/settings.ts'
import { oneLine } from '../../src/core/text/escape.ts'
import {
  type CheckResult,
  type CheckStatus,
  isClean,
  junit,
  type Report,
  reportOf,
  reportText,
} from '../../src/testkit/report.ts'
import { type FaultSet, faultSets } from './faults.ts'
import { ruleNames } from './rules/rules.ts'
import { fleetConfig, simulatedConfig, simulatedSettings } from './settings.ts'
import { PRINCIPALS, simulate as runSimulation, type SimulationResult } from './simulation.ts'

const USAGE = `Usage: npm run simulate -- [--seed N] [--steps N] [--gateways N] [--fleet] [--faults SET] [--config FILE]
                           [--json] [--junit FILE]

Runs gateways, servers and clients in a simulated world, in which messages get lost, processes end and clocks jump, and
checks what the gateways promise. The same seed always gives the same history.
  --seed N        determines everything that happens (default 1)
  --steps N       how many events to run (default 10000); more than 20000 are several seeds
  --gateways N    how many gateways share the store (default 3, at most 10)
  --fleet         clients reach the gateways over HTTP, behind a balancer that is not sticky; some have sessions
  --faults SET    what fails, in place of what the seed chooses: ${Object.keys(faultSets).slice(0, 5).join(', ')},
                  ${Object.keys(faultSets).slice(5).join(', ')}
  --config FILE   use the features and limits of a configuration; its servers and its store are not used
  --json          print JSON
  --junit FILE    write a result for each rule as JUnit XML
Exit codes: 0 every rule held, 1 a rule was violated, 2 wrong usage.
`

/** The steps of one simulation; more steps are several of them, with the seeds that follow. */
const STEPS_PER_SEED = 20_000
/** The steps of one process: memory that belongs to gateways that crashed is freed when it ends. */
const STEPS_PER_PROCESS = 400_000
const MAX_STEPS = 1_000_000_000
/** The longest report of a process, in bytes. */
const MAX_REPORT_BYTES = 64 * 1024 * 1024
const MAX_GATEWAYS = 10

/** A report with a result for each rule, and how each seed went. */
interface SimulationReport extends Report {
  readonly steps: number
  readonly steps_per_second: number
  readonly seeds: readonly SimulationResult[]
}

/** Wrong usage of the command line. */
class UsageError extends Error {}

/** Runs the simulator with these arguments. Resolves with the exit code. */
export async function simulate(args: readonly string[]): Promise<number> {
  try {
    return await simulated(args)
  } catch (error) {
    const messages =
      error instanceof ConfigError
        ? error.problems.map(problemLine)
        : [error instanceof Error ? error.message : String(error)]
    for (const message of messages) process.stderr.write(`simulate: ${oneLine(message)}\n`)
    return error instanceof UsageError ? 2 : 1
  }
}

async function simulated(args: readonly string[]): Promise<number> {
  const values = optionsOf(args)
  if (values.help) return written(USAGE)
  const first = numberOf(values.seed, { option: '--seed', least: 0, most: 2 ** 31 - 1, usual: 1 })
  const steps = numberOf(values.steps, { option: '--steps', least: 1, most: MAX_STEPS, usual: 10_000 })
  const gateways = numberOf(values.gateways, { option: '--gateways', least: 1, most: MAX_GATEWAYS, usual: 3 })
  const isFleet = values.fleet === true
  const faultSet = faultSetOf(values.faults)
  const settings = settingsFrom(values.config, isFleet)
  const testedAt = new Date()
  let isRead = true
  // The reader of a pipe may end before the output does, as `head` does.
  process.stdout.on('error', () => {
    isRead = false
  })
  const config = values.config === undefined ? [] : ['--config', values.config]
  const options = ['--gateways', `${gateways}`, ...config]
  if (isFleet) options.push('--fleet')
  if (faultSet !== undefined) options.push('--faults', faultSet)
  const here = async (seed: number, most: number) => [
    await runSimulation({ seed, steps: most, gateways, settings, isFleet, faultSet }),
  ]
  const elsewhere = (seed: number, most: number) => inProcess(seed, most, options)
  const [run, most] = steps > STEPS_PER_PROCESS ? [elsewhere, STEPS_PER_PROCESS] : [here, STEPS_PER_SEED]
  const seeds: SimulationResult[] = []
  for await (const results of inBatches({ first, steps, most }, run)) {
    seeds.push(...results)
    if (!values.json) written(results.map(seedLine).join(''))
    if (!isRead) break
  }
  const report = simulationReport(seeds, testedAt)
  if (values.junit !== undefined) writeFileSync(values.junit, junit(report))
  written(values.json ? `${JSON.stringify(report, null, 2)}\n` : printed(report))
  return isClean(report) ? 0 : 1
}

/** @throws UsageError */
function optionsOf(args: readonly string[]) {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        config: { type: 'string', short: 'c' },
        seed: { type: 'string' },
        steps: { type: 'string' },
        gateways: { type: 'string' },
        fleet: { type: 'boolean' },
        faults: { type: 'string' },
        json: { type: 'boolean' },
        junit: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (positionals.length > 0) throw new UsageError('this command takes options only')
    return values
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError(`${String(error)} See --help.`)
  }
}

function written(text: string): number {
  process.stdout.write(text)
  return 0
}

/** How many steps are simulated, from which seed on, and how many of them in one batch. */
interface Batches {
  readonly first: number
  readonly steps: number
  readonly most: number
}

/** Runs batches of simulations, each seed once, until there were enough steps or a rule was violated. */
export async function* inBatches(
  { first, steps, most }: Batches,
  run: (seed: number, steps: number) => readonly SimulationResult[] | Promise<readonly SimulationResult[]>,
): AsyncGenerator<readonly SimulationResult[]> {
  let seed = first
  for (let left = steps; left > 0;) {
    const results = await run(seed, Math.min(most, left))
    yield results
    if (results.at(-1)?.violation) return
    seed += results.length
    left -= results.reduce((sum, each) => sum + each.steps, 0)
  }
}

/** Runs simulations in a process of their own. @throws if it ends without a report */
function inProcess(seed: number, steps: number, options: readonly string[]): readonly SimulationResult[] {
  const [, program = ''] = process.argv
  const words = ['--seed', `${seed}`, '--steps', `${steps}`, ...options, '--json']
  const { stdout, status, error } = spawnSync(process.execPath, [...process.execArgv, program, ...words], {
    encoding: 'utf8',
    maxBuffer: MAX_REPORT_BYTES,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (error) throw error
  if (status !== 0 && status !== 1) throw new Error(`the process of seed ${seed} ended without a report`)
  const { seeds } = JSON.parse(stdout) as Pick<SimulationReport, 'seeds'>
  return seeds
}

function simulationReport(seeds: readonly SimulationResult[], testedAt: Date): SimulationReport {
  const took = Date.now() - testedAt.getTime()
  const found = seeds.flatMap(({ seed, violation }) => (violation ? [{ seed, ...violation }] : []))
  const results = ruleNames.map((name): CheckResult => {
    const violation = found.find(({ rule }) => rule === name)
    const status: CheckStatus = violation ? 'failed' : 'passed'
    return {
      test_id: name,
      category: 'simulation',
      status,
      ...(violation && { message: `seed ${violation.seed}, step ${violation.step}: ${violation.message}` }),
      duration_ms: took,
    }
  })
  const { name, version } = self
  const subject = { server_name: name, server_version: version, suite_version: version }
  const steps = seeds.reduce((sum, each) => sum + each.steps, 0)
  return {
    ...reportOf({ ...subject, tested_at: testedAt.toISOString() }, results),
    steps,
    steps_per_second: Math.round((steps * 1000) / Math.max(1, took)),
    seeds,
  }
}

function settingsFrom(file: string | undefined, isFleet: boolean): Settings {
  const config = isFleet ? fleetConfig(PRINCIPALS) : simulatedConfig
  const { settings } = loadSettings(config, { file: '/simulation.yaml', env: {} })
  if (file === undefined) return simulatedSettings(settings)
  if (!existsSync(file)) throw new UsageError(`${file} does not exist`)
  return simulatedSettings(
    settings,
    loadSettings(readFileSync(file, 'utf8'), { file, env: process.env }).settings,
  )
}

/** @throws UsageError */
function faultSetOf(name: string | undefined): FaultSet | undefined {
  if (name === undefined || isFaultSet(name)) return name
  throw new UsageError(`--faults must be one of ${Object.keys(faultSets).join(', ')}`)
}

function isFaultSet(name: string): name is FaultSet {
  return Object.hasOwn(faultSets, name)
}

interface Bounds {
  readonly option: string
  readonly least: number
  readonly most: number
  readonly usual: number
}

/** @throws UsageError */
function numberOf(text: string | undefined, { option, least, most, usual }: Bounds): number {
  if (text === undefined) return usual
  const number = Number(text)
  if (!/^\d+$/.test(text) || number < least || number > most)
    throw new UsageError(`${option} must be a whole number from ${least} to ${most}`)
  return number
}

function seedLine({ seed, steps, hash, attempts, effects, faults, duration }: SimulationResult): string {
  const facts = `${attempts} attempts, ${effects} effects, ${faults} faults, ${Math.round(duration / 1000)} s simulated`
  return `seed ${seed}  ${steps} steps  ${facts}  ${hash}\n`
}

/** What is printed below the lines of the seeds. */
function printed(report: SimulationReport): string {
  const { steps, seeds, steps_per_second: rate } = report
  const failed = seeds.find(({ violation }) => violation)
  const found = failed?.violation ? [...violationLines(failed.seed, failed.violation), ''] : []
  return [`${steps} steps, ${rate} a second`, '', ...found, reportText(report)].join('\n')
}

function violationLines(
  seed: number,
  { rule, step, message, entries }: NonNullable<SimulationResult['violation']>,
): readonly string[] {
  return [
    `Seed ${seed}, step ${step}: ${rule}: ${oneLine(message)}`,
    ...entries.map(({ step: at, at: time, kind, ...rest }) => {
      return `  ${String(at).padStart(7)}  ${(time / 1000).toFixed(3)} s  ${kind}  ${oneLine(JSON.stringify(rest))}`
    }),
  ]
}
