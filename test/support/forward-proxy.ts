import { createServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { onTestFinished } from 'vitest'

interface Behaviour {
  /** The status of refused requests; by default all are forwarded. */
  readonly refusal?: number
  /** The value of `Proxy-Authorization` that is required. */
  readonly authorization?: string
}

/** An HTTP proxy that connects to `port` of this machine whatever host is named. */
export async function forwardProxy(
  port: number,
  { refusal, authorization }: Behaviour = {},
): Promise<{ readonly url: string; readonly port: number; readonly used: readonly string[] }> {
  const used: string[] = []
  /** The status to refuse with. */
  const refused = ({ method, url, headers }: IncomingMessage): number | undefined => {
    used.push(`${method} ${url}`)
    if (authorization !== undefined && headers['proxy-authorization'] !== authorization) return 407
    return refusal
  }
  const server = createServer((incoming, outgoing) => {
    const status = refused(incoming)
    if (status !== undefined) return void outgoing.writeHead(status).end()
    const { pathname, search } = new URL(String(incoming.url))
    const { 'proxy-authorization': _own, ...headers } = incoming.headers
    const options = { host: '127.0.0.1', port, path: pathname + search, method: incoming.method, headers }
    const forwarded = request(options, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    forwarded.on('error', () => outgoing.destroy())
    outgoing.on('close', () => forwarded.destroy())
    incoming.pipe(forwarded)
  })
  server.on('connect', (incoming: IncomingMessage, socket) => {
    socket.on('error', () => undefined)
    const status = refused(incoming)
    if (status !== undefined)
      return void socket.end(`HTTP/1.1 ${status} Refused\r\ncontent-length: 0\r\n\r\n`)
    const target = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      target.pipe(socket).pipe(target)
    })
    target.on('error', () => socket.destroy())
    socket.on('close', () => target.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port: own } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${own}`, port: own, used }
}
