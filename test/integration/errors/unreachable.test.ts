import { writeFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, folder } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import type { Json } from '../../support/server/json.ts'

const SECRET = 'k9f8d7s6a5f4d3s2a1g0h9j8'

interface Fault {
  readonly name: string
  /** What listens: an HTTP server, another service, or nothing if it is `gone`. */
  readonly answers?: RequestListener
  readonly speaks?: (socket: Socket) => void
  readonly url?: (port: number) => string
  /** The message in `check` and in the log; `URL` is replaced by the shown address. */
  readonly told: string
  /** The message for callers: the cause without the address. */
  readonly call: string
}

const answering =
  (status: number, headers: Record<string, string> = {}, body = ''): RequestListener =>
  (_request, response) =>
    void response.writeHead(status, headers).end(body)
const html = { 'content-type': 'text/html; charset=utf-8' }

const faults: readonly Fault[] = [
  {
    name: 'html',
    answers: answering(200, html, '<!doctype html><title>Welcome</title>'),
    told: 'expected MCP, got text/html from URL (HTTP 200): is this the MCP endpoint?',
    call: 'The server answered with text/html instead of MCP.',
  },
  {
    name: 'json',
    answers: answering(200, { 'content-type': 'application/json' }, '{"ok":true}'),
    told: 'expected MCP, got other JSON (application/json) from URL (HTTP 200): is this the MCP endpoint?',
    call: 'The server answered with other JSON (application/json) instead of MCP.',
  },
  {
    name: 'empty',
    answers: answering(200),
    told: 'expected MCP, got an empty answer from URL (HTTP 200): is this the MCP endpoint?',
    call: 'The server accepted the request and sent no response.',
  },
  {
    name: 'missing',
    answers: answering(404, html, '<h1>Not here</h1>'),
    told: 'URL does not exist (HTTP 404): correct the path; MCP endpoints are often at /mcp or /sse',
    call: 'The server answered HTTP 404.',
  },
  {
    name: 'posts',
    answers: answering(405),
    told: 'URL accepts no MCP requests (HTTP 405): is this the MCP endpoint?',
    call: 'The server answered HTTP 405.',
  },
  {
    name: 'moved',
    answers: answering(302, { location: `https://login.example/start?ticket=${SECRET}` }),
    told: 'URL redirects to https://login.example/start (HTTP 302): configure the address of the MCP endpoint itself',
    call: 'The server answered HTTP 302.',
  },
  {
    name: 'locked',
    answers: answering(401),
    told: "URL refused the gateway's credentials (HTTP 401): configure the correct `token`, `headers` or `oauth` for this server",
    call: "The server refused the gateway's credentials (HTTP 401).",
  },
  {
    name: 'failing',
    answers: answering(500, html, '<h1>Oops</h1>'),
    told: 'URL failed (HTTP 500): check the log of the server',
    call: 'The server answered HTTP 500.',
  },
  {
    name: 'gone',
    told: 'no answer from URL: the connection is refused. Nothing listens on port PORT of 127.0.0.1: start the server, or correct the port',
    call: 'The server cannot be reached: the connection is refused.',
  },
  {
    name: 'unknown',
    url: () => 'http://no-such-host.invalid/mcp',
    told: 'no answer from URL: its host name is unknown. The host name no-such-host.invalid has no address: correct it, or check the DNS',
    call: 'The server cannot be reached: its host name is unknown.',
  },
  {
    name: 'plain',
    answers: answering(200),
    url: (port) => `https://127.0.0.1:${port}/mcp`,
    told: 'no answer from URL: it does not use TLS. Port PORT of 127.0.0.1 answers without TLS: use http:// if that is intended',
    call: 'The server cannot be reached: it does not use TLS.',
  },
  {
    name: 'other',
    speaks: (socket) => void socket.write('SSH-2.0-OpenSSH_9.9\r\n'),
    told: 'no answer from URL: it does not use HTTP. Port PORT of 127.0.0.1 uses another protocol: correct the port',
    call: 'The connection to the server failed: ',
  },
  {
    name: 'closing',
    speaks: (socket) => void socket.once('data', () => socket.destroy()),
    told: 'no answer from URL: the connection was lost (other side closed, UND_ERR_SOCKET). Check that an MCP server over HTTP listens on port PORT of 127.0.0.1, and check its log',
    call: 'The connection to the server failed: other side closed',
  },
  {
    name: 'keyed',
    answers: answering(404),
    url: (port) => `http://127.0.0.1:${port}/s/${SECRET}/mcp`,
    told: 'URL does not exist (HTTP 404): correct the path; MCP endpoints are often at /mcp or /sse',
    call: 'The server answered HTTP 404.',
  },
]

describe('a URL that does not respond with MCP', () => {
  let urls: ReadonlyMap<string, URL>
  const servers: Server[] = []

  const listening = async ({ answers, speaks }: Fault): Promise<number> => {
    const server = answers ? createHttpServer(answers) : createTcpServer(speaks)
    server.on('connection', (socket) => socket.on('error', () => undefined))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    if (answers ?? speaks) servers.push(server)
    else await new Promise((resolve) => server.close(resolve))
    return port
  }

  beforeAll(async () => {
    const found = faults.map(async (fault) => {
      const port = await listening(fault)
      return [fault.name, new URL(fault.url?.(port) ?? `http://127.0.0.1:${port}/mcp`)] as const
    })
    urls = new Map(await Promise.all(found))
    return () => {
      for (const server of servers) server.close()
    }
  })

  const toldOf = ({ name, told }: Fault): string => {
    const { origin, pathname, port } = urls.get(name) ?? new URL('http://none')
    const shown = `${origin}${pathname.replace(SECRET, '***')}`
    return told.replace('URL', shown).replace('PORT', port)
  }
  const config = (): Json => ({
    upstreams: Object.fromEntries([...urls].map(([name, { href }]) => [name, href])),
  })

  test('is reported by `check` with its address, the cause and the fix', async () => {
    const path = join(folder(), 'gateway.config.yaml')
    writeFileSync(path, JSON.stringify({ store: 'memory', ...config() }))
    const { code, stderr } = await runCommand(['check', '--config', path])
    expect(code).toBe(1)
    for (const fault of faults) expect(stderr).toContain(`upstreams.${fault.name}: ${toldOf(fault)}\n`)
    expect(stderr).not.toContain(SECRET)
  })

  test('is reported with its address in the log, and without it to callers', async () => {
    const gateway = await localGateway({ ...config(), features: { validate: 'off' } })
    onTestFinished(() => gateway.close())
    for (const fault of faults) {
      const line = gateway.lines.find(
        ({ event, upstream }) => event === 'upstream.unavailable' && upstream === fault.name,
      )
      expect.soft(line?.reason).toBe(toldOf(fault))
      const url = `${gateway.origin}/mcp/${fault.name}`
      const client = await clientOf({ url }, { revision: '2026-07-28', handshake: false })
      const { text } = await client.request('tools/call', { name: 'list_things' })
      expect.soft(text, fault.name).toContain(`"message":"${fault.call}`)
      expect.soft(text, fault.name).not.toMatch(/127\.0\.0\.1|invalid|login\.example/)
    }
    expect(JSON.stringify(gateway.lines)).not.toContain(SECRET)
  })
})
