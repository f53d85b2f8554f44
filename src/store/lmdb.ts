import { join } from 'node:path'
import type { Database, RootDatabase } from 'lmdb'
import type { Log } from '../core/log.ts'
import { FILE, type Found, LIMIT, MARK, openDatabase, read, reasonOf, version } from './lmdb-open.ts'
import { Room } from './lmdb-room.ts'
import { unavailable, Writer } from './lmdb-writer.ts'
import { MemoryStore } from './memory.ts'
import type { Bucket, Entry, Portable, Taken } from './store.ts'

/**
 * How many values are looked at in one go; how long after that the next ones are, and where many of them were over;
 * and how long to rest after all were, in milliseconds.
 */
const LOOK = 256
const OFTEN = 500
const SOON = 20
const REST = 30_000

/** What is left to other settings, and to tests. */
interface Options {
  /** The time in milliseconds since 1970. */
  readonly clock?: () => number
  /** In bytes. */
  readonly limit?: number
  /** How long to rest after all values were looked at, in milliseconds. */
  readonly rest?: number
}

interface Parts {
  readonly database: RootDatabase<string, string>
  readonly room: Room
  readonly writer: Writer
}

/**
 * A store in a folder, which several processes of one machine may share. What was written has reached the disk.
 * What is taken from buckets is counted by each process alone: the count is needed for a window of time only, and
 * a write for each call would cost more than the rest of the call.
 */
export class LmdbStore implements Portable {
  readonly #directory: string
  readonly #log: Log
  readonly #clock: () => number
  readonly #limit: number
  readonly #rest: number
  readonly #local = new MemoryStore()
  /** It is opened once somebody asks for it: a gateway listens before. */
  #opening: Promise<Parts | undefined> | undefined
  #parts: Parts | undefined
  /** Why nothing is taken. */
  #reason: string | undefined
  #unusable: string | undefined
  #sweeping: NodeJS.Timeout | undefined
  #sweptTo: string | undefined
  #isClosed = false

  constructor(directory: string, log: Log, { clock = Date.now, limit = LIMIT, rest = REST }: Options = {}) {
    this.#directory = directory
    this.#log = log
    this.#clock = clock
    this.#limit = limit
    this.#rest = rest
  }

  get problem(): string | undefined {
    if (this.#reason === undefined) return this.#unusable
    return `the store in ${this.#directory} takes nothing more: ${this.#reason}`
  }

  async opened(): Promise<void> {
    await (this.#opening ??= this.#open())
  }

  async get(key: string): Promise<string | undefined> {
    const found = find(this.#parts ?? (await this.#must()), key)
    return found && found.until > this.#clock() ? found.text : undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    const { writer } = this.#parts ?? (await this.#must())
    await writer.write({ key, value: this.#wrap(value, ttl), version: version() })
  }

  async claim(key: string, value: string, ttl: number): Promise<string | undefined> {
    const parts = this.#parts ?? (await this.#must())
    for (;;) {
      const found = find(parts, key)
      if (found && found.until > this.#clock()) return found.text
      const before = found?.version ?? null
      const write = { key, value: this.#wrap(value, ttl), version: version(), before }
      if (await parts.writer.write(write)) return undefined
    }
  }

  async swap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    return this.#change(parts, key, before, () => ({ value: this.#wrap(value, ttl) }))
  }

  async drop(key: string, before: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    return this.#change(parts, key, before, () => ({}))
  }

  async delete(key: string): Promise<boolean> {
    const parts = this.#parts ?? (await this.#must())
    return this.#change(parts, key, undefined, () => ({}))
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const found = new Map<string, string>()
    // The character after the slash is the zero.
    for await (const { key, value } of this.#walk(`${collection}/`, `${collection}0`)) found.set(key, value)
    return found
  }

  take(buckets: readonly Bucket[]): Taken {
    return this.#local.take(buckets)
  }

  look(buckets: readonly Bucket[]): Taken {
    return this.#local.look(buckets)
  }

  async *entries(): AsyncIterable<Entry> {
    yield* this.#walk(undefined, undefined)
  }

  async describe(): Promise<Readonly<Record<string, string | number>>> {
    const { room } = this.#parts ?? (await this.#must())
    return { kind: 'LMDB', folder: this.#directory, used: room.used, limit: this.#limit }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#sweeping)
    const parts = await this.#opening
    this.#parts = undefined
    if (!parts) return
    await parts.writer.close()
    parts.room.close()
    await parts.database.close()
  }

  async #open(): Promise<Parts | undefined> {
    try {
      const database = await openDatabase(this.#directory)
      const room = new Room(join(this.#directory, FILE), this.#limit, database)
      const writer = new Writer(database, room, (problem) => this.#tell(problem))
      const parts = { database, room, writer }
      if (database.get(MARK.key) === undefined) await mark(parts)
      if (!this.#isClosed) {
        this.#parts = parts
        this.#sweepIn(OFTEN)
      }
      return parts
    } catch (error) {
      this.#unusable = reasonOf(error, this.#directory)
      return undefined
    }
  }

  async #must(): Promise<Parts> {
    const parts = this.#isClosed ? undefined : await (this.#opening ??= this.#open())
    if (!parts || this.#isClosed) throw unavailable(this.#unusable ?? 'it is closed')
    return parts
  }

  #tell(problem: string | undefined): void {
    if (problem === this.#reason) return
    this.#reason = problem
    if (problem === undefined) {
      this.#log.info('store.ready')
      return
    }
    this.#log.error('store.away', { reason: this.problem })
    // What is full is not left full for longer than it has to be.
    this.#sweepIn(OFTEN)
  }

  /** Changes what is there, if it is `before`, or whatever it is. */
  async #change(
    parts: Parts,
    key: string,
    before: string | undefined,
    change: () => { readonly value?: string },
  ): Promise<boolean> {
    for (;;) {
      const found = find(parts, key)
      if (!found || found.until <= this.#clock()) return false
      if (before !== undefined && found.text !== before) return false
      const write = { key, ...change(), version: version(), before: found.version }
      if (await parts.writer.write(write)) return true
    }
  }

  #wrap(value: string, ttl: number): string {
    return `${Math.ceil(this.#clock() + ttl).toString(36)} ${value}`
  }

  /** All that lives between two keys. Others get their turn meanwhile. */
  async *#walk(start: string | undefined, end: string | undefined): AsyncGenerator<Entry> {
    const { database } = this.#parts ?? (await this.#must())
    for (let from = start; ; await new Promise(setImmediate)) {
      if (this.#isClosed) throw unavailable('it is closed')
      const part = readPart(database, from, end)
      const now = this.#clock()
      for (const { key, found } of part)
        if (found && found.until > now) yield { key, value: found.text, until: found.until }
      from = part.at(-1)?.key
      if (part.length < LOOK || from === undefined) return
    }
  }

  #sweepIn(delay: number): void {
    if (this.#isClosed) return
    clearTimeout(this.#sweeping)
    this.#sweeping = setTimeout(() => void this.#sweep(), delay).unref()
  }

  /** Removes what is over, among the next few values. */
  async #sweep(): Promise<void> {
    const { database, writer } = this.#parts ?? {}
    if (!database || !writer) return
    const part = readPart(database, this.#sweptTo, undefined)
    const now = this.#clock()
    const removals = part.flatMap(({ key, found }) =>
      found && found.until <= now ? [writer.write({ key, version: 0, before: found.version })] : [],
    )
    await Promise.allSettled(removals)
    const isWhole = part.length < LOOK
    this.#sweptTo = isWhole ? undefined : part.at(-1)?.key
    if (isWhole && this.#reason !== undefined && this.#parts) writer.look()
    const pause = removals.length > LOOK / 8 ? SOON : OFTEN
    this.#sweepIn(this.#reason === undefined && isWhole ? this.#rest : pause)
  }
}

function find({ database }: Parts, key: string): Found | undefined {
  refresh(database)
  const entry = database.getEntry(key)
  return entry && read(entry.value, entry.version)
}

/** Has the next read see what other processes have written by then, instead of since a while ago. */
function refresh(database: Database<string, string>): void {
  database.resetReadTxn()
}

function readPart(
  database: Database<string, string>,
  from: string | undefined,
  end: string | undefined,
): { readonly key: string; readonly found: Found | undefined }[] {
  const range = {
    ...(from !== undefined && { start: from, exclusiveStart: true }),
    ...(end !== undefined && { end }),
    limit: LOOK,
    versions: true,
  }
  refresh(database)
  return [...database.getRange(range)].map(({ key, value, version: own }) => {
    return { key, found: key === MARK.key ? undefined : read(value, own) }
  })
}

async function mark({ writer }: Parts): Promise<void> {
  await writer.write({
    key: MARK.key,
    value: `zzzzzzzz format ${MARK.format}`,
    version: version(),
    before: null,
  })
}
