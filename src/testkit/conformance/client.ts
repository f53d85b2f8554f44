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
import { latestModern } from '../../protocol/revisions.ts'
import { readEvents } from '../../protocol/sse.ts'

/** What a request is sent with, besides its method and parameters. */
export interface RequestOptions {
  /** Members of `_meta`. */
  readonly meta?: Fields
  /** Members of the parameters beside those of the method. */
  readonly beside?: Fields
  readonly headers?: Readonly<Record<string, string>>
  /** What the client declares to support. */
  readonly capabilities?: Fields
}

/** A response over HTTP. */
export interface HttpAnswer {
  readonly status: number
  /** By name in lower case. */
  readonly headers: Readonly<Record<string, string>>
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
export class Connections {
  readonly agent = new Agent({ maxResponseSize: MAX_RESPONSE_BYTES })

  close(): Promise<void> {
    return this.agent.destroy()
  }
}

interface EndpointOptions {
  /** The address of the gateway, without a path. */
  readonly origin: string
  /** The path of the MCP endpoint, such as `/mcp/files`. */
  readonly path: string
  readonly token: string
  readonly connections: Connections
}

/** An MCP endpoint of the gateway, used by one caller. */
export class Endpoint {
  readonly #options: EndpointOptions
  #ids = 0

  constructor(options: EndpointOptions) {
    this.#options = options
  }

  /** Sends a JSON-RPC request. @throws if there is no response over HTTP */
  async send(method: string, params: Fields = {}, options: RequestOptions = {}): Promise<Answer> {
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
  call(tool: string, args: Fields = {}, options: RequestOptions = {}): Promise<Answer> {
    return this.send('tools/call', { name: tool, arguments: args }, options)
  }

  /** Posts a body to the endpoint as it is. @throws if there is no response over HTTP */
  async post(body: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> {
    const answer = await this.#request(this.#options.path, {
      method: 'POST',
      body,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
    })
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
  get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<HttpAnswer> {
    return this.#request(path, { method: 'GET', headers })
  }

  async #request(
    path: string,
    {
      headers,
      ...options
    }: {
      readonly method: 'GET' | 'POST'
      readonly body?: string
      readonly headers: Readonly<Record<string, string>>
    },
  ): Promise<HttpAnswer> {
    const { origin, token, connections } = this.#options
    const {
      statusCode,
      headers: received,
      body,
    } = await request(`${origin}${path}`, {
      ...options,
      headers: { authorization: `Bearer ${token}`, ...headers },
      dispatcher: connections.agent,
      signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
    })
    const own = Object.entries(received).map(([name, value]) => [name, String(value)])
    return { status: statusCode, headers: Object.fromEntries(own), text: await body.text() }
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
