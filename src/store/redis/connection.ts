/**
 * The connection to the server that accepts writes. One that has an address of its own is reconnected to; with sentinels or a
 * cluster, the current master is asked for before each connection, and again when the connection ends, a write is refused or
 * the answer changes.
 *
 * The clients of the driver for sentinels and clusters are not used. That for sentinels repeats a command whose reply it lost,
 * which may have been a write: whoever made it has to know that its outcome is unknown. That for clusters sends `WAIT` to every
 * shard, while all keys are in one.
 */
import type { RedisClientType } from '@redis/client'
import type { RedisHost, RedisLocation } from '../../core/redis-url.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'
import { pause } from '../../core/time/waiting.ts'
import { connectOptions, type Driver, endClient, locate } from './master.ts'

/** Who learns of the connection. */
export interface ConnectionObserver {
  /** It can be used: for the first time, again, or to another server. */
  ready(client: RedisClientType, place: RedisHost): void
  failed(error: unknown): void
}

/** How many commands may be queued for Redis. */
const MAX_QUEUED_COMMANDS = 10_000
/** How long a connection may be silent in spite of pings, in milliseconds. */
const SOCKET_TIMEOUT_MS = 5000
/** How often it is asked whether the master is still the same, and at most where something speaks against it, in milliseconds. */
const VERIFY_INTERVAL_MS = 5000
const MIN_VERIFY_INTERVAL_MS = 1000
/** How long a server was of use if the next delays begin anew, in milliseconds: one that is no master is left at once. */
const LASTING_MS = 1000

/** The delays before reconnecting to a server, and before asking again for the master. */
const RECONNECTIONS: Backoff = { firstMs: 50, maxMs: 5000, jitter: 0.5 }
const RELOCATIONS: Backoff = { firstMs: 50, maxMs: 500, jitter: 0.5 }

/** The connection of one store; it connects in the background. */
export class RedisConnection {
  /** Loaded lazily: gateways without Redis do not need the driver. */
  readonly driver: Promise<Driver> = import('@redis/client')
  readonly #location: RedisLocation
  readonly #observer: ConnectionObserver
  readonly #closing = new AbortController()
  #client: RedisClientType | undefined
  #place: RedisHost
  /** Ends the use of the current client. */
  #leave: () => void = () => undefined
  #verifiedAt = Number.NEGATIVE_INFINITY

  constructor(location: RedisLocation, observer: ConnectionObserver) {
    this.#location = location
    this.#observer = observer
    const [first] = location.hosts
    this.#place = first
    const running = location.kind === 'server' ? this.#connect() : this.#follow()
    running.catch((error: unknown) => observer.failed(error))
  }

  /** A further connection to the same server, which is opened by its user. */
  async another(): Promise<RedisClientType> {
    return this.#create(await this.driver, this.#place, { isQueueing: true })
  }

  /** The server is not what it should be: where there may be another one, that is connected to. */
  leave(): void {
    this.#leave()
  }

  /** Asks whether the master is still the same one, and leaves this one if not. Does nothing if that was just asked. */
  async verify(): Promise<void> {
    if (this.#location.kind === 'server' || !this.#client?.isReady) return
    const now = performance.now()
    if (now - this.#verifiedAt < MIN_VERIFY_INTERVAL_MS) return
    this.#verifiedAt = now
    const before = this.#place
    const found = await locate(await this.driver, this.#location).catch(() => undefined)
    if (found && before === this.#place && !isSame(found, before)) this.#leave()
  }

  async close(withTimeout: (closed: Promise<unknown>) => Promise<unknown>): Promise<void> {
    this.#closing.abort()
    const client = this.#client
    // A client that never connected has nothing to close.
    if (client?.isReady) await withTimeout(client.close()).catch(() => client.destroy())
    else if (client) endClient(client)
    this.#leave()
  }

  async #connect(): Promise<void> {
    const client = this.#create(await this.driver, this.#place)
    this.#client = client
    client.on('error', (error: unknown) => this.#observer.failed(error))
    client.on('ready', () => this.#observer.ready(client, this.#place))
    // With a reconnect strategy this settles only once connected or closed.
    client.connect().catch((error: unknown) => this.#observer.failed(error))
    if (this.#closing.signal.aborted) endClient(client)
  }

  /** Connects to one master after the other. */
  async #follow(): Promise<void> {
    const { signal } = this.#closing
    const driver = await this.driver
    const verifying = setInterval(() => void this.verify(), VERIFY_INTERVAL_MS).unref()
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        this.#place = await locate(driver, this.#location)
        if (await this.#use(driver, this.#place)) failures = 0
      } catch (error) {
        this.#observer.failed(error)
      }
      await pause(delayBefore(failures, RELOCATIONS), signal).catch(() => undefined)
    }
    clearInterval(verifying)
  }

  /** Uses a server until that has to be left. Returns whether it was of use for some time. */
  async #use(driver: Driver, place: RedisHost): Promise<boolean> {
    if (this.#closing.signal.aborted) return false
    const left = Promise.withResolvers<void>()
    const client = this.#create(driver, place, { isOnce: true })
    let readyAt = Number.POSITIVE_INFINITY
    this.#client = client
    this.#leave = () => left.resolve()
    client.on('error', (error: unknown) => {
      this.#observer.failed(error)
      left.resolve()
    })
    client.on('end', () => left.resolve())
    client.on('ready', () => {
      readyAt = performance.now()
      this.#observer.ready(client, place)
      // It may have hung while it was connected to, and have been replaced.
      this.#verifiedAt = Number.NEGATIVE_INFINITY
      void this.verify()
    })
    client.connect().catch((error: unknown) => {
      this.#observer.failed(error)
      left.resolve()
    })
    await left.promise
    endClient(client)
    return performance.now() - readyAt >= LASTING_MS
  }

  #create(
    driver: Driver,
    place: RedisHost,
    how: { readonly isQueueing?: boolean; readonly isOnce?: boolean } = {},
  ): RedisClientType {
    const { isQueueing = false, isOnce = false } = how
    const { socket, ...options } = connectOptions(this.#location, place, this.#location.login)
    const client: RedisClientType = driver.createClient({
      ...options,
      database: this.#location.database,
      disableOfflineQueue: !isQueueing,
      commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
      // A hanging connection is detected by an unanswered ping.
      pingInterval: 1000,
      socket: {
        ...socket,
        socketTimeout: SOCKET_TIMEOUT_MS,
        reconnectStrategy: isOnce ? false : (retries) => delayBefore(retries, RECONNECTIONS),
      },
    })
    return client
  }
}

function isSame(one: RedisHost, other: RedisHost): boolean {
  return one.host === other.host && one.port === other.port
}
