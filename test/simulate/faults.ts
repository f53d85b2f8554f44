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
  /** A gateway of a fleet stands still for a while. */
  readonly pause: number
  /** One stops in order, as it is told. */
  readonly drain: number
  /** The store is away for all of them. */
  readonly outage: number
  /** A server takes long for a call, and how long at most, in milliseconds. */
  readonly busy: number
  readonly work: number
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
  pause: 0,
  drain: 0,
  outage: 0,
  busy: 0,
  work: 20_000,
}

const few: FaultRates = {
  ...noFaults,
  loss: 0.01,
  slow: 0.01,
  crashAtWrite: 0.001,
  crash: 0.01,
  partition: 0.01,
  jump: 0.02,
  server: 0.05,
  busy: 0.01,
  lie: 0.005,
}

const many: FaultRates = {
  ...noFaults,
  loss: 0.05,
  slow: 0.05,
  crashAtWrite: 0.01,
  crash: 0.05,
  partition: 0.05,
  jump: 0.1,
  server: 0.2,
  busy: 0.04,
  lie: 0.02,
}

/** What may fail together, by name. */
export const faultSets = {
  none: noFaults,
  few,
  many,
  crashing: { ...noFaults, crashAtWrite: 0.03, crash: 0.1 },
  // In a fleet, gateways also stand still, are told to stop, and lose their store together.
  // Without calls that take long, none is under way when its gateway stops.
  rolling: { ...noFaults, drain: 0.1, busy: 0.2, work: 5000 },
  // Many calls are still under way when their gateway ends, and have no stream yet.
  killing: { ...noFaults, crash: 0.1, drain: 0.05, crashAtWrite: 0.003, server: 0.5, busy: 0.1, work: 2000 },
  stalling: { ...noFaults, pause: 0.12, crash: 0.02 },
  cutting: { ...noFaults, partition: 0.06, outage: 0.04, jump: 0.05 },
  some: { ...few, pause: 0.02, drain: 0.02, outage: 0.01 },
  most: { ...many, pause: 0.05, drain: 0.05, outage: 0.02 },
} as const satisfies Record<string, FaultRates>

/** The name of what may fail together. */
export type FaultSet = keyof typeof faultSets

/** What may fail in a simulation: in some nothing, in some little, in some much. */
export function chooseFaults(random: Seeded): FaultSet {
  return random.pick(['none', 'few', 'few', 'many', 'many', 'crashing'])
}

/** The same for a fleet. */
export function chooseFleetFaults(random: Seeded): FaultSet {
  const usual = ['rolling', 'killing', 'killing', 'stalling', 'stalling', 'stalling', 'cutting'] as const
  return random.pick([...usual, 'some', 'most'])
}

/** The most by which a clock is ahead or behind, in milliseconds. */
export const MAX_SKEW_MS = 2000
/** How often something may happen besides the faults of messages, in milliseconds. */
const ROUND_MS = 2000
const MAX_PARTITION_MS = 25_000
/** How long a gateway stands still at most, in milliseconds: twice as long as its heartbeat is valid. */
const MAX_PAUSE_MS = 20_000
/** The machine that stands for all of them. */
const ALL = '*'

/** What the faults can act on. */
export interface Victim {
  readonly name: string
  readonly process: SimulatedProcess | undefined
  crash(): void
  stop(): void
  /** Has it stopped by an order in the store. */
  order(): void
  /** Stands still, in milliseconds. */
  pause(milliseconds: number): void
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
  readonly #missed = new Map<number, number>()

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
      if (this.#happens(this.#rates.outage)) this.#cut(ALL, 'store', 'all gateways')
      if (this.#rates !== noFaults)
        this.#scheduler.after(disturbance, ROUND_MS * (0.5 + this.#random.next()), 'disturb', round)
    }
    if (this.#rates !== noFaults) this.#scheduler.after(disturbance, ROUND_MS, 'disturb', round)
  }

  /** When an answer of the store did not reach a process last, in milliseconds; undefined if each did. */
  missedAt(process: number): number | undefined {
    return this.#missed.get(process)
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

  /** How long it takes until a broken connection is noticed, in milliseconds. */
  notice(most: number): number {
    return this.#random.chance(0.7) ? this.latency() : most * this.#random.next()
  }

  /** Whether a gateway is cut off from the store or a server. */
  isCut(process: SimulatedProcess, way: string): boolean {
    const isCut = (machine: string): boolean =>
      (this.#cuts.get(`${machine} ${way}`) ?? 0) > this.#scheduler.time
    return isCut(process.machine) || isCut(ALL)
  }

  fate(process: SimulatedProcess, isWrite: boolean): StoreFate {
    const [there, back] = [this.delay(), this.delay()]
    const isCut = this.isCut(process, 'store')
    if (isCut || there === undefined || back === undefined) this.#missed.set(process.id, this.#scheduler.time)
    if (isCut || there === undefined) return { there: 0, back: 0, lost: 'request' }
    if (isWrite && this.#random.chance(this.#rates.crashAtWrite))
      return { there, back: 0, crash: this.#random.pick(['before', 'after']) }
    return back === undefined ? { there, back: 0, lost: 'response' } : { there, back }
  }

  crash(process: SimulatedProcess): void {
    this.#victims.find((each) => each.process === process)?.crash()
  }

  /** Draws nothing if it cannot happen. */
  #happens(rate: number): boolean {
    return rate > 0 && this.#random.chance(rate)
  }

  #cut(machine: string, way: string, who: string): void {
    const until = this.#scheduler.time + MAX_PARTITION_MS * this.#random.next()
    this.#cuts.set(`${machine} ${way}`, until)
    this.#history.add({ kind: 'fault', what: `cut off from ${way}`, process: who, until: Math.round(until) })
  }

  #disturb(victim: Victim, ways: readonly [string, ...string[]]): void {
    const { process } = victim
    if (!process) return
    const { crash, partition, jump, pause, drain } = this.#rates
    if (this.#random.chance(crash)) {
      if (this.#random.chance(0.7)) victim.crash()
      else victim.stop()
      return
    }
    // Most are longer than a heartbeat is valid.
    if (this.#happens(pause)) return victim.pause(MAX_PAUSE_MS * Math.sqrt(this.#random.next()))
    if (this.#happens(drain)) return this.#random.chance(0.5) ? victim.stop() : victim.order()
    if (this.#random.chance(partition)) this.#cut(process.machine, this.#random.pick(ways), process.name)
    if (this.#random.chance(jump)) {
      process.skew = Math.round((this.#random.next() * 2 - 1) * MAX_SKEW_MS)
      this.#history.add({ kind: 'fault', what: `clock ${process.skew} ms ahead`, process: process.name })
    }
  }
}
