import { setTimeout as pause } from 'node:timers/promises'
import { Agent, request } from 'undici'
import { enveloped } from './client/modern-request.ts'
import { SseParser } from './client/sse-parser.ts'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

/** Where a client connects to. Each request goes to one of the addresses: they are gateways with one store. */
export interface EventAddress {
  readonly urls: readonly string[]
  readonly token: string
}

/** What a subscription requests. */
export interface EventFilter {
  readonly name: string
  readonly arguments: Json
}

/** An event as it arrived. */
export interface ArrivedEvent {
  readonly eventId: string
  /** The argument of the call that caused it. */
  readonly key: string
  /** When it happened and when it arrived, in milliseconds since 1970. */
  readonly at: number
  readonly arrivedAt: number
}

/** A client that receives events, whatever happens to the gateways. */
export interface Subscriber {
  readonly kind: 'poll' | 'stream' | 'webhook'
  readonly filter: EventFilter
  /** All that arrived, in this order, also what arrived again. */
  readonly arrived: readonly ArrivedEvent[]
  /** What must not happen: `truncated`, and errors that do not pass. */
  readonly faults: readonly string[]
  /** How often it connected, or got a page. */
  readonly rounds: number
  /** Resolves once it has its first cursor: what happens from now on has to arrive. */
  readonly ready: Promise<void>
  close(): Promise<void>
}

/** A client that also keeps the text that it got, up to a megabyte. */
interface Reader extends Subscriber {
  received(): string
}

const MAX_TEXT_LENGTH = 1_000_000

/** How long a request may take, and the silence after which a stream is opened again, in milliseconds. */
const REQUEST_TIMEOUT_MS = 20_000
const SILENCE_TIMEOUT_MS = 40_000
const RETRY_MS = 50

const dispatcher = new Agent({ connections: 64, keepAliveTimeout: 1000, bodyTimeout: SILENCE_TIMEOUT_MS })

/** What a response says: a result, or an error that is over when it is requested again, or not. */
type Response =
  | { readonly kind: 'result'; readonly result: Json }
  | { readonly kind: 'failed'; readonly isPassing: boolean; readonly text: string }

let turn = 0

/** One request to one of the gateways. A gateway that does not respond is a failure that passes. */
async function requestOnce({ urls, token }: EventAddress, method: string, params: Json): Promise<Response> {
  const url = urls[turn++ % urls.length] ?? ''
  try {
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const { body } = await request(url, { ...options(token, method, params), signal, dispatcher })
    return responseOf(await body.text())
  } catch (error) {
    return { kind: 'failed', isPassing: true, text: String(error) }
  }
}

/** The response that is no failure that passes. @throws if there is none in time */
export async function insist(address: EventAddress, method: string, params: Json): Promise<Response> {
  for (const deadline = Date.now() + 90_000; ;) {
    const response = await requestOnce(address, method, params)
    if (response.kind === 'result' || !response.isPassing) return response
    if (Date.now() > deadline) throw new Error(`${method} never had a result: ${response.text}`)
    await pause(RETRY_MS)
  }
}

function options(token: string, method: string, params: Json) {
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${token}`,
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(method === 'tools/call' && { 'mcp-name': String(params['name']) }),
  }
  const whole = enveloped(params, '2026-07-28', {})
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: whole })
  return { method: 'POST', headers, body } as const
}

function responseOf(text: string): Response {
  const data = text.startsWith('{') ? text : new SseParser().push(text).at(-1)?.data
  const message = parse(data ?? '')
  if (!isObject(message)) return { kind: 'failed', isPassing: true, text: 'The response broke off.' }
  const { result, error } = message
  if (isObject(error)) {
    const { category } = objectAt(error, 'data')
    const isPassing = category === 'transient' || category === 'rate_limited'
    return { kind: 'failed', isPassing, text: JSON.stringify(error) }
  }
  if (!isObject(result)) return { kind: 'failed', isPassing: true, text: text.slice(0, 200) }
  if (result['isError'] !== true) return { kind: 'result', result }
  return { kind: 'failed', isPassing: true, text: JSON.stringify(result) }
}

/** An event of a page, a stream or a webhook. */
export function arrival(event: Json): ArrivedEvent {
  const given = objectAt(objectAt(event, 'data'), 'arguments')
  return {
    eventId: String(event['eventId']),
    key: String(given['key']),
    at: Date.parse(String(event['timestamp'])),
    arrivedAt: Date.now(),
  }
}

/** A client that polls, again at once while there is more, and otherwise after `interval` milliseconds. */
export function pollEvents(address: EventAddress, filter: EventFilter, interval: number): Reader {
  const arrived: ArrivedEvent[] = []
  const faults: string[] = []
  const ready = Promise.withResolvers<void>()
  const closing = new AbortController()
  let received = ''
  const subscriber = { kind: 'poll' as const, filter, arrived, faults, rounds: 0, ready: ready.promise }
  const run = async (): Promise<void> => {
    for (let cursor: unknown = null; !closing.signal.aborted;) {
      const response = await requestOnce(address, 'events/poll', { ...filter, cursor, maxEvents: 500 })
      if (response.kind === 'failed') {
        if (!response.isPassing) faults.push(response.text)
        await pause(RETRY_MS)
        continue
      }
      const { result } = response
      subscriber.rounds++
      if (received.length < MAX_TEXT_LENGTH) received += JSON.stringify(result)
      if (result['truncated'] !== false) faults.push(`a page is truncated after ${arrived.length} events`)
      const events = Array.isArray(result['events']) ? result['events'] : []
      arrived.push(...events.map((event) => arrival(isObject(event) ? event : {})))
      cursor = result['cursor']
      ready.resolve()
      if (result['hasMore'] !== true)
        await pause(interval, undefined, { signal: closing.signal }).catch(() => undefined)
    }
  }
  const running = run()
  return Object.assign(subscriber, {
    received: () => received,
    close: () => {
      closing.abort()
      return running
    },
  })
}

/** A client that streams, and opens another stream with its last cursor when one ends. */
export function streamEvents({ urls, token }: EventAddress, filter: EventFilter): Reader {
  const arrived: ArrivedEvent[] = []
  const faults: string[] = []
  const ready = Promise.withResolvers<void>()
  const closing = new AbortController()
  const subscriber = { kind: 'stream' as const, filter, arrived, faults, rounds: 0, ready: ready.promise }
  let cursor: unknown = null
  let received = ''
  const take = (data: string): void => {
    if (received.length < MAX_TEXT_LENGTH) received += data
    const message = parse(data)
    if (!isObject(message)) return
    const { method, error } = message
    if (isObject(error) && objectAt(error, 'data')['category'] !== 'transient')
      faults.push(JSON.stringify(error))
    if (typeof method !== 'string') return
    const params = objectAt(message, 'params')
    if (params['truncated'] === true) faults.push(`the stream is truncated after ${arrived.length} events`)
    if (method === 'notifications/events/event') arrived.push(arrival(params))
    if (typeof params['cursor'] === 'string') cursor = params['cursor']
    ready.resolve()
  }
  const run = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      const url = urls[turn++ % urls.length] ?? ''
      const parser = new SseParser()
      try {
        const { signal } = closing
        const own = options(token, 'events/stream', { ...filter, cursor })
        const { body, headers } = await request(url, { ...own, signal, dispatcher })
        subscriber.rounds++
        // A stream that is refused has an error instead.
        if (headers['content-type'] === 'application/json') take(await body.text())
        body.setEncoding('utf8')
        for await (const text of body) parser.push(String(text)).forEach(({ data }) => take(data ?? ''))
      } catch {
        // The gateway was killed, or the subscriber is closed.
      }
      await pause(RETRY_MS)
    }
  }
  const running = run()
  return Object.assign(subscriber, {
    received: () => received,
    close: () => {
      closing.abort()
      return running
    },
  })
}

/** What publishers did: the keys of their calls in order, and of those the ones whose result arrived. */
export interface Published {
  readonly keys: readonly string[]
  readonly confirmed: ReadonlySet<string>
}

/**
 * One publisher: calls of a tool that writes one after another, until there are no next arguments; `next` is told how many
 * calls have a result so far. A call that fails is not made again; the next one waits until a gateway responds.
 */
export async function publish(
  address: EventAddress,
  tool: string,
  next: (results: number) => Json | undefined | Promise<Json | undefined>,
): Promise<Published> {
  const keys: string[] = []
  const confirmed = new Set<string>()
  for (let given = await next(0); given; given = await next(confirmed.size)) {
    const key = String(given['key'])
    keys.push(key)
    const response = await requestOnce(address, 'tools/call', { name: tool, arguments: given })
    if (response.kind === 'result') confirmed.add(key)
    else await insist(address, 'server/discover', {})
  }
  return { keys, confirmed }
}
