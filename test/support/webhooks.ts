/** A clock, receivers and records in memory, for tests of webhook deliveries. */
import { Secret } from '../../src/core/text/secret.ts'
import {
  type Clock,
  type Delivery,
  Dispatcher,
  type FailedAttempt,
  type Queues,
  type Sent,
  type Settlement,
} from '../../src/durable/dispatcher.ts'
import type { Dialer, DialOutcome, DialRequest } from '../../src/features/dialer.ts'
import { type Receiver, ReceiverVerifier } from '../../src/features/events/sinks/receivers.ts'
import {
  limitsFor,
  WEBHOOK_RETRIES,
  type WebhookMessage,
  WebhookSink,
} from '../../src/features/events/sinks/webhook.ts'
import type { Store } from '../../src/store/store.ts'
import { silentLog } from './silent-log.ts'

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

/** What is sent of an event, unless it is withheld, or that is not known. */
type Outgoing = Omit<WebhookMessage, 'id'> | 'withheld' | 'unknown'

/** Records in memory, which outlive a dispatcher. */
export class MemoryQueue {
  readonly receivers = new Map<string, Receiver>()
  readonly #open = new Map<string, Map<string, Delivery>>()
  /** How deliveries ended; the `kind` of one that was not sent is the reason. */
  readonly settled: {
    readonly kind: string
    readonly at: number
    readonly failure?: string
    readonly id: string
    readonly subscription: string
  }[] = []
  /** Makes the message of an event. */
  messageOf: (id: string) => Outgoing = (id) => ({
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

  open(subscription: string, limit: number): Promise<readonly Delivery[]> {
    return Promise.resolve([...(this.#open.get(subscription)?.values() ?? [])].slice(0, limit))
  }

  /** The queues of a dispatcher that sends to a sink. */
  to(sink: WebhookSink): Queues {
    return {
      limits: (subscription) => {
        const receiver = this.receivers.get(subscription)
        return receiver && limitsFor(receiver)
      },
      open: (subscription, limit) => this.open(subscription, limit),
      send: async (subscription, { id }, signal): Promise<Sent> => {
        const message = this.messageOf(id)
        if (message === 'unknown') return { kind: 'postponed' }
        if (message === 'withheld') return { kind: 'dropped', reason: 'withheld' }
        const receiver = this.receivers.get(subscription)
        if (!receiver) throw new TypeError(`there is no ${subscription}`)
        return sink.send(receiver, { ...message, id }, signal)
      },
      retry: (subscription, failed) => this.retry(subscription, failed),
      settle: (subscription, delivery, settlement) => this.settle(subscription, delivery, settlement),
    }
  }

  retry(subscription: string, failed: FailedAttempt): void {
    this.#open.get(subscription)?.set(failed.id, failed)
  }

  settle(subscription: string, { id }: Delivery, settlement: Settlement): void {
    this.#open.get(subscription)?.delete(id)
    const kind = settlement.kind === 'dropped' ? settlement.reason : settlement.kind
    this.settled.push({ ...settlement, kind, id, subscription })
  }
}

interface Sending {
  readonly queue: MemoryQueue
  readonly dialer: Dialer
  readonly clock: Clock
  readonly store: Store
  readonly random: number
  readonly webhookId?: 'event' | 'message'
}

/** Sends what a queue has, with the retry schedule of webhooks and a quarter of an hour until it is given up. */
export function sending({ queue, dialer, clock, store, random, webhookId = 'event' }: Sending): Dispatcher {
  const now = (): number => clock.now()
  const verifier = new ReceiverVerifier(dialer, store, now)
  const sink = new WebhookSink({ dialer, verifier, webhookId, now })
  const schedule = { ...WEBHOOK_RETRIES, giveUpMs: 15 * 60_000 }
  const dispatcher = new Dispatcher(queue.to(sink), { clock, random: () => random, schedule, log: silentLog })
  for (const subscription of queue.subscriptions) dispatcher.wake(subscription)
  return dispatcher
}
