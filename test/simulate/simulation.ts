/**
 * One simulation: gateways, servers, clients and the store in one process, driven by one seed. The same seed and settings
 * give the same history, to the last event.
 */
import type { IncomingMessage } from 'node:http'
import type { Settings } from '../../src/core/settings.ts'
import { enterWorld } from '../../src/core/world.ts'
import { startApprover } from './approver.ts'
import { readJson, isObject } from '../../src/core/json/json.ts'
import { Balancer } from './balancer.ts'
import { Client } from './client.ts'
import { chooseFaults, chooseFleetFaults, Faults, type FaultSet, faultSets } from './faults.ts'
import { type Entry, History, subjectsOf } from './history.ts'
import { SimulatedNetwork } from './network.ts'
import { OddNumbers } from './odd-numbers.ts'
import { type Seeded, seeded } from './random.ts'
import { CLIENTS_END, rules } from './rules/rules.ts'
import type { Rule } from './rules/rule.ts'
import { Scheduler, type SimulatedProcess } from './scheduler.ts'
import { SessionClient } from './session-client.ts'
import { attemptOf, workInSessions } from './session-workload.ts'
import { FLEET_PORT } from './settings.ts'
import { type Front, SimulatedGateway } from './simulated-gateway.ts'
import { SimulatedServer } from './simulated-server.ts'
import { SimulatedData, SimulatedStore } from './simulated-store.ts'
import { simulatedWorld } from './simulated-world.ts'
import { watch } from './watcher.ts'
import { type BegunTransaction, type Field, finalStatus, work } from './workload.ts'

/** What is simulated. */
export interface SimulationOptions {
  readonly seed: number
  /** After how many steps clients begin no more work. */
  readonly steps: number
  readonly gateways: number
  /** With the simulated servers, see `settings.ts`. */
  readonly settings: Settings
  /** Whether clients reach the gateways over HTTP, behind a balancer, and some of them have sessions. */
  readonly isFleet?: boolean
  /** What fails; by default the seed chooses. */
  readonly faultSet?: FaultSet | undefined
}

/** A rule that did not hold. */
interface Violation {
  readonly rule: string
  readonly message: string
  readonly step: number
  /** The last entries about what is concerned, and the faults among them. */
  readonly entries: readonly Entry[]
}

/** How a simulation went. */
export interface SimulationResult {
  readonly seed: number
  readonly steps: number
  /** The simulated time, in milliseconds. */
  readonly duration: number
  /** Identifies the history and all events. */
  readonly hash: string
  readonly attempts: number
  readonly effects: number
  readonly faults: number
  readonly violation?: Violation
}

/** How many steps may follow until everything is settled. */
const MAX_FINAL_STEPS = 300_000
const MAX_ENTRIES = 40
/** The callers. */
export const PRINCIPALS = ['user:ann', 'user:bob', 'user:cleo'] as const
/** How many turns of the event loop HTTP over simulated connections takes at most, after one event. */
const FLEET_TURNS = 5
/** When the last gateway of a fleet is added at the latest, in milliseconds. */
const LAST_ADDED_MS = 30_000

/** Runs one simulation. */
export async function simulate(options: SimulationOptions): Promise<SimulationResult> {
  const run = new Simulation(options)
  const leave = enterWorld(run.world)
  const onDefect = (reason: unknown): void => run.reportDefect(reason)
  process.on('unhandledRejection', onDefect)
  process.on('uncaughtException', onDefect)
  try {
    return await run.run()
  } finally {
    process.off('unhandledRejection', onDefect)
    process.off('uncaughtException', onDefect)
    leave()
  }
}

class Simulation {
  readonly world
  readonly #options: SimulationOptions
  readonly #scheduler: Scheduler
  readonly #history: History
  readonly #faults: Faults
  readonly #rules: readonly Rule[]
  readonly #servers: ReadonlyMap<string, SimulatedServer>
  readonly #gateways: readonly SimulatedGateway[]
  /** In front of a fleet. */
  readonly #balancer: Balancer | undefined
  readonly #data: SimulatedData
  readonly #random: Record<
    'faults' | 'servers' | 'clients' | 'people' | 'restarts' | 'sessions' | 'balancer',
    Seeded
  >
  #violation: Violation | undefined
  #isEnding = false
  #last = 0

  constructor(options: SimulationOptions) {
    const { seed, settings, isFleet = false, faultSet } = options
    this.#options = options
    const scheduler = new Scheduler(isFleet ? FLEET_TURNS : 1)
    this.#scheduler = scheduler
    const stream = (number: number): Seeded => seeded(Math.imul(seed, 0x9e3779b1) + number)
    this.#random = {
      faults: stream(1),
      servers: stream(2),
      clients: stream(3),
      people: stream(4),
      restarts: stream(5),
      sessions: stream(7),
      balancer: stream(8),
    }
    this.world = simulatedWorld(scheduler, stream(6), (id) => this.#isRunning(id))
    const chosen = isFleet ? chooseFleetFaults(this.#random.faults) : chooseFaults(this.#random.faults)
    const rates = faultSets[faultSet ?? chosen]
    const facts = { missedAt: (process: number) => this.#faults.missedAt(process) }
    this.#rules = rules.map((create) => create(rates, facts))
    this.#history = new History(
      () => ({ step: scheduler.steps, at: Math.round(scheduler.time) }),
      (entry) => this.#check(entry),
    )
    const history = this.#history
    this.#faults = new Faults(scheduler, this.#random.faults, { rates, history })
    const faults = this.#faults
    this.#data = new SimulatedData(scheduler, (key, value) => this.#written(key, value))
    const network = isFleet ? this.#network() : undefined
    const surroundings = { scheduler, random: this.#random.servers, faults, history }
    this.#servers = new Map(
      settings.upstreams.map(({ name }) => [name, new SimulatedServer({ ...surroundings, name })]),
    )
    const shared = { settings, scheduler, faults, history, data: this.#data, servers: this.#servers }
    const hosts = Array.from({ length: options.gateways }, (_each, index) => `10.0.0.${index + 1}`)
    this.#gateways = hosts.map((host, index) => {
      // Every second one shares its machine with the one before.
      const machine = `machine-${(index >> 1) + 1}`
      const member = network && { member: { network, host, machine } }
      return new SimulatedGateway({ ...shared, ...member, name: `gateway-${index + 1}` }, () =>
        this.#random.restarts.next(),
      )
    })
    const port = FLEET_PORT
    this.#balancer =
      network && new Balancer({ network, scheduler, random: this.#random.balancer, hosts, port })
  }

  /** An error that nothing caught. */
  reportDefect(reason: unknown): void {
    const what = reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)
    this.#history.add({ kind: 'defect', what: `unhandled: ${what}` })
  }

  async run(): Promise<SimulationResult> {
    const { steps } = this.#options
    // A fleet grows.
    const last = this.#gateways.at(-1)
    for (const gateway of this.#gateways)
      gateway.start(this.#balancer && gateway === last ? LAST_ADDED_MS * this.#random.restarts.next() : 0)
    this.#startApprover()
    const done = this.#startClients()
    let isDone = false
    done.then(
      () => (isDone = true),
      (error: unknown) => this.reportDefect(error),
    )
    const ways = this.#balancer ? ['fleet', 'clients'] : []
    this.#faults.begin(this.#gateways, ['store', ...this.#servers.keys(), ...ways])
    const limit = steps + MAX_FINAL_STEPS
    while (!this.#violation && !isDone && this.#scheduler.steps < limit) {
      if (this.#scheduler.steps >= steps) this.#end()
      try {
        if (!(await this.#scheduler.step())) break
      } catch (error) {
        // It would have ended the process of the gateway.
        this.reportDefect(error)
      }
    }
    if (!this.#violation) this.#finish(isDone)
    return this.#result()
  }

  #startApprover(): void {
    const scheduler = this.#scheduler
    const process = scheduler.process('approver')
    const store = new SimulatedStore(process, { data: this.#data, scheduler, faults: this.#faults })
    startApprover({ process, scheduler, random: this.#random.people, history: this.#history, store })
  }

  /** Resolves once all clients are done, and know how their transactions ended. */
  async #startClients(): Promise<void> {
    const field = this.#field()
    const surroundings = { scheduler: this.#scheduler }
    const clients = [...PRINCIPALS, ...PRINCIPALS, ...PRINCIPALS, ...PRINCIPALS].map((principal, index) => {
      const process = this.#scheduler.process(`client-${index + 1}`)
      return new Client(process, principal, surroundings)
    })
    const watcher = new Client(this.#scheduler.process('watcher'), PRINCIPALS[0], surroundings)
    const watching = watch(watcher, field)
    const inSessions = this.#startSessions(field)
    const begun = await Promise.all(clients.map((client) => this.#workOf(client, field)))
    await watching
    await inSessions
    for (const each of begun.flat()) await finalStatus(each, field)
  }

  /** Resolves once all clients with sessions are done. */
  async #startSessions(field: Field): Promise<void> {
    const [balancer, scheduler] = [this.#balancer, this.#scheduler]
    if (!balancer) return
    const random = this.#random.sessions
    const around = { balancer, scheduler, history: this.#history, random }
    const working = [...PRINCIPALS, ...PRINCIPALS].map((principal, index) => {
      const process = scheduler.process(`session-client-${index + 1}`)
      const client = new SessionClient(process, principal, { ...around, server: random.pick(field.servers) })
      return workInSessions(client, { ...field, random })
    })
    await Promise.all(working)
  }

  /** The network of a fleet. */
  #network(): SimulatedNetwork {
    const onRequest = ({ id }: SimulatedProcess, { headers }: IncomingMessage): void => {
      const attempt = attemptOf(headers['x-request-id'])
      if (attempt !== undefined) this.#history.add({ kind: 'handled', attempt, by: id })
    }
    return new SimulatedNetwork({ scheduler: this.#scheduler, faults: this.#faults, onRequest })
  }

  /** Notes who owns a session. */
  #written(key: string, text: string): void {
    const record = /^client-session\/\w+:(\w+)$/.exec(key)?.[1]
    const value = record === undefined ? undefined : readJson(text)
    if (record === undefined || !isObject(value)) return
    const { owner, generation } = value
    const by = typeof owner === 'string' ? Number(owner.split('.')[1]) : 0
    this.#history.add({ kind: 'owned', record, by, generation: Number(generation) })
  }

  async #workOf(client: Client, field: Field): Promise<readonly BegunTransaction[]> {
    await client.pause(500)
    return work(client, field)
  }

  #field(): Field {
    const [first, ...others]: readonly Front[] = this.#balancer ? [this.#balancer] : this.#gateways
    const [server, ...servers] = this.#servers.keys()
    if (!first || server === undefined) throw new TypeError('a simulation needs a gateway and a server')
    return {
      random: this.#random.clients,
      history: this.#history,
      gateways: [first, ...others],
      isFleet: this.#balancer !== undefined,
      servers: [server, ...servers],
      orders: new OddNumbers(),
      amounts: new OddNumbers(),
      next: () => ++this.#last,
      isEnding: () => this.#isEnding,
    }
  }

  #end(): void {
    if (this.#isEnding) return
    this.#isEnding = true
    this.#faults.end()
  }

  #finish(isDone: boolean): void {
    if (!isDone) return this.#report(CLIENTS_END, 'the clients do not get to their end', [])
    const state = {
      thingsOf: (server: string, order: string) => this.#servers.get(server)?.thingsOf(order) ?? [],
    }
    for (const { name, finish } of this.#rules) {
      const found = finish?.(state)
      if (found !== undefined) return this.#report(name, found, wordsIn(found))
    }
  }

  #check(entry: Entry): void {
    if (this.#violation) return
    for (const rule of this.#rules) {
      const found = rule.observe(entry)
      if (found !== undefined)
        return this.#report(rule.name, found, [...subjectsOf(entry), ...wordsIn(found)])
    }
  }

  #report(rule: string, message: string, subjects: readonly string[]): void {
    const about = new Set(subjects)
    const own = this.#history.entries.filter((entry) => subjectsOf(entry).some((each) => about.has(each)))
    const [since = 0] = own.slice(-MAX_ENTRIES).map(({ step }) => step)
    const entries = this.#history.entries.filter(
      (entry) =>
        entry.step >= since && (own.includes(entry) || entry.kind === 'fault' || entry.kind === 'defect'),
    )
    this.#violation = { rule, message, step: this.#scheduler.steps, entries: entries.slice(-MAX_ENTRIES) }
  }

  #result(): SimulationResult {
    const { steps, time, trace } = this.#scheduler
    const count = (kind: Entry['kind']): number =>
      this.#history.entries.filter((entry) => entry.kind === kind).length
    return {
      seed: this.#options.seed,
      steps,
      duration: Math.round(time),
      hash: `${this.#history.digest().slice(0, 32)}-${trace.toString(16).padStart(8, '0')}`,
      attempts: count('invoke'),
      effects: count('effect'),
      faults: count('fault'),
      ...(this.#violation && { violation: this.#violation }),
    }
  }

  #isRunning(id: number): boolean {
    const processes: readonly (SimulatedProcess | undefined)[] = this.#gateways.map(({ process }) => process)
    return processes.some((each) => each?.id === id && each.isAlive)
  }
}

/** The names of operations and transactions in a text. */
function wordsIn(text: string): readonly string[] {
  const orders = [...text.matchAll(/\border ("?-?\d[\d.]*"?)/g)].map(([, order = '']) => order)
  return [...orders, ...(text.match(/\btransaction-\d+/g) ?? [])]
}
