/**
 * Virtual time: the events of all simulated processes, in the order of their times. One event runs until nothing more
 * happens without another one, so that everything that it causes belongs to its process.
 */

/** A simulated process: a gateway, a server, a client, or the store. */
export interface SimulatedProcess {
  readonly name: string
  /** Its process id; a gateway that starts again is another process. */
  readonly id: number
  readonly machine: string
  /** How far its clock is ahead, in milliseconds. */
  skew: number
  isAlive: boolean
  /** Until when nothing of it runs, as of a process that got SIGSTOP, in milliseconds since the start. */
  stoppedUntil: number
}

/** An event that is due at a time. */
export interface SimulatedEvent {
  readonly process: SimulatedProcess
  readonly kind: string
  /** In milliseconds since the start of the simulation. */
  at: number
  readonly order: number
  run: (() => void) | undefined
}

/** The events of a simulation. */
export class Scheduler {
  /** Milliseconds since the start of the simulation. */
  time = 0
  /** How many events have run. */
  steps = 0
  /** The process whose event runs. */
  current: SimulatedProcess | undefined
  /** A hash of what ran so far: equal runs have equal traces. */
  trace = 0x811c9dc5
  readonly #events: SimulatedEvent[] = []
  #lastProcess = 1000
  #order = 0
  #elsewhere = 0
  #lastElsewhere = Promise.resolve()
  #endOfTurn: (() => void)[] = []
  readonly #turns: number

  /** `turns` is how many turns of the real event loop settle what an event causes; libraries may wait for some. */
  constructor(turns = 1) {
    this.#turns = turns
  }

  /** A new process. */
  process(name: string, machine = name): SimulatedProcess {
    return { name, machine, id: ++this.#lastProcess, skew: 0, isAlive: true, stoppedUntil: 0 }
  }

  /** Has a process run something after a delay in milliseconds, unless it ends before. */
  after(process: SimulatedProcess, delay: number, kind: string, run: () => void): SimulatedEvent {
    const event = { process, kind, at: this.time + Math.max(0, delay), order: ++this.#order, run }
    if (process.isAlive) this.#push(event)
    return event
  }

  cancel(event: SimulatedEvent): void {
    event.run = undefined
  }

  /** Runs the next event and all that follows from it at once; false if there is none. */
  async step(): Promise<boolean> {
    for (let event = this.#pop(); event; event = this.#pop()) {
      const { run, process, at, kind } = event
      if (!run || !process.isAlive) continue
      if (process.stoppedUntil > at) {
        event.at = process.stoppedUntil
        this.#push(event)
        continue
      }
      this.time = Math.max(this.time, at)
      this.steps++
      this.#note(kind, process.id)
      this.current = process
      run()
      await this.#settled()
      for (let ending = this.#endOfTurn; ending.length > 0; ending = this.#endOfTurn) {
        this.#endOfTurn = []
        for (const end of ending) end()
        await this.#settled()
      }
      this.current = undefined
      return true
    }
    return false
  }

  /** Runs something once all else of this event has, as the end of a turn of the event loop. */
  atEndOfTurn(run: () => void): void {
    this.#endOfTurn.push(run)
  }

  /** Promises settle before this does: nothing else in a simulation waits for anything outside of it. */
  async #settled(): Promise<void> {
    do await this.#pass()
    while (this.#elsewhere > 0)
  }

  /** Waits for so many turns of the real event loop as it takes until promises have settled. */
  readonly #pass = async (): Promise<void> => {
    for (let turn = 0; turn < this.#turns; turn++) await settled()
  }

  /**
   * Work outside of the simulation, which takes no simulated time. How long it really takes must make no difference: one
   * work begins after the other, and its end is seen once all else has settled, even if it was done at once.
   */
  async elsewhere<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#elsewhere++
    const done = this.#lastElsewhere.then(work)
    this.#lastElsewhere = done.then(this.#pass, this.#pass)
    try {
      await this.#lastElsewhere
      return await done
    } finally {
      this.#elsewhere--
    }
  }

  #note(kind: string, process: number): void {
    this.mix(process)
    this.mix(Math.floor(this.time * 1000))
    for (let at = 0; at < kind.length; at++) this.mix(kind.charCodeAt(at))
  }

  /** Adds a number to the trace (FNV-1a). */
  mix(value: number): void {
    this.trace = Math.imul(this.trace ^ (value | 0), 0x01000193) >>> 0
  }

  // A binary heap by time; events of the same time run in the order in which they were added.

  #push(event: SimulatedEvent): void {
    const events = this.#events
    let at = events.length
    events.push(event)
    while (at > 0) {
      const above = (at - 1) >> 1
      const parent = events[above]
      if (!parent || isBefore(parent, event)) break
      events[at] = parent
      at = above
    }
    events[at] = event
  }

  #pop(): SimulatedEvent | undefined {
    const events = this.#events
    const [first] = events
    const last = events.pop()
    if (!first || !last || events.length === 0) return first
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      const [left, right] = [events[child], events[child + 1]]
      if (left && right && isBefore(right, left)) child++
      const smallest = events[child]
      if (!smallest || isBefore(last, smallest)) break
      events[at] = smallest
      at = child
    }
    events[at] = last
    return first
  }
}

/** Resolves after all promises that do not wait for anything outside. */
function settled(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve))
}

function isBefore(one: SimulatedEvent, other: SimulatedEvent): boolean {
  return one.at < other.at || (one.at === other.at && one.order < other.order)
}
