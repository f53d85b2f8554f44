import { once } from 'node:events'
import { Pool } from 'undici'
import { isObject, type Json } from './server/json.ts'

const meta = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
}
const usual = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }

/** One of many clients that share connections to a gateway. */
export interface CrowdClient {
  /** Calls `echo` and gives what came back; throws unless it is the call's own. */
  echo(id: number): Promise<void>
  /** Begins a call that reports progress and goes away after its first event. */
  vanish(id: number): Promise<void>
  /** Ends the session, where there is one. */
  leave(): Promise<void>
}

/** Makes clients of a gateway that make thousands of calls cheaply. */
export class Crowd {
  readonly #pool: Pool
  readonly #path: string

  constructor(url: string, connections: number) {
    const { origin, pathname } = new URL(url)
    this.#pool = new Pool(origin, { connections, bodyTimeout: 0 })
    this.#path = pathname
  }

  /** A client with a session. */
  async legacy(): Promise<CrowdClient> {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 'crowd', version: '1' },
    }
    const opened = await this.#request('POST', {}, { id: 0, method: 'initialize', params })
    const session = { 'mcp-session-id': String(opened.session), 'mcp-protocol-version': '2025-11-25' }
    await this.#request('POST', session, { method: 'notifications/initialized' })
    return this.#client(session, (method, params) => ({ method, params }))
  }

  /** A client of 2026-07-28. */
  modern(): CrowdClient {
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' }
    return this.#client(headers, (method, params) => ({
      method,
      params: { ...params, _meta: { ...meta, ...(params['_meta'] as Json) } },
    }))
  }

  close(): Promise<void> {
    return this.#pool.destroy()
  }

  #client(headers: Record<string, string>, message: (method: string, params: Json) => Json): CrowdClient {
    const call = (name: string): Record<string, string> => {
      return headers['mcp-method'] === undefined ? headers : { ...headers, 'mcp-name': name }
    }
    return {
      echo: async (id) => {
        const { text } = await this.#request('POST', call('echo'), {
          id,
          ...message('tools/call', { name: 'echo', arguments: { id } }),
        })
        if (!text.includes(`{\\"id\\":${id}}`)) throw new Error(`${id} was answered ${text}`)
      },
      vanish: async (id) => {
        const params = { name: 'slow', arguments: { ms: 400, steps: 4 }, _meta: { progressToken: id } }
        const body = JSON.stringify({ jsonrpc: '2.0', id, ...message('tools/call', params) })
        const reply = await this.#pool.request({
          method: 'POST',
          path: this.#path,
          headers: { ...usual, ...call('slow') },
          body,
        })
        reply.body.on('error', () => undefined)
        await once(reply.body, 'data')
        reply.body.destroy()
      },
      leave: async () => {
        if (headers['mcp-session-id'] !== undefined) await this.#request('DELETE', headers)
      },
    }
  }

  async #request(method: 'POST' | 'DELETE', headers: Record<string, string>, message?: Json) {
    const body = message === undefined ? null : JSON.stringify({ jsonrpc: '2.0', ...message })
    const reply = await this.#pool.request({
      method,
      path: this.#path,
      headers: { ...usual, ...headers },
      body,
    })
    const text = await reply.body.text()
    if (reply.statusCode >= 300) throw new Error(`${method} was answered ${reply.statusCode} ${text}`)
    return { text, session: reply.headers['mcp-session-id'] }
  }
}

/** What a process loaded with the memory report says it holds. */
export interface Holdings {
  readonly heapUsed: number
  readonly resources: Readonly<Record<string, number>>
}

/** Reads a line of the memory report. */
export function holdingsIn(line: Json): Holdings {
  const { heapUsed, resources } = line
  const counts = isObject(resources)
    ? Object.entries(resources).map(([name, count]) => [name, Number(count)])
    : []
  return { heapUsed: Number(heapUsed), resources: Object.fromEntries(counts) }
}
