import { createServer, type IncomingHttpHeaders, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type FakeServer, startFakeServer } from './fake-server.ts'
import type { ServerOptions } from './server/options.ts'

/** Why a request is turned away. */
export interface Refusal {
  readonly status: number
  readonly challenge?: string
  readonly body?: string
}

type Check = (token: string | undefined, url: string) => Refusal | undefined | Promise<Refusal | undefined>

/** A server that looks at the token of each request, until the test is over. */
export interface ProtectedServer {
  readonly url: string
  readonly inner: FakeServer
  /** The headers of every request that came, let through or not. */
  readonly headers: IncomingHttpHeaders[]
  /** The tokens that were let through, without repetitions. */
  readonly tokens: ReadonlySet<string>
  check: Check
  /** What it says of itself (RFC 9728). */
  metadata: unknown
}

export async function protectedServer(
  check: Check,
  options: Partial<ServerOptions> = {},
): Promise<ProtectedServer> {
  const inner = await startFakeServer({ revision: '2026-07-28', transport: 'http', ...options })
  const tokens = new Set<string>()
  const server = createServer((incoming, outgoing) => {
    if (incoming.url?.startsWith('/.well-known/oauth-protected-resource')) {
      if (self.metadata === undefined) return void outgoing.writeHead(404).end()
      return void outgoing
        .writeHead(200, { 'content-type': 'application/json' })
        .end(JSON.stringify(self.metadata))
    }
    self.headers.push(incoming.headers)
    const token = /^Bearer (.+)$/.exec(incoming.headers.authorization ?? '')?.[1]
    void Promise.resolve(self.check(token, self.url)).then((refusal) => {
      if (refusal) {
        const { status, challenge, body = '' } = refusal
        return outgoing
          .writeHead(status, challenge === undefined ? {} : { 'www-authenticate': challenge })
          .end(body)
      }
      if (token !== undefined) tokens.add(token)
      const target = new URL(incoming.url ?? '/', inner.url)
      const on = forward(target, {
        method: incoming.method,
        headers: { ...incoming.headers, host: target.host },
      })
      on.on('response', (answer) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(outgoing)
      })
      on.on('error', () => outgoing.destroy())
      outgoing.on('close', () => on.destroy())
      incoming.pipe(on)
      return outgoing
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const self: ProtectedServer = {
    url: `http://127.0.0.1:${port}${new URL(inner.url).pathname}`,
    inner,
    headers: [],
    tokens,
    check,
    metadata: undefined,
  }
  onTestFinished(async () => {
    server.closeAllConnections()
    server.close()
    await inner.close()
  })
  return self
}

/** Asks for a bearer token and says where the server describes itself. */
export function unauthorized(url: string, scope?: string): Refusal {
  const metadata = `${new URL(url).origin}/.well-known/oauth-protected-resource`
  return {
    status: 401,
    challenge: `Bearer resource_metadata="${metadata}"${scope === undefined ? '' : `, scope="${scope}"`}`,
    body: JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Unauthorized' } }),
  }
}
