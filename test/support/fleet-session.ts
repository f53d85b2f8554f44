/**
 * A client of an older revision whose session has to outlive its gateways: it calls tools, answers questions and listens, and begins
 * no second session. Its calls have no key, so it makes each of them once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { open, usual } from './client/raw.ts'
import type { Seeded } from '../simulate/random.ts'
import { messageOf } from './raw-session.ts'
import { type Json, isObject, objectAt, parseExact } from './server/json.ts'

/** What one call came to. */
interface SessionCall {
  readonly key: string
  /** `refused`: it was said that nothing was done; `open`: that is not known. */
  readonly outcome: 'answered' | 'refused' | 'open'
  /** Of the effect, where it was answered. */
  readonly id?: string
  readonly code?: string
}

/** How long a request and a pause may take, in milliseconds: a client asks again long before a lease is over. */
const REQUEST_TIMEOUT_MS = 5000
const MAX_PAUSE_MS = 300
const REVISION = '2025-11-25'

/** Codes that say that nothing was done, and those that leave it open. */
const refusals = new Set(['SERVER_UNAVAILABLE', 'OVERLOADED'])
const doubts = new Set(['OUTCOME_UNKNOWN', 'OPERATION_TIMEOUT', 'CANCELLED'])

export class FleetSession {
  readonly calls: SessionCall[] = []
  readonly faults: string[] = []
  /** The longest time in which no call was answered, in milliseconds, and how often its stream began. */
  longestMs = 0
  streams = 0
  readonly #url: string
  readonly #name: string
  readonly #random: Seeded
  readonly #closing = new AbortController()
  #headers: Readonly<Record<string, string>> = {}
  #failingSince: number | undefined

  constructor(url: string, name: string, random: Seeded) {
    this.#url = url
    this.#name = name
    this.#random = random
  }

  /** Begins the session, and listens. */
  async begin(): Promise<void> {
    await this.#initialize()
    void this.#listen()
  }

  close(): void {
    this.#closing.abort()
  }

  /** Makes the next call; returns whether it was answered. */
  async call(): Promise<boolean> {
    const key = `${this.#name}-${this.calls.length}`
    const name = this.#random.chance(0.15) ? 'confirmed_add_blind_effect' : 'quick_add_blind_effect'
    const params = { name, arguments: { key, value: `value of ${key}` } }
    const call = await this.#tryCall(key, params).catch((): SessionCall => ({ key, outcome: 'open' }))
    this.calls.push(call)
    const isAnswered = call.outcome === 'answered'
    if (!isAnswered) this.#failingSince ??= performance.now()
    else if (this.#failingSince !== undefined) {
      this.longestMs = Math.max(this.longestMs, Math.round(performance.now() - this.#failingSince))
      this.#failingSince = undefined
    }
    await pause(this.#random.next() * MAX_PAUSE_MS)
    return isAnswered
  }

  async #tryCall(key: string, params: Json): Promise<SessionCall> {
    const message = { jsonrpc: '2.0', id: this.calls.length + 1, method: 'tools/call', params }
    const reply = await this.#post(message)
    if (reply.status === 404) {
      this.faults.push(`its session is lost at call ${key}: ${await reply.text()}`)
      await this.#initialize()
      return { key, outcome: 'refused' }
    }
    const isStream = String(reply.headers['content-type']).startsWith('text/event-stream')
    if (!isStream) return this.#read(key, parseExact(await reply.text()))
    for await (const event of reply.events()) {
      const sent = messageOf(event)
      if (sent['method'] === 'elicitation/create') {
        const result = { action: 'accept', content: { confirm: true } }
        await (await this.#post({ jsonrpc: '2.0', id: sent['id'], result })).text()
      } else if (sent['id'] === message.id) return this.#read(key, parseExact(event.data ?? ''))
    }
    return { key, outcome: 'open' }
  }

  #read(key: string, message: unknown): SessionCall {
    const answer = isObject(message) ? message : {}
    const result = objectAt(answer, 'result')
    const failure = objectAt(objectAt(result, '_meta'), 'dev.gatehouse/error')
    const error = isObject(answer['error']) ? objectAt(answer['error'], 'data') : failure
    if (!isObject(answer['error']) && result['isError'] !== true)
      return { key, outcome: 'answered', id: String(objectAt(result, 'structuredContent')['id']) }
    const code = String(error['code'])
    if (refusals.has(code)) return { key, outcome: 'refused', code }
    if (!doubts.has(code)) this.faults.push(`call ${key} failed: ${JSON.stringify(answer)}`)
    return { key, outcome: 'open', code }
  }

  /** There may be no gateway for a while. */
  async #initialize(): Promise<void> {
    const clientInfo = { name: 'fleet', version: '1' }
    const params = { protocolVersion: REVISION, capabilities: { elicitation: {} }, clientInfo }
    for (;;) {
      this.#headers = {}
      const reply = await this.#post({ jsonrpc: '2.0', id: 0, method: 'initialize', params }).catch(
        () => undefined,
      )
      const id = reply?.headers['mcp-session-id']
      await reply?.text().catch(() => '')
      if (reply?.status === 200 && id !== undefined) {
        this.#headers = { 'mcp-session-id': id, 'mcp-protocol-version': REVISION }
        const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
        const said = await this.#post(initialized).catch(() => undefined)
        await said?.text().catch(() => '')
        if (said?.status === 202) return
      }
      if (this.#closing.signal.aborted) return
      await pause(MAX_PAUSE_MS)
    }
  }

  /** Keeps a stream open, which goes on after its last event wherever it is opened again. */
  async #listen(): Promise<void> {
    let last: string | undefined
    const { signal } = this.#closing
    while (!signal.aborted) {
      const resume = last === undefined ? {} : { 'last-event-id': last }
      const headers = { accept: 'text/event-stream', ...this.#headers, ...resume }
      try {
        const stream = await open(this.#url, { method: 'GET', headers, signal })
        if (stream.status === 404) this.faults.push(`its stream is lost: ${await stream.text()}`)
        else if (stream.status === 200) this.streams++
        for await (const { id } of stream.events()) last = id ?? last
      } catch {
        // The gateway is gone, or the session is closed.
      }
      await pause(MAX_PAUSE_MS)
    }
  }

  #post(message: Json) {
    return open(this.#url, {
      method: 'POST',
      headers: { ...usual, ...this.#headers },
      body: JSON.stringify(message),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
  }
}

/** What is wrong with how the calls of a session ended, given how often each was done. */
export function faultsOfSession(
  { calls, faults }: FleetSession,
  effects: ReadonlyMap<string, readonly string[]>,
): readonly string[] {
  const found = calls.flatMap(({ key, outcome, id, code }) => {
    const done = effects.get(key) ?? []
    if (done.length > 1) return [`${key} was done ${done.length} times`]
    if (outcome === 'refused' && done.length > 0) return [`${key} was refused with ${code}, and done`]
    if (outcome === 'answered' && done[0] !== id)
      return [`${key} was answered with ${id}, and what was done is ${done[0]}`]
    return []
  })
  return [...faults, ...found]
}
