/** How a client of the proposals reaches a gateway: over HTTP in each revision, or over the pipes of `gatehouse stdio`. */
import { enveloped, mirrorHeaders } from './client/modern-request.ts'
import { post, type RawReply } from './client/raw.ts'
import { until } from './condition.ts'
import { startCommand } from './gateway.ts'
import { openSession } from './raw-session.ts'
import { type Json, parse, isObject } from './server/json.ts'

/** One connection of such a client. */
export interface ClientFace {
  /** The response to a request. */
  request(method: string, params: Json): Promise<Json>
  /** The response to a text that may be no message. */
  raw(text: string): Promise<Json>
  close(): Promise<void>
}

/** A client over HTTP in a revision. */
export async function httpFace(
  url: string,
  revision: string,
  headers: Record<string, string> = {},
): Promise<ClientFace> {
  let last = 0
  const close = async (): Promise<void> => undefined
  if (revision >= '2026-07-28') {
    return {
      request: async (method, given) => {
        const params = enveloped(given, revision, {})
        const body = JSON.stringify({ jsonrpc: '2.0', id: ++last, method, params })
        const mirrored = mirrorHeaders(method, params, new Map())
        return responseOf(await post(url, body, { ...mirrored, ...headers }))
      },
      raw: async (text) =>
        responseOf(await post(url, text, { 'mcp-protocol-version': revision, ...headers })),
      close,
    }
  }
  const session = await openSession(url, revision, {}, headers)
  return {
    request: async (method, params) =>
      responseOf(await session.post({ jsonrpc: '2.0', id: ++last, method, params })),
    raw: async (text) => responseOf(await post(url, text, session.headers)),
    close,
  }
}

function responseOf({ text, events }: RawReply): Json {
  const texts = events.length > 0 ? events.flatMap(({ data }) => data ?? []) : [text]
  const messages = texts.map(parse).filter(isObject)
  return messages.find((message) => 'result' in message || 'error' in message) ?? {}
}

/** A client of `gatehouse stdio` with a configuration file. */
export async function stdioFace(config: string, revision: string): Promise<ClientFace> {
  const command = startCommand(['stdio', '--config', config])
  let last = 0
  const answered = (isWanted: (message: Json) => boolean): Promise<Json> =>
    until(() => {
      const messages = command.stdout().split('\n').slice(0, -1).map(parse).filter(isObject)
      return messages.find((message) => !('method' in message) && isWanted(message))
    }, 'the response')
  const write = (text: string): void => void command.stdin.write(`${text}\n`)
  const request = (method: string, params: Json): Promise<Json> => {
    const id = ++last
    write(JSON.stringify({ jsonrpc: '2.0', id, method, params }))
    return answered((message) => message['id'] === id)
  }
  await request('initialize', {
    protocolVersion: revision,
    capabilities: {},
    clientInfo: { name: 'raw', version: '1' },
  })
  write('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  return {
    request,
    raw: (text) => {
      write(text)
      return answered((message) => message['id'] === null || message['id'] === undefined)
    },
    close: () => command.close(),
  }
}
