// Measures the gateway against bare programs that do the same work, all in one interleaved run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, release, tmpdir } from 'node:os'
import { judge } from './budgets.ts'
import { type Build, Checkouts, workingCopy } from './builds.ts'
import { type Ceiling, ceilingsOf, measureCommits } from './ceiling.ts'
import { Field, type Ground } from './field.ts'
import { killAll } from './launch.ts'
import { idleMemory, runRounds, startLoader, type Idle, type Sample } from './measure.ts'
import { readOptions, usage, type Options } from './options.ts'
import { pinning } from './pin.ts'
import { reportText } from './report.ts'
import type { Machine, Results } from './results.ts'
import { spread } from './statistics.ts'
import { summarize } from './summary.ts'
import { chosen, concurrencies, targets } from './targets.ts'

/** How many calls, and at most how many seconds, until the compilers of all processes are done with the hot code. */
const WARM_UP = { calls: 20_000, seconds: 20 }
const QUICK_WARM_UP = { calls: 20_000, seconds: 5 }
const EXIT_CODES = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

const command = process.argv.slice(2)
const options = readOptions(command)
if (options) process.exitCode = await bench(options)
else process.stdout.write(usage)

async function bench(options: Options): Promise<number> {
  const names = chosen(options.only)
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
      const pin = options.pin ? pinning() : undefined
      launches.push(await measure({ folder: `${folder}/${launch}`, options, builds, pin }, launch))
      rmSync(`${folder}/${launch}`, { recursive: true, force: true, maxRetries: 5 })
    }
    const results = resultsOf(launches, { options, builds, names })
    process.stdout.write(reportText(results))
    if (options.json !== undefined) writeFileSync(options.json, JSON.stringify(results, null, 2) + '\n')
    return options.fail && results.verdicts.some(({ met }) => !met) ? 1 : 0
  } finally {
    cleanUp()
  }
}

/** What was measured with one set of processes. */
interface Launch {
  readonly notes: readonly string[]
  readonly startMs: readonly number[]
  readonly idle: readonly Idle[]
  readonly ceilings: readonly Ceiling[]
  readonly samples: readonly Sample[]
}

async function measure(ground: Ground, launch: number): Promise<Launch> {
  const { folder, options, pin } = ground
  mkdirSync(folder)
  const field = new Field(ground)
  const loader = startLoader()
  pin?.others(loader.pid)
  try {
    const startMs = await field.startTimes(options.quick ? 3 : 5)
    const ceilings = await measureCommits(`${folder}/ceiling`, {
      chosen: chosen(options.only),
      concurrencies: concurrencies(options.quick),
      pin,
    })
    await field.start()
    const idle = await idleMemory(field.targets)
    const { rounds, seconds, quick } = options
    const plan = { launch, rounds, seconds, warmUp: quick ? QUICK_WARM_UP : WARM_UP }
    const samples = await runRounds(loader, field.targets, plan)
    return { notes: field.notes, startMs, idle, ceilings, samples }
  } finally {
    loader.stop()
    await field.stop()
  }
}

function resultsOf(
  launches: readonly Launch[],
  {
    options,
    builds,
    names,
  }: { readonly options: Options; readonly builds: readonly Build[]; readonly names: readonly string[] },
): Results {
  const measured = names.flatMap((name) => {
    const kind = targets[name]
    if (!kind) return []
    return { name, title: kind.title, ...(kind.baseline !== undefined && { baseline: kind.baseline }) }
  })
  const baselines = Object.fromEntries(
    measured.flatMap(({ name, baseline }) => (baseline === undefined ? [] : [[name, baseline]])),
  )
  const place = new Map(names.map((name, at) => [name, at]))
  const rows = summarize(
    launches.flatMap(({ samples }) => samples),
    baselines,
    launches.flatMap(({ idle }) => idle),
  ).toSorted((one, other) => (place.get(one.target) ?? 0) - (place.get(other.target) ?? 0))
  const startMs = spread(launches.flatMap((each) => each.startMs))
  return {
    version: 1,
    takenAt: new Date().toISOString(),
    machine: machine(options.pin && pinning() !== undefined),
    builds: builds.map(({ name, commit }) => ({ ...(name !== undefined && { name }), commit })),
    command,
    launches: options.launches,
    rounds: options.rounds,
    seconds: options.seconds,
    notes: [...new Set(launches.flatMap(({ notes }) => notes))],
    targets: measured,
    rows,
    ceilings: ceilingsOf(
      launches.flatMap(({ ceilings }) => ceilings),
      rows,
    ),
    ...(startMs && { startMs }),
    verdicts: judge(rows, { startMs, chosen: names, concurrencies: concurrencies(options.quick) }),
  }
}

function machine(isPinned: boolean): Machine {
  const [first] = cpus()
  const cpu = first?.model ?? 'unknown'
  return { cpu, cores: cpus().length, kernel: release(), node: process.version, isPinned }
}
