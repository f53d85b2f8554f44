import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { LoadOrder, LoadResult } from './load-order.ts'
import { cpuNanoseconds } from './process-stats.ts'
import type { Target } from './targets.ts'

/** How many calls at once, asking for how large a reply. */
export interface Shape {
  readonly concurrency: number
  readonly bytes: number
}

/** One turn of one target. */
export interface Sample extends Shape {
  readonly target: string
  readonly round: number
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly calls: number
  /** Microseconds of CPU the target's processes used per call; undefined where none are its own. */
  readonly cpu?: number
}

/** A load generator in its own process; any wrong answer makes a turn throw. */
export interface Loader {
  turn(target: Target, shape: Shape, seconds: number): Promise<Omit<Sample, 'round'>>
  stop(): void
}

const LEAD_IN_SECONDS = 0.05

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
    async turn(target, shape, seconds) {
      const { url, era, token, isKeyed } = target
      const order = {
        url,
        era,
        ...shape,
        ...(token !== undefined && { token }),
        ...(isKeyed && { isKeyed }),
      }
      // Connections and sessions are opened before the clock starts.
      await run(target.name, { ...order, seconds: LEAD_IN_SECONDS })
      const before = cpuOf(target)
      const { calls, seconds: took, p50, p99 } = await run(target.name, { ...order, seconds })
      const used = cpuOf(target) - before
      const cpu = target.pids.length === 0 ? {} : { cpu: used / 1000 / calls }
      return { target: target.name, ...shape, rate: calls / took, p50, p99, calls, ...cpu }
    },
    stop: () => child.disconnect(),
  }
}

/** Gives every target its turn in every round; all targets meet one shape of load before the next. */
export async function runRounds(
  loader: Loader,
  targets: readonly Target[],
  plan: { readonly shapes: readonly Shape[]; readonly rounds: number; readonly seconds: number },
): Promise<Sample[]> {
  const samples: Sample[] = []
  for (let round = 0; round < plan.rounds; round++) {
    for (const shape of allShapes(targets, plan.shapes)) {
      const present = targets.filter((target) => meets(target, shape, plan.shapes))
      // In turn, each would go after the same one most often, and find the caches as that one leaves them.
      for (const target of shuffled(present)) {
        samples.push({ round, ...(await loader.turn(target, shape, plan.seconds)) })
      }
    }
    process.stderr.write(`round ${round + 1} of ${plan.rounds} done\n`)
  }
  return samples
}

/** The same in a random order, each as likely as any other. */
function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)
}

/** Whether a target meets a shape of load in a plan. */
export function meets({ shapes }: Target, shape: Shape, planned: readonly Shape[]): boolean {
  return (shapes ?? planned).some(
    ({ concurrency, bytes }) => concurrency === shape.concurrency && bytes === shape.bytes,
  )
}

/** The shapes of a plan, and those of single targets that it does not have. */
function allShapes(targets: readonly Target[], planned: readonly Shape[]): readonly Shape[] {
  const all = [...planned, ...targets.flatMap(({ shapes = [] }) => shapes)]
  return [...new Map(all.map((each) => [`${each.concurrency} ${each.bytes}`, each])).values()]
}

function cpuOf(target: Target): number {
  return target.pids.reduce((sum, pid) => sum + cpuNanoseconds(pid), 0)
}
