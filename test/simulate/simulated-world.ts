/** The world in which simulated gateways run: virtual time, timers as events, seeded randomness. */
import type { Timer, World } from '../../src/core/world.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedEvent, SimulatedProcess } from './scheduler.ts'

/** The time at which a simulation starts, in milliseconds since 1970. */
const START_TIME = Date.UTC(2030, 0, 1)

/** The world of one simulation. `isRunning` finds processes by their ids. */
export function simulatedWorld(
  scheduler: Scheduler,
  random: Seeded,
  isRunning: (processId: number) => boolean,
): World {
  let requests = 0
  const current = (): SimulatedProcess => {
    if (!scheduler.current) throw new Error('The world was used outside of a simulated event.')
    return scheduler.current
  }
  const bytes = (size: number): Buffer => {
    const made = Buffer.alloc(size)
    for (let at = 0; at < size; at++) made[at] = random.below(256)
    return made
  }
  const later = (run: () => void, delay: number, kind: string): SimulatedEvent =>
    scheduler.after(current(), delay, kind, run)
  return {
    now: () => Math.floor(START_TIME + scheduler.time + (scheduler.current?.skew ?? 0)),
    monotonic: () => scheduler.time,
    setTimeout: (run, delay = 0, ...args) =>
      new SimulatedTimer(scheduler, current(), { run: () => run(...args), delay, isRepeated: false }),
    clearTimeout: clear,
    setInterval: (run, delay) => new SimulatedTimer(scheduler, current(), { run, delay, isRepeated: true }),
    clearInterval: clear,
    setImmediate: (run) => scheduler.atEndOfTurn(run),
    timeoutSignal: (delay) => {
      const controller = new AbortController()
      const late = new DOMException('The operation was aborted due to timeout', 'TimeoutError')
      later(() => controller.abort(late), delay, 'timeout')
      return controller.signal
    },
    random: () => random.next(),
    randomBytes: bytes,
    randomInt: (limit) => random.below(limit),
    randomUUID: () => {
      const hex = bytes(16).toString('hex')
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20)}`
    },
    elsewhere: (work) => scheduler.elsewhere(work),
    requestId: () => `simulated-${++requests}`,
    machine: () => current().machine,
    processId: () => current().id,
    isRunning,
  }
}

interface Timing {
  readonly run: () => void
  readonly delay: number
  readonly isRepeated: boolean
}

class SimulatedTimer implements Timer {
  readonly #scheduler: Scheduler
  readonly #process: SimulatedProcess
  readonly #timing: Timing
  #event: SimulatedEvent

  constructor(scheduler: Scheduler, process: SimulatedProcess, timing: Timing) {
    this.#scheduler = scheduler
    this.#process = process
    this.#timing = timing
    this.#event = this.#start()
  }

  unref(): this {
    return this
  }

  refresh(): this {
    this.stop()
    this.#event = this.#start()
    return this
  }

  stop(): void {
    this.#scheduler.cancel(this.#event)
  }

  #start(): SimulatedEvent {
    const { run, delay, isRepeated } = this.#timing
    // As with Node.js, a timer takes at least a millisecond.
    return this.#scheduler.after(this.#process, Math.max(1, delay), 'timer', () => {
      if (isRepeated) this.#event = this.#start()
      run()
    })
  }
}

function clear(timer: Timer | undefined): void {
  if (timer instanceof SimulatedTimer) timer.stop()
}
