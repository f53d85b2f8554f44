// Measures the gateway against bare programs that do the same work, all in one interleaved run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { judge, type Memory } from './budgets.ts'
import { type Build, Checkouts, workingCopy } from './builds.ts'
import { killAll } from './launch.ts'
import { runRounds, startLoader, type Sample, type Shape } from './measure.ts'
import { readOptions, usage, type Options } from './options.ts'
import { pinning } from './pin.ts'
import { residentMegabytes } from './process-stats.ts'
import { footprintLines, machine, table, verdictLines } from './report.ts'
import { spread } from './statistics.ts'
import { summarize } from './summary.ts'
import { baselines, startField, type Field, type Ground } from './targets.ts'

/** How many calls, and at most how many seconds, until the compilers of all processes are done with the hot code. */
const WARM_UP = { calls: 20_000, seconds: 20 }
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

const options = readOptions(process.argv.slice(2))
if (options) process.exitCode = await bench(options)
else process.stdout.write(usage)

async function bench(options: Options): Promise<number> {
  const folder = mkdtempSync(`${tmpdir()}/gatehouse-bench-`)
  const checkouts = new Checkouts(folder)
  const cleanUp = () => {
    killAll()
    checkouts.remove()
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  for (const [signal, code] of Object.entries(EXIT_CODES)) {
    process.once(signal, () => {
      cleanUp()
      process.exit(code)
    })
  }
  try {
    const builds: [Build, ...Build[]] = [await workingCopy()]
    for (const commit of options.compare) builds.push(await checkouts.build(commit))
    const launches: Launch[] = []
    for (let launch = 0; launch < options.launches; launch++) {
      process.stderr.write(`launch ${launch + 1} of ${options.launches}\n`)
      launches.push(await measure({ folder: `${folder}/${launch}`, options, builds }, launch))
    }
    return report(launches, options, builds)
  } finally {
    cleanUp()
  }
}

/** What was measured with one set of processes. */
interface Launch {
  readonly notes: readonly string[]
  readonly startMs: readonly number[]
  readonly memory: readonly Memory[]
  readonly samples: readonly Sample[]
}

async function measure(ground: Ground, launch: number): Promise<Launch> {
  const { folder, options } = ground
  mkdirSync(folder)
  const pin = options.pin ? pinning() : undefined
  const field = await startField({ ...ground, pin })
  const loader = startLoader()
  pin?.others(loader.pid)
  try {
    const startMs = await startTimes(folder, field, options.quick ? 3 : 5)
    const idle = await idleMemory(field)
    const plan = { launch, shapes: shapesOf(options), warmUp: WARM_UP, ...options }
    const samples = await runRounds(loader, field.targets, plan)
    const memory = idle.map(({ pids, ...each }) => ({ ...each, afterLoad: megabytes(pids) }))
    return { notes: field.notes, startMs, memory, samples }
  } finally {
    loader.stop()
    await field.stop()
  }
}

function report(launches: readonly Launch[], options: Options, builds: readonly Build[]): number {
  const on = machine()
  const notes = launches[0]?.notes ?? []
  const samples = launches.flatMap((each) => each.samples)
  const readyMs = spread(launches.flatMap(({ startMs }) => startMs))
  const memory = launches[0]?.memory ?? []
  const footprint = readyMs ? { readyMs, memory } : { memory }
  const rows = summarize(samples, baselines)
  const verdicts = judge(rows, footprint)
  process.stdout.write(`${on.cpu}, ${on.cores} cores, Linux ${on.kernel}, Node ${on.node}\n`)
  for (const { name, commit } of builds) process.stdout.write(`${name ?? 'working copy'}: ${commit}\n`)
  for (const note of notes) process.stdout.write(`note: ${note}\n`)
  process.stdout.write(`\n${table(rows)}\n${footprintLines(footprint)}\n${verdictLines(verdicts)}`)
  if (options.json !== undefined) {
    const commits = builds.map(({ name, commit }) => ({ name, commit }))
    const results = { machine: on, commits, notes, options, rows, footprint, verdicts, samples }
    writeFileSync(options.json, JSON.stringify(results, null, 2) + '\n')
  }
  return options.fail && verdicts.some(({ met }) => !met) ? 1 : 0
}

function shapesOf({ quick }: Options): Shape[] {
  const [small, medium, large] = [1024, 10_240, 102_400]
  if (quick) return [{ concurrency: 16, bytes: small }]
  const bySize = [medium, large].map((bytes) => ({ concurrency: 16, bytes }))
  return [...[1, 16, 64].map((concurrency) => ({ concurrency, bytes: small })), ...bySize]
}

// Calls have V8 let its young generation grow, so memory is looked at before the first one.
async function idleMemory({ targets }: Field) {
  const measured = targets.filter(({ pids }) => pids.length > 0)
  await pause(1000)
  return measured.map(({ name, pids }) => ({ target: name, pids, idle: megabytes(pids) }))
}

async function startTimes(folder: string, { launch, upstreamUrl }: Field, times: number): Promise<number[]> {
  const took: number[] = []
  for (let time = 0; time < times; time++) {
    const started = performance.now()
    const running = await launch(`${folder}/start-${time}`, { url: upstreamUrl }, '/health')
    took.push(performance.now() - started)
    await running.stop()
  }
  return took
}

function megabytes(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + residentMegabytes(pid), 0)
}
