import { enveloped, mirrorHeaders } from './client/modern-request.ts'
import { open, type OpenReply, post, type RawReply, usual } from './client/raw.ts'
import type { SseEvent } from './client/sse-parser.ts'
import type { Command } from './gateway-process.ts'
import { until } from './condition.ts'
import type { HeaderMap } from './server/journal.ts'
import { isObject, type Json, parse } from './server/json.ts'

/** What came back for some bytes: the HTTP status where there is one, and the first message. */
interface Answer {
  readonly status?: number
  readonly headers?: HeaderMap
  readonly message: Json | undefined
  readonly text: string
}

/** One way for bytes to reach the gateway, with a client behind it that controls each of them. */
export interface Front {
  /** Sends bytes as one message; resolves with what is answered. */
  send(bytes: string | Buffer, headers?: HeaderMap): Promise<Answer>
  /** Makes a sound call and gives the text it returns. */
  call(): Promise<string>
  close(): Promise<void>
}

const clientInfo = { name: 'raw', version: '1.0.0' }
const echo = { name: 'echo', arguments: { text: 'still here' } }

/** A handshake of an older revision. */
export function initialize(protocolVersion = '2025-11-25', id: unknown = 1): Json {
  const params = { protocolVersion, capabilities: {}, clientInfo }
  return { jsonrpc: '2.0', id, method: 'initialize', params }
}

/** A request of 2026-07-28 with all it needs, and the headers that go with it. */
export function modern(
  method: string,
  params: Json = {},
  id: unknown = 1,
): { message: Json; headers: HeaderMap } {
  const whole = enveloped(params, '2026-07-28', {})
  const headers = mirrorHeaders(method, whole, new Map())
  return { message: { jsonrpc: '2.0', id, method, params: whole }, headers }
}

/** Streamable HTTP without a session, as a client of 2026-07-28. */
export function modernFront(url: string): Front {
  return {
    send: async (bytes, headers = {}) => {
      return answerOf(await post(url, bytes, { 'mcp-protocol-version': '2026-07-28', ...headers }))
    },
    call: async () => {
      const { message, headers } = modern('tools/call', echo)
      return textOf(answerOf(await post(url, JSON.stringify(message), headers)).message)
    },
    close: () => Promise.resolve(),
  }
}

/** Streamable HTTP with a session of an older revision. */
export async function sessionFront(
  url: string,
  revision = '2025-11-25',
): Promise<Front & { session: HeaderMap }> {
  const first = await post(url, JSON.stringify(initialize(revision)))
  const session = {
    'mcp-session-id': first.headers['mcp-session-id'] ?? '',
    'mcp-protocol-version': revision,
  }
  const send = async (bytes: string | Buffer, headers: HeaderMap = {}): Promise<Answer> =>
    answerOf(await post(url, bytes, { ...session, ...headers }))
  await send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  return {
    session,
    send,
    call: async () => textOf((await send(legacyCall('good'))).message),
    close: async () => {
      const reply = await open(url, { method: 'DELETE', headers: session })
      await reply.text()
    },
  }
}

/** HTTP+SSE: what is posted is answered on the stream. */
export async function sseFront(origin: string, headers: HeaderMap = usual): Promise<Front> {
  const stream = await open(`${origin}/sse`, { method: 'GET', headers: { accept: 'text/event-stream' } })
  const inbox = new Inbox()
  void readAll(stream, (event) => inbox.add(event.data ?? ''))
  const target = new URL(await inbox.next(() => true), origin).href
  const front = {
    send: async (bytes: string | Buffer, more: HeaderMap = {}): Promise<Answer> => {
      inbox.clear()
      const reply = await post(target, bytes, { ...headers, ...more })
      if (reply.status !== 202) return answerOf(reply)
      if (!wantsAnswer(bytes)) return { status: 202, message: undefined, text: '' }
      const text = await inbox.next(() => true)
      return { status: 202, message: asObject(text), text }
    },
    call: async () => {
      const reply = await post(target, legacyCall('good'), headers)
      if (reply.status !== 202) throw new Error(`POST was answered ${reply.status} ${reply.text}`)
      return textOf(asObject(await inbox.next((text) => text.includes('"id":"good"'))))
    },
    close: () => Promise.resolve(stream.destroy()),
  }
  await front.send(JSON.stringify(initialize()))
  await front.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  return front
}

/** Lines to a process that is a stdio server; `revision` says how the connection is opened. */
export async function stdioFront(command: Command, revision = '2025-11-25'): Promise<Front> {
  let taken = command.stdout().length
  const next = (isIt: (line: string) => boolean): Promise<string> =>
    until(() => {
      const lines = command.stdout().slice(taken).split('\n').slice(0, -1)
      const line = lines.find(isIt)
      if (line !== undefined) taken = command.stdout().length
      return line
    }, 'a line on stdout')
  const write = (bytes: string | Buffer): void =>
    void command.stdin.write(Buffer.concat([Buffer.from(bytes), LINE_END]))
  const front = {
    send: async (bytes: string | Buffer): Promise<Answer> => {
      write(bytes)
      if (!wantsAnswer(bytes)) return { message: undefined, text: '' }
      const text = await next(() => true)
      return { message: asObject(text), text }
    },
    call: async () => {
      write(
        revision === '2026-07-28'
          ? JSON.stringify(modern('tools/call', echo, 'good').message)
          : legacyCall('good'),
      )
      return textOf(asObject(await next((line) => line.includes('"id":"good"'))))
    },
    close: () => command.close(),
  }
  if (revision === '2026-07-28') await front.send(JSON.stringify(modern('server/discover').message))
  else await front.send(JSON.stringify(initialize(revision)))
  return front
}

/** What `call` gives where all is well. */
export const wellAnswered = JSON.stringify(echo.arguments)

const LINE_END = Buffer.from('\n')

function legacyCall(id: string): string {
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: echo })
}

/** Notifications and answers are taken without a word. */
function wantsAnswer(bytes: string | Buffer): boolean {
  const value = parse(bytes.toString())
  if (!isObject(value) || value['jsonrpc'] !== '2.0') return true
  const isNote = typeof value['method'] === 'string' && value['method'] !== '' && !Object.hasOwn(value, 'id')
  const hasSoundParams =
    value['params'] === undefined || value['params'] === null || isObject(value['params'])
  const isReply = !Object.hasOwn(value, 'method') && (isObject(value['result']) || isObject(value['error']))
  return !((isNote && hasSoundParams) || isReply)
}

function answerOf({ status, headers, text, events }: RawReply): Answer {
  const last = events.findLast(({ data }) => data !== undefined && data !== '')
  return { status, headers, message: asObject(last?.data ?? text), text }
}

function asObject(text: string): Json | undefined {
  const value = parse(text)
  return isObject(value) ? value : undefined
}

function textOf(message: Json | undefined): string {
  const result = message?.['result']
  const content = isObject(result) ? result['content'] : undefined
  const block: unknown = Array.isArray(content) ? content[0] : undefined
  return isObject(block) ? String(block['text']) : JSON.stringify(message)
}

async function readAll(stream: OpenReply, onEvent: (event: SseEvent) => void): Promise<void> {
  try {
    for await (const event of stream.events()) onEvent(event)
  } catch {
    // A stream that breaks shows in what never arrives.
  }
}

/** Messages in the order they came, until they are taken. */
class Inbox {
  #items: string[] = []

  add(text: string): void {
    this.#items.push(text)
  }

  clear(): void {
    this.#items = []
  }

  async next(isIt: (text: string) => boolean): Promise<string> {
    const found = await until(() => this.#items.find(isIt), 'a message on the stream')
    this.#items = this.#items.slice(this.#items.indexOf(found) + 1)
    return found
  }
}
