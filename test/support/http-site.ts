import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'

/** A request as it arrived. */
export interface SiteRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

/** A response; a body that is no text is sent as JSON. */
export interface SiteAnswer {
  readonly status?: number
  readonly type?: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: unknown
}

/** A server on loopback that answers each request as told, until the test is over. */
export async function httpSite(
  answer: (request: SiteRequest, origin: string) => SiteAnswer | Promise<SiteAnswer>,
): Promise<{ readonly origin: string; readonly requests: readonly SiteRequest[] }> {
  const requests: SiteRequest[] = []
  const respond = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const { method = '', url: path = '', headers } = incoming
    const request = { method, path, headers, body: await text(incoming) }
    requests.push(request)
    const given = await answer(request, origin)
    const { status = 200, type = 'application/json', body = '' } = given
    outgoing.writeHead(status, { 'content-type': type, ...given.headers })
    outgoing.end(typeof body === 'string' ? body : JSON.stringify(body))
  }
  const server = createServer((incoming, outgoing) => {
    respond(incoming, outgoing).catch(() => outgoing.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { origin, requests }
}
