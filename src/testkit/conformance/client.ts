/**
 * A client of the gateway for checks: requests of 2026-07-28 over HTTP to one address, as one caller, with everything
 * that the gateway answers. Every request is independent, so a check can send what no SDK would send.
 */
import { Agent, request } from 'undici'
import { isObject, readJson } from '../../core/json/json.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import { self } from '../../core/identity.ts'
import { standardHeaders } from '../../protocol/headers.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { latestModern } from '../../core/revisions.ts'
import { readEvents } from '../../protocol/sse.ts'

/** Header fields, by name. */
type Headers = Readonly<Record<string, string>>

/** What a request is sent with, besides its method and parameters. */
export interface Extras {
  /** Members of `_meta`. */
  readonly meta?: Fields
  /** Members of the parameters beside those of the method. */
  readonly beside?: Fields
  readonly headers?: Headers
  /** What the client declares to support. */
  readonly capabilities?: Fields
}

/** A response over HTTP. */
interface HttpAnswer {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Headers
  readonly text: string
}

/** The response to a JSON-RPC request: a result or an error, and the notifications before it. */
export interface Answer extends HttpAnswer {
  /** The JSON-RPC response; empty if there was none. */
  readonly message: Fields
  readonly result: Fields | undefined
  readonly error: Fields | undefined
  readonly notifications: readonly Fields[]
}

/** The time that a request may take, in milliseconds: more than a gateway takes by default to end a call. */
const REQUEST_TIMEOUT_MS = 45_000

/** The maximum size of a response, in bytes. */
const MAX_RESPONSE_BYTES = 32 * 1024 * 1024

/** The connections of a run. */
export function createConnections(): Agent {
  return new Agent({ maxResponseSize: MAX_RESPONSE_BYTES })
}

/** An MCP endpoint of the gateway, used by one caller. */
export class Endpoint {
  readonly #url: string
  readonly #token: string
  readonly #connections: Agent
  /** How the functions of the gateway itself can be used. */
  readonly own: 'methods' | 'tools' | 'off'
  #ids = 0

  constructor(url: string, token: string, own: Endpoint['own'], connections: Agent) {
    this.#url = url
    this.own = own
    this.#token = token
    this.#connections = connections
  }

  /** Sends a JSON-RPC request. @throws if there is no response over HTTP */
  async send(method: string, params: Fields = {}, options: Extras = {}): Promise<Answer> {
    const { meta = {}, beside = {}, headers = {}, capabilities = {} } = options
    const _meta = {
      [metaKeys.version]: latestModern.name,
      [metaKeys.clientInfo]: { name: `${self.name}-conformance`, version: self.version },
      [metaKeys.capabilities]: capabilities,
      ...meta,
    }
    const complete = { ...params, ...beside, _meta }
    const body = JSON.stringify({ jsonrpc: '2.0', id: ++this.#ids, method, params: complete })
    const standard = standardHeaders(method, Payload.of(complete))
    return this.post(body, { 'mcp-protocol-version': latestModern.name, ...standard, ...headers })
  }

  /** Calls a tool. @throws as `send` */
  call(tool: string, args: Fields = {}, options: Extras = {}): Promise<Answer> {
    return this.send('tools/call', { name: tool, arguments: args }, options)
  }

  /** Posts a body to the endpoint as it is. @throws if there is no response over HTTP */
  async post(body: string, headers: Headers = {}): Promise<Answer> {
    const answer = await this.#request(
      this.#url,
      {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body,
    )
    const messages = messagesIn(answer)
    const message = messages.find(({ method }) => method === undefined) ?? {}
    return {
      ...answer,
      message,
      result: isObject(message.result) ? message.result : undefined,
      error: isObject(message.error) ? message.error : undefined,
      notifications: messages.filter(({ method }) => method !== undefined),
    }
  }

  /** Reads a path of the gateway, as the same caller. @throws if there is no response over HTTP */
  get(path: string, headers: Headers = {}): Promise<HttpAnswer> {
    return this.#request(new URL(path, this.#url).href, headers)
  }

  /** Posts a body, or without one reads an address. */
  async #request(url: string, headers: Headers, body: string | null = null): Promise<HttpAnswer> {
    const response = await request(url, {
      method: body === null ? 'GET' : 'POST',
      body,
      headers: { authorization: `Bearer ${this.#token}`, ...headers },
      dispatcher: this.#connections,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    const received = Object.entries(response.headers).map(([name, value]) => [name, String(value)])
    return {
      status: response.statusCode,
      headers: Object.fromEntries(received),
      text: await response.body.text(),
    }
  }
}

/** The JSON-RPC messages of a response: its body, or the events of its stream. */
function messagesIn({ headers, text }: HttpAnswer): readonly Fields[] {
  const isStream = headers['content-type']?.startsWith('text/event-stream') === true
  return (isStream ? eventsIn(text) : [text]).flatMap((each) => {
    const message = readJson(each)
    return isObject(message) ? [message] : []
  })
}

function eventsIn(text: string): readonly string[] {
  const found: string[] = []
  const read = readEvents(MAX_RESPONSE_BYTES, {
    onEvent: ({ data }) => void found.push(data),
    onOverflow: () => undefined,
  })
  read(Buffer.from(text))
  return found
}
