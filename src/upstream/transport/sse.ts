/** HTTP+SSE (2024-11-05) to a server. */
import { GatewayError } from '../../core/error.ts'
import type { OutgoingRequest } from '../../protocol/json-rpc-peer.ts'
import { baseHeaders, exchangeHttp, type HttpClient, noMessage } from './http-client.ts'
import type { OpenTransportAs, UpstreamTransport, StepTimeout } from './transport.ts'

/**
 * Connects to a server of 2024-11-05 over HTTP+SSE: one stream for everything it sends, and posts for messages to it.
 */
export function sseConnect(base: HttpClient, stepTimeout: StepTimeout): OpenTransportAs {
  return async (receiver, login = base.login) => {
    const client = { ...base, login }
    const endpoint = Promise.withResolvers<string>()
    let abort = (): void => undefined
    const signal = stepTimeout()
    const giveUp = (): void => {
      const late = new GatewayError('SERVER_UNAVAILABLE', 'The server did not send an endpoint in time.')
      endpoint.reject(signal.reason instanceof GatewayError ? signal.reason : late)
      abort()
    }
    signal.addEventListener('abort', giveUp)
    const stream = exchangeHttp(client, {
      method: 'GET',
      headers: baseHeaders(client, 'GET'),
      onAbortable: (given) => {
        abort = given
      },
      onHead: (answer) => {
        if (!answer.isEventStream) endpoint.reject(noMessage(answer, client.url))
      },
      spool: () => receiver.spool(),
      onEvent: ({ event, data }) => {
        if (event === 'endpoint') endpoint.resolve(data)
        else if (data !== '') receiver.receive(data)
      },
    })
    const ended = (): void => {
      endpoint.reject(
        new GatewayError('SERVER_UNAVAILABLE', 'The server closed its stream before it sent an endpoint.'),
      )
      receiver.closed(new Error("The server's stream ended."))
    }
    stream.then(ended, (error: unknown) => {
      endpoint.reject(error)
      receiver.closed(new Error("The server's stream was interrupted."))
    })
    if (signal.aborted) giveUp()
    const path = await endpoint.promise.finally(() => signal.removeEventListener('abort', giveUp))
    return new SseTransport(client, postPath(client.url, path), () => abort())
  }
}

class SseTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #client: HttpClient
  readonly #path: string
  readonly #abort: () => void

  constructor(client: HttpClient, path: string, abort: () => void) {
    this.#client = client
    this.#path = path
    this.#abort = abort
  }

  async send(message: string, { headers }: OutgoingRequest): Promise<void> {
    const answer = await exchangeHttp(this.#client, {
      method: 'POST',
      headers: { ...baseHeaders(this.#client, 'POST'), ...headers },
      body: message,
      path: this.#path,
    })
    if (answer.status >= 300) throw noMessage(answer, this.#client.url)
  }

  async close(): Promise<void> {
    this.#abort()
  }
}

/** The path for posts. They carry credentials, so another origin is refused. @throws UPSTREAM_ERROR */
function postPath(url: URL, endpoint: string): string {
  const target = URL.canParse(endpoint, url.href) ? new URL(endpoint, url) : undefined
  if (target?.origin !== url.origin) {
    throw new GatewayError('UPSTREAM_ERROR', 'The server sent an endpoint on another origin.')
  }
  return target.pathname + target.search
}
