/** A clock, receivers and records in memory, for tests of webhook deliveries. */
import { Secret } from '../../src/core/text/secret.ts'
import type {
  Delivery,
  DeliveryQueue,
  FailedAttempt,
  OutgoingMessage,
  Settlement,
} from '../../src/features/events/webhooks/delivery-queue.ts'
import type { Dialer, DialOutcome, DialRequest } from '../../src/features/dialer.ts'
import type { Receiver, VerificationRecords } from '../../src/features/events/webhooks/verification.ts'
import type { Clock } from '../../src/features/events/webhooks/worker.ts'

/** A clock that moves only when it is told to. */
export class ManualClock implements Clock {
  #now: number
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>()

  constructor(now: number) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  after(milliseconds: number, run: () => void): () => void {
    const timer = { at: this.#now + milliseconds, run }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** Runs all timers until then in their order, each followed by everything that it started. */
  async advance(milliseconds: number): Promise<void> {
    const until = this.#now + milliseconds
    for (;;) {
      await idle()
      const [next] = [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)
      if (!next) break
      this.#timers.delete(next)
      this.#now = next.at
      next.run()
    }
    this.#now = until
    await idle()
  }
}

/** Resolves when all promises that do not wait for anything outside have settled. */
export async function idle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** What a receiver got: `body` is parsed. */
interface Received extends DialRequest {
  readonly at: number
  readonly json: Readonly<Record<string, unknown>>
}

/** How a receiver answers a request. */
export type Answer = (request: Received) => DialOutcome | Promise<DialOutcome>

export function response(status: number, retryAfter?: string): DialOutcome {
  return { kind: 'response', status, retryAfter, body: '' }
}

/** A dialer to receivers that echo challenges and answer events as told. */
export class FakeReceivers implements Dialer {
  readonly requests: Received[] = []
  readonly #clock: Clock
  /** By URL; others accept everything. */
  readonly answers = new Map<string, Answer>()
  /** The URLs that do not echo challenges, but answer with this status. */
  readonly mute = new Map<string, number>()
  /** The files that can be read, by URL, and the URLs that were read. */
  readonly files = new Map<string, string>()
  readonly read: string[] = []

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async post(request: DialRequest): Promise<DialOutcome> {
    const json = JSON.parse(request.body) as Received['json']
    const received = { ...request, json, at: this.#clock.now() }
    this.requests.push(received)
    const { challenge } = json
    const answer = this.answers.get(request.url)
    const isChallenge = typeof challenge === 'string'
    if (answer && !isChallenge) {
      const aborted = new Promise<DialOutcome>((resolve) =>
        request.signal?.addEventListener('abort', () => resolve({ kind: 'failed', reason: 'aborted' })),
      )
      return Promise.race([answer(received), aborted])
    }
    const mute = isChallenge ? this.mute.get(request.url) : undefined
    const body = isChallenge && mute === undefined ? JSON.stringify({ challenge }) : ''
    return { kind: 'response', status: mute ?? 200, retryAfter: undefined, body }
  }

  async get({ url }: Parameters<Dialer['get']>[0]): Promise<DialOutcome> {
    this.read.push(url)
    const body = this.files.get(url)
    return {
      kind: 'response',
      status: body === undefined ? 404 : 200,
      retryAfter: undefined,
      body: body ?? '',
    }
  }

  /** The requests with events, without challenges. */
  get events(): readonly Received[] {
    return this.requests.filter(({ json }) => json.type !== 'verification')
  }

  /** The ids of the events that arrived at a URL, in their order. */
  idsAt(url: string): readonly unknown[] {
    return this.events.filter((each) => each.url === url).map(({ json }) => json.eventId)
  }
}

/** A secret of 32 bytes that differ by `seed`. */
export function secretOf(seed: number): Secret {
  return new Secret(`whsec_${Buffer.alloc(32, seed).toString('base64')}`)
}

/** Records in memory, which outlive a worker. */
export class MemoryQueue implements DeliveryQueue {
  readonly receivers = new Map<string, Receiver>()
  readonly #open = new Map<string, Map<string, Delivery>>()
  readonly settled: (Settlement & { readonly id: string; readonly subscription: string })[] = []
  /** Makes the message of an event. */
  messageOf: (id: string) => OutgoingMessage | 'withheld' | 'unknown' = (id) => ({
    kind: 'event',
    body: JSON.stringify({ eventId: id }),
  })

  subscribe(subscription: string, given: Partial<Receiver> = {}): Receiver {
    const receiver = {
      subscription,
      url: `https://${subscription}.example/hook`,
      secrets: { current: secretOf(1) },
      owner: 'ann',
      ...given,
    }
    this.receivers.set(subscription, receiver)
    return receiver
  }

  add(subscription: string, ...ids: readonly string[]): void {
    const open = this.#open.get(subscription) ?? new Map<string, Delivery>()
    for (const id of ids) open.set(id, { id, attempts: 0, notBefore: 0 })
    this.#open.set(subscription, open)
  }

  /** The subscriptions with deliveries. */
  get subscriptions(): readonly string[] {
    return [...this.#open].flatMap(([name, open]) => (open.size > 0 ? [name] : []))
  }

  receiver(subscription: string): Receiver | undefined {
    return this.receivers.get(subscription)
  }

  open(subscription: string, limit: number): Promise<readonly Delivery[]> {
    return Promise.resolve([...(this.#open.get(subscription)?.values() ?? [])].slice(0, limit))
  }

  message(_subscription: string, { id }: Delivery): Promise<OutgoingMessage | 'withheld' | 'unknown'> {
    return Promise.resolve(this.messageOf(id))
  }

  retry(subscription: string, failed: FailedAttempt): void {
    this.#open.get(subscription)?.set(failed.id, failed)
  }

  settle(subscription: string, { id }: Delivery, settlement: Settlement): void {
    this.#open.get(subscription)?.delete(id)
    this.settled.push({ ...settlement, id, subscription })
  }
}

/** Verified receivers in memory. */
export class MemoryVerifications implements VerificationRecords {
  readonly verified = new Set<string>()

  has({ owner, url }: Receiver): Promise<boolean> {
    return Promise.resolve(this.verified.has(`${owner} ${url}`))
  }

  add({ owner, url }: Receiver): Promise<void> {
    this.verified.add(`${owner} ${url}`)
    return Promise.resolve()
  }
}
