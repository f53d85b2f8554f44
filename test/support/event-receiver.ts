import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import {
  type ArrivedEvent,
  arrival,
  type EventAddress,
  type EventFilter,
  insist,
  type Subscriber,
} from './event-client.ts'
import { isObject, type Json, parse } from './server/json.ts'
import { steadyPort } from './steady-port.ts'

/** A cursor that came with an event, and what had been accepted when it came. */
interface CursorSample {
  readonly cursor: string
  readonly accepted: ReadonlySet<string>
}

/** A subscription by webhook. */
export interface WebhookSubscriber extends Subscriber {
  /** Some of the cursors that came. */
  readonly samples: readonly CursorSample[]
}

/** A subscription to make. */
export interface Subscription {
  readonly address: EventAddress
  readonly filter: EventFilter
}

interface Options extends Subscription {
  /** Which responses are lost, counted from one: what came was kept, and the connection breaks. */
  readonly losesResponse?: (count: number) => boolean
}

const key = Buffer.alloc(32, 7)
/** The secret of all subscriptions. */
export const secret = `whsec_${key.toString('base64')}`
/** Every how many events a cursor is kept. */
const SAMPLE_INTERVAL = 97

/** Receivers of webhooks at one origin. */
export class EventReceivers {
  readonly #host: string
  readonly #port: number
  readonly #hooks: ((message: Json) => { readonly isLost: boolean; readonly body?: string })[] = []
  #server: Server | undefined
  #received = ''

  private constructor(host: string, port: number) {
    this.#host = host
    this.#port = port
  }

  /** Starts them at this address of the machine. */
  static async start(host = '127.0.0.1'): Promise<EventReceivers> {
    const receivers = new EventReceivers(host, await steadyPort())
    await receivers.#listen()
    return receivers
  }

  get origin(): string {
    return `http://${this.#host}:${this.#port}`
  }

  /** The text of all messages, up to a megabyte. */
  received(): string {
    return this.#received
  }

  async close(): Promise<void> {
    if (!this.#server) return
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
    this.#server = undefined
  }

  /** Subscribes, and receives the events. */
  async subscribe({ address, filter, losesResponse }: Options): Promise<WebhookSubscriber> {
    const arrived: ArrivedEvent[] = []
    const samples: CursorSample[] = []
    const faults: string[] = []
    const accepted = new Set<string>()
    let count = 0
    const index = this.#hooks.push((message) => {
      const { type, challenge, cursor, eventId } = message
      if (type === 'verification') return { isLost: false, body: JSON.stringify({ challenge }) }
      if (typeof type === 'string') faults.push(`it got ${JSON.stringify(message).slice(0, 200)}`)
      else arrived.push(arrival(message))
      count++
      if (typeof cursor === 'string' && count % SAMPLE_INTERVAL === 0)
        samples.push({ cursor, accepted: new Set(accepted) })
      const isLost = losesResponse?.(count) === true
      if (!isLost) accepted.add(String(eventId))
      return { isLost }
    })
    const delivery = {
      mode: 'webhook',
      url: `${this.origin}/hooks/${index - 1}`,
      secret,
    }
    const subscribed = await insist(address, 'events/subscribe', { ...filter, delivery, ttlMs: null })
    if (subscribed.kind === 'failed') faults.push(subscribed.text)
    const ready = Promise.resolve()
    return {
      kind: 'webhook',
      filter,
      arrived,
      faults,
      samples,
      rounds: 1,
      ready,
      close: async () => undefined,
    }
  }

  async #listen(): Promise<void> {
    this.#server = createServer((request, response) => {
      void text(request).then(
        (body) => this.#respond(request, response, body),
        // The gateway was killed.
        () => undefined,
      )
    })
    this.#server.listen(this.#port, this.#host)
    await once(this.#server, 'listening')
  }

  #respond({ url = '', headers, socket }: IncomingMessage, response: ServerResponse, body: string): void {
    if (this.#received.length < 1_000_000) this.#received += body
    const message = parse(body)
    if (!isSigned(headers, body) || !isObject(message)) {
      // Nothing arrives, so the verdict names what is lost.
      response.writeHead(401).end()
      return
    }
    const hook = this.#hooks[Number(url.split('/').at(-1))]
    const answer = hook?.(message) ?? { isLost: false }
    if (answer.isLost) socket.destroy()
    else response.writeHead(answer.body === undefined ? 204 : 200).end(answer.body)
  }
}

/** Whether a message is signed by Standard Webhooks 1.0.0. */
export function isSigned(
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  body: string,
): boolean {
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`
  return String(headers['webhook-signature']).split(' ').includes(expected)
}

/** Cursors of a webhook that passed events which were not accepted; each is tried with polls. */
export async function cursorsAhead(
  { samples, filter, arrived }: WebhookSubscriber,
  address: EventAddress,
): Promise<readonly string[]> {
  const faults: string[] = []
  for (const { cursor, accepted } of samples.slice(-8)) {
    const behind = await eventsAfter(cursor, filter, address)
    const passed = arrived.filter(({ eventId }) => !behind.has(eventId) && !accepted.has(eventId))
    if (passed.length > 0)
      faults.push(
        `a cursor is behind ${passed.length} events that were not accepted, such as ${passed[0]?.key}`,
      )
  }
  return faults
}

/** The ids of all events after a cursor. */
async function eventsAfter(
  cursor: string,
  filter: EventFilter,
  address: EventAddress,
): Promise<ReadonlySet<string>> {
  const ids = new Set<string>()
  for (let at: unknown = cursor; ;) {
    const page = await insist(address, 'events/poll', { ...filter, cursor: at, maxEvents: 500 })
    if (page.kind === 'failed') throw new Error(page.text)
    const { events, cursor: next, hasMore, truncated } = page.result
    if (truncated === true) throw new Error('The cursor of a webhook is truncated.')
    const found = Array.isArray(events) ? events.filter(isObject) : []
    for (const { eventId } of found) ids.add(String(eventId))
    if (hasMore !== true) return ids
    at = next
  }
}
