/** An outbox of plain messages: queues whose records have nothing of their own, and whose messages are in one log. */
import type { Membership } from '../../src/durable/members.ts'
import { casUpdate } from '../../src/durable/cas-update.ts'
import type { Clock, RetrySchedule, Sent } from '../../src/durable/dispatcher.ts'
import { AppendLog } from '../../src/durable/log.ts'
import { type Consumer, Outbox } from '../../src/durable/outbox.ts'
import { Queue, type QueueProgress } from '../../src/durable/queue.ts'
import { Secret } from '../../src/core/text/secret.ts'
import { LmdbStore } from '../../src/store/lmdb/store.ts'
import { RedisStore } from '../../src/store/redis/store.ts'
import type { Store } from '../../src/store/store.ts'
import { silentLog } from './silent-log.ts'

const FOREVER_MS = 86_400_000

/** A message: the n-th one of its queue. */
export interface TestMessage {
  readonly id: string
  readonly queue: string
  readonly n: number
}

/** The record of a queue. */
interface QueueRecord extends QueueProgress {
  readonly id: string
  readonly owner?: string
}

interface TestLetter {
  readonly id: string
  readonly message: TestMessage
}

/** The log of all messages. */
export function messageLog(store: Store): AppendLog {
  return new AppendLog(store, 'messages', { maxEntries: 100_000, maxBytes: 100_000_000, ttl: FOREVER_MS })
}

function read(text: string | undefined): QueueRecord | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as QueueRecord)
}

/** The records of queues. */
export class QueueStore {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  async create(id: string, watermark: string): Promise<void> {
    await this.#change(id, (before) => before ?? { id, watermark, settled: [] })
  }

  async all(): Promise<readonly QueueRecord[]> {
    return [...(await this.#store.scan('queue')).values()].flatMap((text) => read(text) ?? [])
  }

  async claim({ id, owner: found }: QueueRecord, owner: string) {
    const record = await this.#change(id, (before) =>
      before?.owner === found && before ? { ...before, owner } : before,
    )
    return record?.owner === owner ? record : undefined
  }

  async advance({ id }: QueueRecord, owner: string, progress: QueueProgress) {
    const record = await this.#change(id, (before) =>
      before?.owner === owner ? { ...before, ...progress } : before,
    )
    return record?.owner === owner ? record : undefined
  }

  #change(id: string, change: (record: QueueRecord | undefined) => QueueRecord | undefined) {
    return casUpdate<QueueRecord | undefined>(
      this.#store,
      `queue/${id}`,
      (text) => {
        const before = read(text)
        const after = change(before)
        if (!after || after === before) return { result: before }
        return { result: after, write: { text: JSON.stringify(after), ttl: FOREVER_MS } }
      },
      () => {
        throw new Error('The record changed too often.')
      },
    )
  }
}

/** Dead letters in the store. */
export class LetterStore {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  async add(letters: readonly TestLetter[]): Promise<void> {
    for (const letter of letters)
      await this.#store.put(`letter/${letter.id}`, JSON.stringify(letter), FOREVER_MS)
  }

  async remove({ id }: TestLetter): Promise<void> {
    await this.#store.delete(`letter/${id}`)
    await this.#store.delete(`request/${id}`)
  }

  async all(): Promise<readonly TestLetter[]> {
    return [...(await this.#store.scan('letter')).values()].map((text) => JSON.parse(text) as TestLetter)
  }

  async request(id: string): Promise<void> {
    await this.#store.put(`request/${id}`, '1', FOREVER_MS)
  }

  async requested(): Promise<readonly TestLetter[]> {
    const requests = await this.#store.scan('request')
    return requests.size === 0 ? [] : (await this.all()).filter(({ id }) => requests.has(`request/${id}`))
  }

  async endRedelivery({ id }: TestLetter): Promise<void> {
    await this.#store.delete(`request/${id}`)
  }
}

interface TestOutbox {
  readonly store: Store
  readonly membership: Membership
  readonly clock: Clock
  readonly schedule: RetrySchedule
  /** How many messages of a queue may be in flight. */
  readonly atOnce: number
  send(message: TestMessage, attempts: number, signal: AbortSignal): Promise<Sent>
}

/** An outbox, and its dead letters. */
export function testOutbox({ store, membership, clock, schedule, atOnce, send }: TestOutbox) {
  const records = new QueueStore(store)
  const letters = new LetterStore(store)
  const log = messageLog(store)
  /** The queues that this process cannot deliver. */
  const undeliverable = new Set<string>()
  const consume = (record: QueueRecord): Consumer<QueueRecord, TestMessage> => {
    const queue = new Queue<TestMessage>(record)
    const { id } = record
    return {
      id,
      queue,
      limits: [[id, atOnce]],
      fill: async (limit) => {
        while (queue.hasCapacity(limit)) {
          const { entries, start, cursor, hasMore } = await log.read(queue.next, 100)
          let before = start
          for (const { value, cursor: position } of entries) {
            const message = value as TestMessage
            if (message.queue === id) queue.add(message.id, message, { before, position })
            before = position
          }
          queue.advance(cursor, clock.now())
          if (!hasMore) return
        }
      },
      send: (message, { attempts }, signal) => send(message, attempts, signal),
      retried: () => undefined,
      settled: () => undefined,
      addLetter: (message) => letters.add([{ id: `letter of ${message.id}`, message }]),
      renewed: () => undefined,
      // There may be more in the log.
      maintain: async () => outbox.wake(id),
      write: async (owner, progress) => (await records.advance(record, owner, progress)) !== undefined,
      remove: () => store.delete(`queue/${id}`),
    }
  }
  const outbox = new Outbox<QueueRecord, TestMessage, Consumer<QueueRecord, TestMessage>>({
    store,
    ownerPrefix: 'queue-owner:',
    membership,
    records: () => records.all(),
    claim: (record, owner) => records.claim(record, owner),
    schedule,
    clock,
    random: () => 1,
    log: silentLog,
    isDeliverable: ({ id }) => !undeliverable.has(id),
    consume: (record) => (undeliverable.has(record.id) ? undefined : consume(record)),
    redeliveries: async () =>
      (await letters.requested()).map((letter) => ({
        id: letter.id,
        queue: letter.message.queue,
        message: { id: letter.message.id, content: letter.message },
        end: (isDelivered) => (isDelivered ? letters.remove(letter) : letters.endRedelivery(letter)),
      })),
    onUndeliverable: () => undefined,
    onPollFailed: () => undefined,
    onPolled: () => undefined,
  })
  return { outbox, records, letters, log, undeliverable }
}

/** Where the store of several processes is. */
export type TestStore = { readonly folder: string } | { readonly url: string }

/** Opens it. */
export async function openTestStore(place: TestStore): Promise<Store> {
  const store =
    'folder' in place
      ? new LmdbStore(place.folder, silentLog)
      : new RedisStore(new Secret(place.url), silentLog)
  await store.opened()
  return store
}

/** What becomes of a message: some fail at first, and some for good. */
export function outcomeOf({ n }: Pick<TestMessage, 'n'>, attempts: number): Sent {
  if (n % 50 === 7) return { kind: 'never', failure: 'refused' }
  return n % 10 === 3 && attempts === 0 ? { kind: 'later', failure: 'busy' } : { kind: 'done' }
}
