import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { badMessages } from '../../support/bad-messages.ts'
import { type FakeServer, fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import {
  type Front,
  modernFront,
  sessionFront,
  sseFront,
  stdioFront,
  wellAnswered,
} from '../../support/fronts.ts'
import { type Command, type RunningGateway, startCommand, startGateway } from '../../support/gateway.ts'
import { isObject } from '../../support/server/json.ts'
import { structured } from '../../support/structured-error.ts'

let server: FakeServer
let gateway: RunningGateway
const commands: Command[] = []

beforeAll(async () => {
  server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  gateway = await startGateway({ listen: { legacy_sse: true }, upstreams: { fake: server.url } })
})
afterAll(async () => {
  for (const command of commands) await command.close()
  await gateway.close()
  await server.close()
})

function stdio(): Command {
  const { command, args } = fakeServerCommand({ revision: '2025-11-25' })
  const started = startCommand(['stdio', '--', command, ...args])
  commands.push(started)
  return started
}

const fronts: Readonly<Record<string, () => Promise<Front>>> = {
  '2026-07-28 over HTTP': () => Promise.resolve(modernFront(gateway.url)),
  '2025-11-25 over HTTP': () => sessionFront(gateway.url),
  '2025-03-26 over HTTP': () => sessionFront(gateway.url, '2025-03-26'),
  'HTTP+SSE': () => sseFront(gateway.origin),
  '2025-11-25 over stdio': () => stdioFront(stdio()),
  '2026-07-28 over stdio': () => stdioFront(stdio(), '2026-07-28'),
}

describe.each(Object.entries(fronts))('a client of %s that sends an invalid message', (name, connect) => {
  let front: Front

  beforeAll(async () => {
    front = await connect()
  })
  afterAll(() => front.close())

  test.each(badMessages)(
    'receives an error for $name, and can continue',
    async ({ bytes, code, error, id = null }) => {
      const { status, message } = await front.send(bytes)
      expect(message).toMatchObject({ jsonrpc: '2.0', id, error: { code } })
      expect(structured(isObject(message?.['error']) ? message['error'] : {})).toBe(error)
      expect(status).toBe(name.endsWith('stdio') ? undefined : 400)
      expect(await front.call()).toBe(wellAnswered)
    },
  )
})
