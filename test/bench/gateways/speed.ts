// What calls cost: all gateways run at the same time, and each has its turn in every round.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import type { LoadResult } from '../load-order.ts'
import { spread, type Spread } from '../statistics.ts'
import type { Gateway } from './gateway.ts'
import type { Order } from './load.ts'
import { setUp, startServer, type RunningGateway } from './running.ts'

/** How long and how often is measured. */
export interface SpeedPlan {
  readonly launches: number
  readonly rounds: number
  readonly seconds: number
  /** Calls before the first round, for compilers, and the seconds after which that ends. */
  readonly warmUp: { readonly calls: number; readonly seconds: number }
}

/** What calls of one gateway cost, at one number of calls at once. */
export interface SpeedRow {
  readonly gateway: string
  readonly concurrency: number
  readonly bytes: number
  readonly rate: number
  readonly p50: number
  readonly p99: number
  /** Microseconds of CPU per call, of all processes of the gateway. */
  readonly cpu: Spread
  /** CPU per call divided by that of the bare relay of the same transport in the same run. */
  readonly ratio?: number
}

/** What a gateway needs besides calls: megabytes of memory, and milliseconds until the first answer. */
export interface FootprintRow {
  readonly gateway: string
  readonly startMs: Spread
  readonly idle: number
  readonly peak: number
}

/** The measurements of all gateways that could be started; the others with the reason. */
export interface Speed {
  readonly calls: readonly SpeedRow[]
  readonly footprint: readonly FootprintRow[]
  readonly failed: ReadonlyMap<string, string>
}

interface Sample {
  readonly gateway: Gateway
  readonly concurrency: number
  readonly rate: number
  readonly p50: number
  readonly p99: number
  readonly cpu: number
}

interface Footprint {
  readonly name: string
  readonly startMs: number
  readonly idle: number
  peak: number
}

const BYTES = 1024
/** How many calls are made at once. */
const CONCURRENCIES: readonly number[] = [16, 64]
const LEAD_IN_SECONDS = 0.05
const IDLE_MS = 1000
const relays = { http: 'pass-through', stdio: 'line-mux' }

/** Measures all gateways, launched anew several times. */
export async function measureSpeed(
  gateways: readonly Gateway[],
  folder: string,
  plan: SpeedPlan,
): Promise<Speed> {
  const measurement = new Measurement(gateways, plan)
  if (gateways.length === 0) return measurement.result()
  for (let launch = 1; launch <= plan.launches; launch++) {
    process.stderr.write(`launch ${launch} of ${plan.launches}\n`)
    await measurement.launch(`${folder}/${launch}`)
  }
  return measurement.result()
}

/** What is collected over all launches. A gateway that fails once is left out from then on. */
class Measurement {
  readonly #gateways: readonly Gateway[]
  readonly #plan: SpeedPlan
  readonly #samples: Sample[] = []
  readonly #footprints: Footprint[] = []
  readonly #failed = new Map<string, string>()

  constructor(gateways: readonly Gateway[], plan: SpeedPlan) {
    this.#gateways = gateways
    this.#plan = plan
  }

  async launch(folder: string): Promise<void> {
    const servers = {
      http: await startServer('upstream.ts', [], 'http'),
      stdio: await startServer('upstream.ts', [], 'stdio'),
    }
    const loader = new Loader()
    const running: RunningGateway[] = []
    try {
      for (const gateway of this.#present(this.#gateways)) {
        await this.#attempt(gateway, async () => {
          const { upstream } = servers[gateway.transport]
          const one = await setUp(gateway, `${folder}/${gateway.name}`, upstream, 'write')
          running.push(one)
          await this.#start(one, loader)
        })
      }
      for (let round = 0; round < this.#plan.rounds; round++) await this.#round(running, loader)
      for (const { gateway, processes } of running) {
        const footprint = this.#footprints.findLast(({ name }) => name === gateway.name)
        if (footprint) footprint.peak = processes.memory().peak
      }
    } finally {
      loader.stop()
      await Promise.all(running.map((one) => one.stop()))
      await servers.http.serving?.stop()
    }
  }

  result(): Speed {
    const measured = this.#present(this.#gateways)
    return {
      calls: measured.flatMap((gateway) =>
        CONCURRENCIES.flatMap((concurrency) => rowOf(gateway, concurrency, this.#samples)),
      ),
      footprint: measured.flatMap(({ name }) => footprintOf(name, this.#footprints)),
      failed: this.#failed,
    }
  }

  async #start(one: RunningGateway, loader: Loader): Promise<void> {
    const startMs = await one.start(one.gateway.tool ?? 'write', { bytes: BYTES })
    await pause(IDLE_MS)
    const { resident } = one.processes.memory()
    this.#footprints.push({ name: one.gateway.name, startMs, idle: resident, peak: resident })
    await loader.warmUp(one, this.#plan)
  }

  async #round(running: readonly RunningGateway[], loader: Loader): Promise<void> {
    for (const concurrency of CONCURRENCIES) {
      for (const one of shuffled(running.filter(({ gateway }) => !this.#failed.has(gateway.name)))) {
        await this.#attempt(one.gateway, async () => {
          this.#samples.push(await loader.turn(one, concurrency, this.#plan.seconds))
        })
      }
    }
  }

  async #attempt({ name }: Gateway, measure: () => Promise<void>): Promise<void> {
    try {
      await measure()
    } catch (error) {
      this.#failed.set(name, String(error))
    }
  }

  #present(all: readonly Gateway[]): Gateway[] {
    return all.filter(({ name }) => !this.#failed.has(name))
  }
}

function footprintOf(gateway: string, all: readonly Footprint[]): FootprintRow[] {
  const own = all.filter(({ name }) => name === gateway)
  const startMs = spread(own.map((each) => each.startMs))
  const idle = spread(own.map((each) => each.idle))
  const peak = spread(own.map((each) => each.peak))
  return startMs && idle && peak ? [{ gateway, startMs, idle: idle.median, peak: peak.median }] : []
}

/** The load generator, in a process of its own. */
class Loader {
  readonly #child = fork(new URL('load.ts', import.meta.url))

  async warmUp(one: RunningGateway, { warmUp }: SpeedPlan): Promise<void> {
    const limit = performance.now() + warmUp.seconds * 1000
    for (let calls = 0; calls < warmUp.calls && performance.now() < limit;)
      for (const concurrency of CONCURRENCIES)
        calls += (await this.#load(one, { concurrency, seconds: 0.5 })).calls
  }

  /** @throws Error if a call failed */
  async turn(one: RunningGateway, concurrency: number, seconds: number): Promise<Sample> {
    // Connections and sessions are opened before the clock starts.
    await this.#load(one, { concurrency, seconds: LEAD_IN_SECONDS })
    const before = one.processes.cpu()
    const { calls, seconds: took, p50, p99 } = await this.#load(one, { concurrency, seconds })
    let used = 0
    for (const [pid, nanoseconds] of one.processes.cpu()) used += nanoseconds - (before.get(pid) ?? 0)
    return { gateway: one.gateway, concurrency, rate: calls / took, p50, p99, cpu: used / 1000 / calls }
  }

  stop(): void {
    this.#child.disconnect()
  }

  async #load(one: RunningGateway, load: Pick<Order, 'concurrency' | 'seconds'>): Promise<LoadResult> {
    const { name, tool = 'write', isKeyed = false } = one.gateway
    const address = one.address()
    if (address === undefined) throw new Error(`${name} does not run`)
    const order: Order = { ...address, tool, bytes: BYTES, isKeyed, ...load }
    this.#child.send(order)
    const [result] = (await once(this.#child, 'message')) as [LoadResult]
    if (result.errors === 0 && result.calls > 0) return result
    throw new Error(`${result.errors} of ${result.calls} calls to ${name} failed: ${result.firstError}`)
  }
}

function rowOf(gateway: Gateway, concurrency: number, samples: readonly Sample[]): SpeedRow[] {
  const of = (name: string) =>
    samples.filter((each) => each.gateway.name === name && each.concurrency === concurrency)
  const own = of(gateway.name)
  const middle = (pick: (sample: Sample) => number) => spread(own.map(pick))?.median ?? 0
  const cpu = spread(own.map((each) => each.cpu))
  const base = spread(of(relays[gateway.transport]).map((each) => each.cpu))
  if (!cpu) return []
  return [
    {
      gateway: gateway.name,
      concurrency,
      bytes: BYTES,
      rate: middle((each) => each.rate),
      p50: middle((each) => each.p50),
      p99: middle((each) => each.p99),
      cpu,
      ...(base && { ratio: cpu.median / base.median }),
    },
  ]
}

/** In turn, each would go after the same one most often, and find the caches as that one leaves them. */
function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item)
}
