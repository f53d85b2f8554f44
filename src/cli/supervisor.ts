/**
 * The supervisor of several workers that serve as one gateway. It has no gateway, store or configuration of its own: it holds the
 * port, of which it gives each worker a connection in turn (`node:cluster`), keeps the workers running, and passes on between
 * them what each of them counts.
 *
 * The first worker starts alone. If it ends before it serves, all ends with its exit code: it has said why. Then the others start,
 * and one that ends is started again, after a delay that grows while it ends soon. A stop is passed on to all workers, which
 * finish what they do; those that do not end in time are ended by force.
 */
import type { ChildProcess, Serializable } from 'node:child_process'
import cluster from 'node:cluster'
import type { Log } from '../core/log.ts'
import { ReopenDelays } from '../core/time/backoff.ts'
import { ifAnswered } from '../core/time/waiting.ts'
import { type Timer, world } from '../core/world.ts'
import { type Snapshot, summed } from '../observability/worker-metrics.ts'
import type { Bound, Place } from './io.ts'
import { type FromWorker, PLACE_VARIABLE, type ToWorker } from './worker.ts'

/** The process of a worker. */
export interface WorkerProcess {
  readonly pid: number | undefined
  send(message: ToWorker): void
  /** Ends it by force. */
  kill(): void
}

/** What a supervisor learns of a process. */
export interface WorkerEvents {
  said(message: FromWorker): void
  /** Called once. */
  ended(code: number | null, signal: string | null): void
}

interface SupervisorOptions {
  readonly count: number
  fork(place: Place, events: WorkerEvents): WorkerProcess
  readonly log: Log
}

/** The delay before a worker is started again that had run for long, in milliseconds. */
const FIRST_DELAY_MS = 100
/** How long workers may take to end, in milliseconds: more than `serve` takes. */
const STOP_TIMEOUT_MS = 25_000
/** How long a worker may take to say what it counts, in milliseconds. */
const SNAPSHOT_TIMEOUT_MS = 1000

/** Keeps workers running. */
export class Supervisor {
  readonly #options: SupervisorOptions
  readonly #snapshots: Snapshots
  /** The workers that run, by number. */
  readonly #running = new Map<number, WorkerProcess>()
  readonly #restarts = new Map<number, Timer>()
  readonly #ended = Promise.withResolvers<number>()
  /** Where all workers listen, once the first one does. */
  #bound: Bound | undefined
  #isStopping = false
  #code = 0
  #force: Timer | undefined

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#snapshots = new Snapshots(this.#running)
  }

  /** Runs the workers until all have ended after a stop, or none could start. Resolves with the exit code. */
  run(): Promise<number> {
    this.#start(1, { isFirst: true, delays: new ReopenDelays(FIRST_DELAY_MS) })
    return this.#ended.promise
  }

  /** Has all workers finish what they do, and end. */
  stop(): void {
    if (this.#isStopping) return
    this.#isStopping = true
    for (const timer of this.#restarts.values()) world.clearTimeout(timer)
    for (const worker of this.#running.values()) worker.send({ type: 'stop' })
    this.#force = world.setTimeout(() => {
      for (const [number, worker] of this.#running) {
        this.#options.log.error('worker.killed', { worker: number, after_ms: STOP_TIMEOUT_MS })
        worker.kill()
      }
    }, STOP_TIMEOUT_MS)
    this.#endIfDone()
  }

  #start(number: number, { isFirst = false, delays }: { isFirst?: boolean; delays: ReopenDelays }): void {
    this.#restarts.delete(number)
    const start = world.monotonic()
    const worker = this.#options.fork(
      { number, count: this.#options.count, isFirst, bound: this.#bound },
      {
        said: (message) => {
          if (message.type === 'serving') this.#serves(message.bound)
          else this.#snapshots.said(number, message)
        },
        ended: (code, signal) => {
          this.#running.delete(number)
          this.#snapshots.ended(number)
          this.#endedWith(code ?? 1, () => {
            const delay = delays.after(start)
            this.#options.log.warn('worker.ended', { worker: number, code, signal, restart_ms: delay })
            this.#restarts.set(
              number,
              world.setTimeout(() => this.#start(number, { delays }), delay),
            )
          })
        },
      },
    )
    this.#running.set(number, worker)
    this.#options.log.info('worker.started', { worker: number, pid: worker.pid })
  }

  #serves(bound: Bound): void {
    if (this.#bound) return
    this.#bound = bound
    if (this.#isStopping) return
    for (let number = 2; number <= this.#options.count; number++)
      this.#start(number, { delays: new ReopenDelays(FIRST_DELAY_MS) })
  }

  #endedWith(code: number, restart: () => void): void {
    if (this.#isStopping || !this.#bound) {
      this.#code ||= code
      this.#endIfDone()
      return
    }
    restart()
  }

  #endIfDone(): void {
    if (this.#running.size > 0) return
    world.clearTimeout(this.#force)
    this.#ended.resolve(this.#code)
  }
}

/** What the workers count, for the one that is asked for the metrics of all. */
class Snapshots {
  readonly #running: ReadonlyMap<number, WorkerProcess>
  /** The last sums of each worker, and those of all that have ended. */
  readonly #last = new Map<number, string>()
  #past = ''
  readonly #waiting = new Map<number, (snapshot: Snapshot) => void>()
  #asked = 0

  constructor(running: ReadonlyMap<number, WorkerProcess>) {
    this.#running = running
  }

  said(from: number, message: Exclude<FromWorker, { type: 'serving' }>): void {
    if (message.type === 'snapshot') this.#waiting.get(message.id)?.(message.snapshot)
    else void this.#collect(from, message)
  }

  /** What it counted stays in the sums. */
  ended(number: number): void {
    const last = this.#last.get(number)
    this.#last.delete(number)
    if (last !== undefined) this.#past = summed([this.#past, last])
  }

  async #collect(from: number, { id, own }: { readonly id: number; readonly own: Snapshot }): Promise<void> {
    this.#last.set(from, own.sums)
    const others = [...this.#running].filter(([number]) => number !== from)
    const found = await Promise.all(others.map(async ([, worker]) => this.#snapshotOf(worker)))
    // Of those that ended in the meantime, the sums are among the past ones.
    const present = others.flatMap(([number, worker], index) =>
      this.#running.get(number) === worker ? [{ number, snapshot: found[index] }] : [],
    )
    const answers = present.flatMap(({ snapshot }) => snapshot ?? [])
    for (const { number, snapshot } of present) if (snapshot) this.#last.set(number, snapshot.sums)
    const silent = present.flatMap(({ number, snapshot }) => (snapshot ? [] : (this.#last.get(number) ?? '')))
    const past = [this.#past, ...silent]
    this.#running.get(from)?.send({ type: 'collected', id, answers, past, silent: silent.length })
  }

  async #snapshotOf(worker: WorkerProcess): Promise<Snapshot | undefined> {
    const id = ++this.#asked
    const answer = new Promise<Snapshot>((resolve) => this.#waiting.set(id, resolve))
    worker.send({ type: 'collect', id })
    const snapshot = await ifAnswered(answer, SNAPSHOT_TIMEOUT_MS)
    this.#waiting.delete(id)
    return snapshot
  }
}

/** Starts the process of a worker, with the command line of this one. */
export function forkWorker(place: Place, events: WorkerEvents): WorkerProcess {
  // In turn, on all systems. Had each worker a socket of its own (SO_REUSEPORT), one that is stopped would still get its share, and
  // a second gateway could take the port without an error. Of one socket that they share, one worker takes most connections.
  cluster.schedulingPolicy = cluster.SCHED_RR
  const worker = cluster.fork({
    [PLACE_VARIABLE]: JSON.stringify(place),
    // Each process would keep what it read there: 5 MB, for a start that is a third of a second shorter, and not waited for.
    ...(!place.isFirst && { NODE_DISABLE_COMPILE_CACHE: '1' }),
  })
  closeUntaken(worker.process)
  let hasEnded = false
  const ended = (code: number | null, signal: string | null): void => {
    if (hasEnded) return
    hasEnded = true
    events.ended(code, signal)
  }
  // Both ends of the channel are of this program.
  worker.on('message', (message: FromWorker) => events.said(message))
  worker.process.once('exit', ended)
  // It could not be started, or a message not be sent to it, when it has ended.
  worker.on('error', () => worker.process.pid === undefined && ended(1, null))
  return {
    pid: worker.process.pid,
    send: (message) => void (worker.isConnected() && worker.send(message, () => undefined)),
    kill: () => void worker.process.kill('SIGKILL'),
  }
}

/**
 * Closes the connection that was being handed to a worker when it ended: Node.js keeps it open, and its client would wait for an answer.
 * There is one at a time, as the next is handed over once a worker has taken it. One that was taken is closed here already.
 */
function closeUntaken(child: ChildProcess): void {
  const send = child.send.bind(child)
  let last: unknown
  child.send = (message: Serializable, handle?: unknown, ...rest: readonly unknown[]) => {
    if (typeof handle === 'object' && handle !== null) last = handle
    return Reflect.apply(send, undefined, [message, handle, ...rest])
  }
  child.once('exit', () => {
    if (typeof last === 'object' && last !== null && 'close' in last && typeof last.close === 'function')
      Reflect.apply(last.close, last, [])
  })
}
