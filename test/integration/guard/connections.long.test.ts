// Connections that send nothing useful, at paths that need no credentials.
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { stdioServer } from '../../support/journey.ts'
import { tcp } from '../../support/raw-socket.ts'
import { isObject, parse } from '../../support/server/json.ts'
import { isSoak, variantsOf } from '../../support/soak.ts'

const report = pathToFileURL(join(import.meta.dirname, '../../fixtures/memory-report/main.ts')).href
const MEGABYTE = 1024 * 1024
const CONNECTIONS = 1000
/** What they may take together, in bytes: what is in use, and what the process has of the machine. */
const MAX_IN_USE = 60 * MEGABYTE
const MAX_RESIDENT = 100 * MEGABYTE

let gateway: GatewayProcess
beforeAll(async () => {
  const options = { args: ['--log-level', 'error'], env: { NODE_OPTIONS: `--import ${report}` } }
  gateway = await startGatewayProcess({ upstreams: { stdio: stdioServer() } }, options)
})
afterAll(() => gateway.close())

/** What is in use after a collection, and what is resident, in bytes. */
async function memory(): Promise<{ readonly inUse: number; readonly resident: number }> {
  const reports = (): readonly string[] => gateway.stderr().match(/^.*"memory\.report".*$/gm) ?? []
  const before = reports().length
  gateway.signal('SIGUSR2')
  await until(() => reports().length > before, 'a report')
  const found = parse(reports().at(-1) ?? '')
  const { heapUsed, arrayBuffers } = isObject(found) ? found : {}
  const status = readFileSync(`/proc/${gateway.pid}/status`, 'utf8')
  const resident = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) * 1024
  return { inUse: Number(heapUsed) + Number(arrayBuffers), resident }
}

const body = Buffer.alloc(MEGABYTE - 1, 'x')
const json = 'application/json'
const head = (path: string, length: string, type = json, more = ''): string =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type}\r\n${length}\r\n${more}\r\n`
const unfinished =
  (path: string, type = json, more = '') =>
  (socket: Socket): void => {
    socket.write(head(path, `Content-Length: ${MEGABYTE}`, type, more))
    socket.write(body)
  }
const form = 'application/x-www-form-urlencoded'
const signed = `X-Hub-Signature-256: sha256=${'a'.repeat(64)}\r\n`

const ways: readonly (readonly [title: string, isOrdinary: boolean, send: (socket: Socket) => void])[] = [
  ['nothing', false, () => undefined],
  ['half a head', false, (socket) => socket.write(`POST /mcp HTTP/1.1\r\nX-A: ${'a'.repeat(15_000)}`)],
  [
    'a request, and then nothing',
    false,
    (socket) => socket.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'),
  ],
  [
    'a GET for events without a session',
    false,
    (socket) => socket.write('GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n'),
  ],
  [
    'a head, and then little',
    false,
    (socket) => {
      socket.write(head('/mcp', 'Content-Length: 1000'))
      const timer = setInterval(() => socket.write('x'), 20)
      socket.on('close', () => clearInterval(timer))
    },
  ],
  [
    'a body of unknown length without an end to /mcp',
    false,
    (socket) => {
      socket.write(head('/mcp', 'Transfer-Encoding: chunked'))
      socket.write(`${(MEGABYTE - 1).toString(16)}\r\n`)
      socket.write(body)
    },
  ],
  ...(
    [
      ['/mcp', true],
      ['/mcp/stdio', false],
      ['/hooks/x', true],
      ['/hooks/stdio/x', false],
      [`/hooks/stdio/events/${'a'.repeat(22)}`, false],
      ['/messages', false],
      ['/permissions', false],
      ['/permissions/negotiate', false],
      ['/export', false],
      ['/import', false],
      ['/subscribe', false],
      ['/unsubscribe', false],
      ['/uploads/x', false],
      ['/sign-out', false],
      ['/data/x', false],
      ['/health', false],
      ['/', false],
      ['/nowhere', false],
    ] as const
  ).map(
    ([path, isOrdinary]) =>
      [`a body without an end to ${path}`, isOrdinary, unfinished(path, json, signed)] as const,
  ),
  ['a form without an end', false, unfinished('/confirm/x', form)],
]

it.each(variantsOf(ways, ([, isOrdinary]) => isOrdinary))(
  'a thousand connections that send %s take little memory, which is given back',
  async (_title, _isOrdinary, send) => {
    const before = await memory()
    const sockets: Socket[] = []
    for (let count = 0; count < CONNECTIONS; count++) {
      const socket = await tcp(gateway.url)
      send(socket.resume())
      sockets.push(socket)
    }
    if (isSoak) await pause(5000)
    const during = await memory()
    const { status } = await fetch(new URL('/health', gateway.url))
    for (const socket of sockets) socket.destroy()
    await until(
      async () => (await memory()).inUse - before.inUse < 10 * MEGABYTE,
      'the memory to be given back',
    )
    expect(status).toBe(200)
    expect(during.inUse - before.inUse).toBeLessThan(MAX_IN_USE)
    expect(during.resident - before.resident).toBeLessThan(MAX_RESIDENT)
  },
)
