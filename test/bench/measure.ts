import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { LoadOrder, LoadResult } from './load-order.ts'
import { cpuNanoseconds, peakMegabytes, resetPeak, residentMegabytes } from './process-stats.ts'
import type { Target } from './field.ts'

/** How many calls at once, asking for how large a reply. */
export interface Shape {
  readonly concurrency: number
  readonly bytes: number
}

/** What one turn of one target measured. Latencies are in milliseconds. */
interface Turn extends Shape {
  readonly target: string
  /** Absent if it is the working copy, or no gateway. */
  readonly build?: string
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly calls: number
  /** Microseconds of CPU the target's processes used per call; undefined where none are its own. */
  readonly cpu?: number
  /** Their largest resident sets, in MB; undefined where none are its own. */
  readonly peak?: number
}

/** One turn, and when it was: turns of the same launch and round are next to each other. */
export interface Sample extends Turn {
  readonly launch: number
  readonly round: number
}

/** The resident set of a target before its first call, in MB. */
export interface Idle {
  readonly target: string
  readonly build?: string
  readonly megabytes: number
}

/** A load generator in its own process; any wrong answer makes a turn throw. */
export interface Loader {
  readonly pid: number
  turn(target: Target, shape: Shape, seconds: number): Promise<Turn>
  stop(): void
}

/** How a launch is measured. */
export interface Plan {
  readonly launch: number
  readonly rounds: number
  readonly seconds: number
  /** How many calls each target gets with its first shape before it is measured, and at most for how many seconds. */
  readonly warmUp: { readonly calls: number; readonly seconds: number }
}

const LEAD_IN_SECONDS = 0.05
/** How long processes that just started may still be busy. */
const SETTLE_MS = 1000

/** Starts the load generator. */
export function startLoader(): Loader {
  const child = fork(new URL('load.ts', import.meta.url))
  const run = async (name: string, order: LoadOrder): Promise<LoadResult> => {
    child.send(order)
    const [result] = (await once(child, 'message')) as [LoadResult]
    if (result.errors === 0 && result.calls > 0) return result
    throw new Error(`${result.errors} of ${result.calls} calls to ${name} failed: ${result.firstError}`)
  }
  return {
    pid: child.pid ?? 0,
    async turn(target, shape, seconds) {
      const { name, build, url, era, tool, token, isKeyed, pids } = target
      const order = {
        url,
        era,
        ...shape,
        ...(tool !== undefined && { tool }),
        ...(token !== undefined && { token }),
        ...(isKeyed && { isKeyed }),
      }
      // Connections and sessions are opened before the clock starts.
      await run(name, { ...order, seconds: LEAD_IN_SECONDS })
      for (const pid of pids) resetPeak(pid)
      const before = sumOf(pids, cpuNanoseconds)
      const { calls, seconds: took, p50, p99 } = await run(name, { ...order, seconds })
      const used = sumOf(pids, cpuNanoseconds) - before
      return {
        target: name,
        ...(build !== undefined && { build }),
        ...shape,
        rate: calls / took,
        p50,
        p99,
        calls,
        ...(pids.length > 0 && { cpu: used / 1000 / calls, peak: sumOf(pids, peakMegabytes) }),
      }
    },
    stop: () => child.disconnect(),
  }
}

/**
 * Gives every target its turn in every round. All targets meet one shape of load in all rounds before the next, since
 * large replies leave more memory behind than small ones take.
 */
export async function runRounds(loader: Loader, targets: readonly Target[], plan: Plan): Promise<Sample[]> {
  const samples: Sample[] = []
  const shapes = allShapes(targets)
  for (const shape of shapes) {
    const present = targets.filter((target) => target.shapes.some((each) => isSame(each, shape)))
    const warmUp = shape === shapes[0] ? plan.warmUp : { calls: 1, seconds: 1 }
    for (const target of present) await warm(loader, target, { shape, ...warmUp })
    for (let round = 0; round < plan.rounds; round++) {
      // In turn, each would go after the same one most often, and find the caches as that one leaves them.
      for (const target of shuffled(present)) {
        const turn = await loader.turn(target, shape, plan.seconds)
        samples.push({ launch: plan.launch, round, ...turn })
      }
    }
    process.stderr.write(`${shape.concurrency} calls at once of ${shape.bytes} bytes done\n`)
  }
  return samples
}

/** Calls have V8 let its young generation grow, so it is measured before the first one. */
export async function idleMemory(targets: readonly Target[]): Promise<Idle[]> {
  await pause(SETTLE_MS)
  return targets
    .filter(({ pids }) => pids.length > 0)
    .map(({ name, build, pids }) => ({
      target: name,
      ...(build !== undefined && { build }),
      megabytes: sumOf(pids, residentMegabytes),
    }))
}

/** Until the compilers of all processes are done with the hot code. */
async function warm(
  loader: Loader,
  target: Target,
  { shape, calls, seconds }: { readonly shape: Shape; readonly calls: number; readonly seconds: number },
): Promise<void> {
  const until = performance.now() + seconds * 1000
  for (let made = 0; made < calls && performance.now() < until;)
    made += (await loader.turn(target, shape, 0.5)).calls
}

/** The same in a random order, each as likely as any other. */
function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)
}

/** The shapes of all targets, the smallest replies first. */
function allShapes(targets: readonly Target[]): readonly Shape[] {
  const all = new Map(
    targets.flatMap(({ shapes }) => shapes.map((each) => [`${each.concurrency} ${each.bytes}`, each])),
  )
  return [...all.values()].toSorted(
    (one, other) => one.bytes - other.bytes || one.concurrency - other.concurrency,
  )
}

function isSame(one: Shape, other: Shape): boolean {
  return one.concurrency === other.concurrency && one.bytes === other.bytes
}

function sumOf(pids: readonly number[], measure: (pid: number) => number): number {
  return pids.reduce((sum, pid) => sum + measure(pid), 0)
}
