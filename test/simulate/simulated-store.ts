/**
 * The store that simulated gateways share. Its content is reliable: what was acknowledged stays. The way to it is not:
 * requests and responses take time and get lost, so an operation that failed may still be carried out, as with Redis.
 */
import { GatewayError } from '../../src/core/error.ts'
import { ChunkedBlobs } from '../../src/store/blobs/chunks.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import type { NewValue, RateLimitWindow, Store, TokenGrant } from '../../src/store/store.ts'
import type { ChangeListener } from '../../src/store/watches.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'

/** How one operation fares on its way. */
export interface StoreFate {
  /** How long the request and the response take, in milliseconds. */
  readonly there: number
  readonly back: number
  readonly lost?: 'request' | 'response'
  /** The process ends before or after the operation is carried out. */
  readonly crash?: 'before' | 'after'
}

/** What decides over the operations of a process. */
export interface StoreFaults {
  fate(process: SimulatedProcess, isWrite: boolean): StoreFate
  crash(process: SimulatedProcess): void
}

/** How long a process waits for the store, in milliseconds. */
const TIMEOUT_MS = 2000

/** The content of the store. */
export class SimulatedData {
  readonly process: SimulatedProcess
  readonly values: MemoryStore
  /** Gets each value that is written. */
  readonly onWritten: (key: string, value: string) => void

  constructor(scheduler: Scheduler, onWritten: SimulatedData['onWritten'] = () => undefined) {
    this.onWritten = onWritten
    this.process = scheduler.process('store')
    this.values = new MemoryStore(() => scheduler.time)
  }
}

interface Connection {
  readonly data: SimulatedData
  readonly scheduler: Scheduler
  readonly faults: StoreFaults
}

/** The store as one process sees it. */
export class SimulatedStore implements Store {
  readonly blobs = new ChunkedBlobs(this)
  readonly #process: SimulatedProcess
  readonly #connection: Connection

  constructor(process: SimulatedProcess, connection: Connection) {
    this.#process = process
    this.#connection = connection
  }

  get(key: string): Promise<string | undefined> {
    return this.#ask('get', false, (values) => values.get(key))
  }

  put(key: string, value: string, ttl: number): Promise<void> {
    return this.#ask('put', true, async (values) => {
      await values.put(key, value, ttl)
      this.#connection.data.onWritten(key, value)
    })
  }

  putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void> {
    return this.#ask('put all', true, (data) => data.putAll(values, removed))
  }

  setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    return this.#ask('claim', true, async (values) => {
      const before = await values.setIfAbsent(key, value, ttl)
      if (before === undefined) this.#connection.data.onWritten(key, value)
      return before
    })
  }

  compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    return this.#ask('swap', true, async (values) => {
      const isSwapped = await values.compareAndSwap(key, before, value, ttl)
      if (isSwapped) this.#connection.data.onWritten(key, value)
      return isSwapped
    })
  }

  delete(key: string): Promise<boolean> {
    return this.#ask('delete', true, (values) => values.delete(key))
  }

  compareAndDelete(key: string, before: string): Promise<boolean> {
    return this.#ask('drop', true, (values) => values.compareAndDelete(key, before))
  }

  scan(collection: string): Promise<ReadonlyMap<string, string>> {
    return this.#ask('scan', false, (values) => values.scan(collection))
  }

  takeTokens(buckets: readonly RateLimitWindow[]): Promise<TokenGrant> {
    return this.#ask('take', true, async (values) => values.takeTokens(buckets))
  }

  peekTokens(buckets: readonly RateLimitWindow[]): Promise<TokenGrant> {
    return this.#ask('peek', false, async (values) => values.peekTokens(buckets))
  }

  /** Changes arrive as late as answers do. Where one gets lost, its listeners learn a second later that this may be so. */
  watch(key: string, listener: ChangeListener): () => void {
    const { data, scheduler, faults } = this.#connection
    return data.values.watch(key, () => {
      if (!this.#process.isAlive) return
      const { back, lost } = faults.fate(this.#process, false)
      if (lost === undefined) scheduler.after(this.#process, back, 'store changed', listener)
      else scheduler.after(this.#process, 1000, 'store changed', listener)
    })
  }

  async close(): Promise<void> {
    // The content belongs to all processes.
  }

  #ask<Value>(
    name: string,
    isWrite: boolean,
    carryOut: (values: MemoryStore) => Promise<Value>,
  ): Promise<Value> {
    const { data, scheduler, faults } = this.#connection
    const process = this.#process
    const { there, back, lost, crash } = faults.fate(process, isWrite)
    return new Promise((resolve, reject) => {
      // A process that has ended waits for nothing.
      if (!process.isAlive) return
      if (crash === 'before') return faults.crash(process)
      const late = scheduler.after(process, TIMEOUT_MS, `store ${name} late`, () => reject(unreachable()))
      if (lost === 'request') return
      const respond = (settle: () => void): void => {
        if (crash === 'after') return faults.crash(process)
        if (lost === 'response') return
        scheduler.after(process, back, `store ${name} done`, () => {
          scheduler.cancel(late)
          settle()
        })
      }
      scheduler.after(data.process, there, `store ${name}`, () => {
        const answer = (value: Value): void => respond(() => resolve(value))
        carryOut(data.values).then(answer, (error: unknown) => respond(() => reject(error)))
      })
    })
  }
}

function unreachable(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be reached.')
}
