/** `gatehouse simulate`: runs gateways, servers and clients in a simulated world, and checks what they promise. */
import { spawnSync } from 'node:child_process'
import { loadSettings } from '../config/load.ts'
import { self } from '../core/identity.ts'
import type { Settings } from '../core/settings.ts'
import { oneLine } from '../core/text/escape.ts'
import {
  type CheckResult,
  type CheckStatus,
  isClean,
  junit,
  type Report,
  reportOf,
  reportText,
} from '../testkit/report.ts'
import { ruleNames } from '../testkit/simulate/rules/rules.ts'
import { simulatedConfig, simulatedSettings } from '../testkit/simulate/settings.ts'
import { simulate as runSimulation, type SimulationResult } from '../testkit/simulate/simulation.ts'
import { readSource } from './options.ts'
import { configWords, parseWords, UsageError } from './words.ts'
import { parseJson } from '../core/json/read.ts'
import { type Io, pathOf, write } from './io.ts'
import { writePrivate } from './private-file.ts'

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

/** `gatehouse simulate [--config FILE] [--seed N] [--steps N] [--gateways N]`: exit code 1 if a rule is violated. */
export async function simulate(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, {
    config: { type: 'string', short: 'c' },
    'env-file': { type: 'string' },
    seed: { type: 'string' },
    steps: { type: 'string' },
    gateways: { type: 'string' },
    json: { type: 'boolean' },
    junit: { type: 'string' },
  })
  if (positionals.length > 0) throw new UsageError('this command takes options only')
  const first = numberOf(values.seed, { option: '--seed', least: 0, most: 2 ** 31 - 1, usual: 1 })
  const steps = numberOf(values.steps, { option: '--steps', least: 1, most: MAX_STEPS, usual: 10_000 })
  const gateways = numberOf(values.gateways, { option: '--gateways', least: 1, most: MAX_GATEWAYS, usual: 3 })
  const settings = settingsFrom(values.config, values['env-file'], io)
  const isJson = values.json === true
  const testedAt = new Date()
  let isRead = true
  // The reader of a pipe may end before the output does, as `head` does.
  io.stdout.on('error', () => {
    isRead = false
  })
  const options = [...['--gateways', `${gateways}`], ...configWords(values)]
  const here = async (seed: number, most: number) => [
    await runSimulation({ seed, steps: most, gateways, settings }),
  ]
  const elsewhere = (seed: number, most: number) => inProcess(seed, most, { options, io })
  const [run, most] = steps > STEPS_PER_PROCESS ? [elsewhere, STEPS_PER_PROCESS] : [here, STEPS_PER_SEED]
  const seeds: SimulationResult[] = []
  for await (const results of inBatches({ first, steps, most }, run)) {
    seeds.push(...results)
    if (!isJson) write(results.map(seedLine).join(''), io)
    if (!isRead) break
  }
  const report = simulationReport(seeds, testedAt)
  if (values.junit !== undefined) writePrivate(pathOf(values.junit, io), junit(report))
  write(isJson ? `${JSON.stringify(report, null, 2)}\n` : printed(report), io)
  return isClean(report) ? 0 : 1
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
function inProcess(
  seed: number,
  steps: number,
  { options, io }: { readonly options: readonly string[]; readonly io: Io },
): readonly SimulationResult[] {
  const [, program = ''] = process.argv
  const words = ['simulate', '--seed', `${seed}`, '--steps', `${steps}`, ...options, '--json']
  const { stdout, status, error } = spawnSync(process.execPath, [...process.execArgv, program, ...words], {
    encoding: 'utf8',
    env: io.env,
    cwd: io.cwd,
    maxBuffer: MAX_REPORT_BYTES,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  if (error) throw error
  if (status !== 0 && status !== 1) throw new Error(`the process of seed ${seed} ended without a report`)
  const { seeds } = parseJson(stdout) as Pick<SimulationReport, 'seeds'>
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

function settingsFrom(config: string | undefined, envFile: string | undefined, io: Io): Settings {
  const { settings } = loadSettings(simulatedConfig, { file: 'simulation', env: {} })
  if (config === undefined) return simulatedSettings(settings)
  return simulatedSettings(settings, readSource({ config, envFile }, io).settings)
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
