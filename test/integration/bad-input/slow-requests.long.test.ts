import type { Socket } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usual } from '../../support/client/raw.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { modernFront, wellAnswered } from '../../support/fronts.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { postHead, readSocket, tcp } from '../../support/raw-socket.ts'

let server: FakeServer
let gateway: RunningGateway
const sockets: Socket[] = []

beforeAll(async () => {
  server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await startGateway({ upstreams: { fake: server.url } })
})
afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  await gateway.close()
  await server.close()
})

const halves = [
  ['head', 'POST /mcp HTTP/1.1\r\nHost: localhost\r\n'],
  ['body', `${postHead({ 'content-length': '1000', ...usual })}{"jsonrpc":`],
] as const

test.concurrent.each(halves)(
  'a client that stops in the middle of its %s is disconnected after a timeout',
  async (_name, bytes) => {
    const socket = await tcp(gateway.origin)
    sockets.push(socket)
    socket.write(bytes)
    expect(await readSocket(socket, undefined, 50_000)).toMatch(/^(HTTP\/1\.1 408 |$)/)
    expect(await modernFront(gateway.url).call()).toBe(wellAnswered)
  },
)
