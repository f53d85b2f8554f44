/** What fails in a simulation, and how often: messages, processes, the ways between them, and clocks. */
import type { History } from './history.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'
import type { StoreFate, StoreFaults } from './simulated-store.ts'

/** Probabilities of faults: for each message or operation, or for each round of the disturbance. */
export interface FaultRates {
  /** A message is lost. */
  readonly loss: number
  /** A message takes seconds. */
  readonly slow: number
  /** A gateway ends right before or after it writes to the store. */
  readonly crashAtWrite: number
  /** A gateway ends, or is stopped in order, at any time. */
  readonly crash: number
  /** A gateway is cut off from the store or from a server for a while. */
  readonly partition: number
  /** The clock of a gateway jumps. */
  readonly jump: number
  /** A server fails, is slow, or does something other than what it answers. */
  readonly server: number
  readonly lie: number
}

/** Nothing fails. */
export const noFaults: FaultRates = {
  loss: 0,
  slow: 0,
  crashAtWrite: 0,
  crash: 0,
  partition: 0,
  jump: 0,
  server: 0,
  lie: 0,
}

const few: FaultRates = {
  loss: 0.01,
  slow: 0.01,
  crashAtWrite: 0.001,
  crash: 0.01,
  partition: 0.01,
  jump: 0.02,
  server: 0.05,
  lie: 0.005,
}

const many: FaultRates = {
  loss: 0.05,
  slow: 0.05,
  crashAtWrite: 0.01,
  crash: 0.05,
  partition: 0.05,
  jump: 0.1,
  server: 0.2,
  lie: 0.02,
}

/** The rates of a simulation: some have no faults, some have few, some many. */
export function chooseRates(random: Seeded): FaultRates {
  const crashing = { ...noFaults, crashAtWrite: 0.03, crash: 0.1 }
  return random.pick([noFaults, few, few, many, many, crashing])
}

/** The most by which a clock is ahead or behind, in milliseconds. */
export const MAX_SKEW_MS = 2000
/** How often something may happen besides the faults of messages, in milliseconds. */
const ROUND_MS = 2000
const MAX_PARTITION_MS = 25_000

/** What the faults can act on. */
export interface Victim {
  readonly name: string
  readonly process: SimulatedProcess | undefined
  crash(): void
  stop(): void
}

/** The faults of one simulation. */
export class Faults implements StoreFaults {
  readonly #scheduler: Scheduler
  readonly #random: Seeded
  readonly #history: History
  #rates: FaultRates
  #victims: readonly Victim[] = []
  /** The ways that are cut, each until a time. */
  readonly #cuts = new Map<string, number>()

  constructor(
    scheduler: Scheduler,
    random: Seeded,
    { rates, history }: { rates: FaultRates; history: History },
  ) {
    this.#scheduler = scheduler
    this.#random = random
    this.#rates = rates
    this.#history = history
  }

  get rates(): FaultRates {
    return this.#rates
  }

  /** Begins to disturb gateways; `ways` are what they can be cut off from. */
  begin(victims: readonly Victim[], ways: readonly [string, ...string[]]): void {
    this.#victims = victims
    const disturbance = this.#scheduler.process('disturbance')
    const round = (): void => {
      for (const victim of victims) this.#disturb(victim, ways)
      if (this.#rates !== noFaults)
        this.#scheduler.after(disturbance, ROUND_MS * (0.5 + this.#random.next()), 'disturb', round)
    }
    if (this.#rates !== noFaults) this.#scheduler.after(disturbance, ROUND_MS, 'disturb', round)
  }

  /** From now on nothing fails any more. */
  end(): void {
    this.#rates = noFaults
    this.#cuts.clear()
  }

  /** How long a message takes, in milliseconds; undefined if it is lost. */
  delay(): number | undefined {
    if (this.#random.chance(this.#rates.loss)) return undefined
    return this.latency()
  }

  /** How long something takes that does not get lost, in milliseconds. */
  latency(): number {
    const short = 0.2 + 3 * this.#random.next() ** 2
    return this.#random.chance(this.#rates.slow) ? short + 5000 * this.#random.next() : short
  }

  /** Whether a gateway is cut off from the store or a server. */
  isCut(process: SimulatedProcess, way: string): boolean {
    const until = this.#cuts.get(`${process.machine} ${way}`)
    return until !== undefined && until > this.#scheduler.time
  }

  fate(process: SimulatedProcess, isWrite: boolean): StoreFate {
    const [there, back] = [this.delay(), this.delay()]
    if (this.isCut(process, 'store') || there === undefined) return { there: 0, back: 0, lost: 'request' }
    if (isWrite && this.#random.chance(this.#rates.crashAtWrite))
      return { there, back: 0, crash: this.#random.pick(['before', 'after']) }
    return back === undefined ? { there, back: 0, lost: 'response' } : { there, back }
  }

  crash(process: SimulatedProcess): void {
    this.#victims.find((each) => each.process === process)?.crash()
  }

  #disturb(victim: Victim, ways: readonly [string, ...string[]]): void {
    const { process } = victim
    if (!process) return
    const { crash, partition, jump } = this.#rates
    if (this.#random.chance(crash)) {
      if (this.#random.chance(0.7)) victim.crash()
      else victim.stop()
      return
    }
    if (this.#random.chance(partition)) {
      const way = this.#random.pick(ways)
      this.#cuts.set(
        `${process.machine} ${way}`,
        this.#scheduler.time + MAX_PARTITION_MS * this.#random.next(),
      )
      this.#history.add({ kind: 'fault', what: `cut off from ${way}`, process: process.name })
    }
    if (this.#random.chance(jump)) {
      process.skew = Math.round((this.#random.next() * 2 - 1) * MAX_SKEW_MS)
      this.#history.add({ kind: 'fault', what: `clock ${process.skew} ms ahead`, process: process.name })
    }
  }
}
