// Measures the gateway against bare programs that do the same work, all in one interleaved run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { judge, type Memory } from './budgets.ts'
import { meets, runRounds, startLoader, type Loader, type Sample, type Shape } from './measure.ts'
import { readOptions, usage, type Options } from './options.ts'
import { residentMegabytes } from './process-stats.ts'
import { footprintLines, machine, table, verdictLines } from './report.ts'
import { spread, summarize } from './summary.ts'
import { startField, type Field } from './targets.ts'

/** How many calls, and at most how many seconds, until the compilers of all processes are done with the hot code. */
const warm = { calls: 20_000, seconds: 20 }

const options = readOptions(process.argv.slice(2))
if (options) process.exitCode = await bench(options)
else process.stdout.write(usage)

async function bench(options: Options): Promise<number> {
  const folder = mkdtempSync(`${tmpdir()}/gatehouse-bench-`)
  try {
    const launches: Launch[] = []
    for (let launch = 0; launch < options.launches; launch++)
      launches.push(await measure(`${folder}/${launch}`, launch, options))
    return report(launches, options)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** What was measured with one set of processes. */
interface Launch {
  readonly notes: readonly string[]
  readonly startMs: readonly number[]
  readonly memory: readonly Memory[]
  readonly samples: readonly Sample[]
}

async function measure(folder: string, launch: number, options: Options): Promise<Launch> {
  mkdirSync(folder)
  const field = await startField(folder, options)
  const loader = startLoader()
  try {
    const startMs = await startTimes(folder, field, options.quick ? 3 : 5)
    const shapes = shapesOf(options)
    const idle = await idleMemory(field)
    await warmUp(loader, field, shapes, options)
    process.stderr.write(`launch ${launch + 1} of ${options.launches}\n`)
    const taken = await runRounds(loader, field.targets, { shapes, ...options })
    const samples = taken.map((each) => ({ ...each, round: launch * options.rounds + each.round }))
    const memory = idle.map(({ pids, ...each }) => ({ ...each, afterLoad: megabytes(pids) }))
    return { notes: field.notes, startMs, memory, samples }
  } finally {
    loader.stop()
    await field.stop()
  }
}

function report(launches: readonly Launch[], options: Options): number {
  const on = machine()
  const notes = launches[0]?.notes ?? []
  const samples = launches.flatMap((each) => each.samples)
  const readyMs = spread(launches.flatMap(({ startMs }) => startMs))
  const memory = launches[0]?.memory ?? []
  const footprint = readyMs ? { readyMs, memory } : { memory }
  const rows = summarize(samples)
  const verdicts = judge(rows, footprint)
  process.stdout.write(`${on.cpu}, ${on.cores} cores, Linux ${on.kernel}, Node ${on.node}\n`)
  for (const note of notes) process.stdout.write(`note: ${note}\n`)
  process.stdout.write(`\n${table(rows)}\n${footprintLines(footprint)}\n${verdictLines(verdicts)}`)
  if (options.json !== undefined) {
    const results = { machine: on, notes, options, rows, footprint, verdicts, samples }
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

async function warmUp(
  loader: Loader,
  field: Field,
  shapes: readonly Shape[],
  { quick }: Options,
): Promise<void> {
  for (const target of field.targets) {
    const until = performance.now() + warm.seconds * 1000
    for (let calls = 0; calls < warm.calls && performance.now() < until;)
      calls += (await loader.turn(target, { concurrency: 16, bytes: 1024 }, 1)).calls
    for (const shape of shapes.slice(quick ? 1 : 0)) {
      if (meets(target, shape, shapes)) await loader.turn(target, shape, 0.3)
    }
  }
}

async function startTimes(folder: string, { gateway }: Field, times: number): Promise<number[]> {
  const took: number[] = []
  for (let time = 0; gateway && time < times; time++) {
    const started = performance.now()
    const running = await gateway.launch(`${folder}/start-${time}`, { url: gateway.upstreamUrl }, '/health')
    took.push(performance.now() - started)
    await running.stop()
  }
  return took
}

function megabytes(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + residentMegabytes(pid), 0)
}
