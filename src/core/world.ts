/**
 * What a program cannot compute: time, timers, randomness, and which process it is. All code that a simulation may run
 * takes them from here, so that the simulator (`test/simulate`) can run whole gateways in a world of its own. Each function looks up
 * the global that it stands for when it is called.
 *
 * Code that only runs against real files, sockets and processes uses the globals: `test/unit/core/world.test.ts` lists it.
 */
import * as crypto from 'node:crypto'

/** A timer that can be cancelled. */
export interface Timer {
  /** The process may end before the timer does. */
  unref(): this
  /** Starts it again. */
  refresh(): this
}

/** The surroundings of a gateway. */
export interface World {
  /** Milliseconds since 1970; may jump. */
  now(): number
  /** Milliseconds from any origin; never decreases. */
  monotonic(): number
  setTimeout<Args extends unknown[]>(run: (...args: Args) => void, delay?: number, ...args: Args): Timer
  clearTimeout(timer: Timer | undefined): void
  setInterval(run: () => void, interval: number): Timer
  clearInterval(timer: Timer | undefined): void
  setImmediate(run: () => void): void
  /** A signal that is aborted with a `TimeoutError` after so many milliseconds. */
  timeoutSignal(delay: number): AbortSignal
  /** From 0, below 1. For anything but secrets. */
  random(): number
  randomBytes(size: number): Buffer
  /** A whole number from 0, below the limit. */
  randomInt(limit: number): number
  randomUUID(): string
  /** Does work whose progress this thread does not see, such as that of the thread pool. */
  elsewhere<Value>(work: () => Promise<Value>): Promise<Value>
  /** A short id that no other request of this or another process has. */
  requestId(): string
  /** The machine that this process runs on; undefined where the operating system has to be asked. */
  machine(): string | undefined
  /** The id of this process. */
  processId(): number
  /** Whether a process of this machine may still run. */
  isRunning(processId: number): boolean
}

/** Makes the ids of this process distinct from those of others. */
const prefix = crypto.randomUUID().slice(0, 8)
let requests = 0

const real: World = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimeout: (run, delay, ...args) => setTimeout(run, delay, ...args),
  clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  setInterval: (run, interval) => setInterval(run, interval),
  clearInterval: (timer) => clearInterval(timer as NodeJS.Timeout | undefined),
  setImmediate: (run) => void setImmediate(run),
  timeoutSignal: (delay) => AbortSignal.timeout(delay),
  random: () => Math.random(),
  randomBytes: (size) => crypto.randomBytes(size),
  randomInt: (limit) => crypto.randomInt(limit),
  randomUUID: () => crypto.randomUUID(),
  elsewhere: (work) => work(),
  requestId: () => `${prefix}-${++requests}`,
  machine: () => undefined,
  processId: () => process.pid,
  isRunning,
}

/** The world that this process is in. */
export const world: World = { ...real }

/** Puts this process into another world. Returns the function that brings it back to the real one. */
export function enterWorld(other: World): () => void {
  Object.assign(world, other)
  return () => void Object.assign(world, real)
}

/** Options of `LRUCache` for entries that expire by the time of the world. */
export const expiryByWorld = { perf: { now: () => world.monotonic() }, ttlResolution: 0 }

function isRunning(processId: number): boolean {
  try {
    process.kill(processId, 0)
    return true
  } catch (error) {
    // The process of another user exists, but must not be signalled.
    return !(error instanceof Error && 'code' in error && error.code === 'ESRCH')
  }
}
