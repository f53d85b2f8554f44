/**
 * No client has to be restarted because the gateway was: under each client library, the gateway is killed in mid-session, and
 * the same client object lists and calls once more. The clients of TypeScript run in this process; the others are programs.
 */
import { spawn } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { within } from '../../src/core/time/waiting.ts'
import { until } from '../support/condition.ts'
import { type FakeServer, startFakeServer } from '../support/fake-server.ts'
import { type GatewayProcess, startGatewayProcess } from '../support/gateway-process.ts'
import { folder } from '../support/journey.ts'
import { connectSdk1 } from '../support/peers/sdk1.ts'
import { connectSdk2 } from '../support/peers/sdk2.ts'
import type { PeerClient } from '../support/peers/client.ts'
import { isObject, type Json, parse } from '../support/server/json.ts'
import { steadyPort } from '../support/steady-port.ts'
import { type PeerServer, serveOverHttp } from './journey.ts'
import { buildAdapters, buildPeers } from './toolchains.ts'

const WAIT = { timeout: 20_000, interval: 500 }

const [peers, adapters] = await Promise.all([buildPeers(), buildAdapters()])
const built = Object.values(peers).flatMap((each) => ('peer' in each ? [each.peer] : []))

/** A server of another language, where there is one, and one in this process. */
let server: PeerServer | undefined
let fake: FakeServer
beforeAll(async () => {
  const [peer] = built
  if (peer) server = await serveOverHttp(peer.server)
  fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
}, 60_000)
afterAll(async () => {
  await server?.close()
  await fake.close()
})

/** A gateway that is killed, and started again with the same store at the same address. */
async function killable(upstream: string | undefined) {
  const [port, store] = [await steadyPort(), folder()]
  const config = {
    store,
    listen: { legacy_sse: true },
    features: { confirm: 'off' },
    upstreams: { one: { url: upstream ?? '' } },
  }
  const start = (): Promise<GatewayProcess> => startGatewayProcess(config, { port })
  let gateway = await start()
  onTestFinished(() => gateway.close())
  return {
    url: `http://127.0.0.1:${port}/mcp/one`,
    sse: `http://127.0.0.1:${port}/sse/one`,
    async kill(): Promise<void> {
      gateway.signal('SIGKILL')
      await gateway.close()
      gateway = await start()
    },
  }
}

/** A client in another process: each journey that it makes is a line of its output. */
function program(command: readonly string[], environment: NodeJS.ProcessEnv) {
  const [name = '', ...args] = command
  const child = spawn(name, args, {
    env: { ...process.env, ...environment },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const written = { output: '', errors: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (written.output += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (written.errors += text))
  child.stdin.on('error', () => undefined)
  onTestFinished(() => void child.kill('SIGKILL'))
  return {
    async journey(): Promise<Json> {
      await until(() => written.output.includes('\n') || child.exitCode !== null, 'a journey', 60_000)
      if (!written.output.includes('\n')) throw new Error(`it ended: ${written.errors}`)
      const [line = '', ...rest] = written.output.split('\n')
      written.output = rest.join('\n')
      const seen = parse(line)
      return isObject(seen) ? seen : {}
    },
    again: () => void child.stdin.write('\n'),
  }
}

const programs = [
  ...Object.keys(peers).map((name) => ({ title: name, name, environment: {} })),
  ...['mcp new', 'fastmcp new', 'rust'].map((name) => ({
    title: `${name} with a handshake`,
    name,
    environment: { PEER_MODE: 'legacy' },
  })),
  { title: 'go with a handshake', name: 'go', environment: { PEER_REVISION: '2025-06-18' } },
]

test.for(programs)('$title makes the same journey after a kill of the gateway', async (each, { skip }) => {
  const peer = peers[each.name]
  if (!peer || 'missing' in peer) return skip(peer?.missing ?? 'it is not there')
  const gateway = await killable(server?.url)
  const client = program([...peer.peer.client, gateway.url], { ...each.environment, PEER_AGAIN: '1' })
  const before = await client.journey()
  expect(before['tools']).toEqual(['add', 'ask', 'count', 'echo', 'fail'])
  await gateway.kill()
  client.again()
  expect(inOrder(await client.journey())).toEqual(inOrder(before))
})

/** Rust's SDK handles each notification in its own task, so that concurrent ones lose their order. */
function inOrder({ progress, ...rest }: Json): Json {
  return {
    ...rest,
    progress: Array.isArray(progress) ? progress.map(Number).toSorted((one, other) => one - other) : progress,
  }
}

test('LangChain and the AI SDK call tools after a kill of the gateway', async ({ skip }) => {
  if ('missing' in adapters) return skip(adapters.missing)
  const gateway = await killable(server?.url)
  const calls = [
    ['echo', { text: 'hello' }],
    ['add', { a: 2, b: 40 }],
  ]
  const given = JSON.stringify({ target: { url: gateway.url }, calls, again: true })
  const client = program([...adapters.client, given], {})
  const before = await client.journey()
  expect(before).toMatchObject({ langchain: { results: [{ value: {} }, { value: {} }] } })
  await gateway.kill()
  client.again()
  expect(await client.journey()).toEqual(before)
})

interface ClientHere {
  readonly title: string
  connect(at: { readonly url: string; readonly sse: string }): Promise<PeerClient>
  /** It asks what became of a call whose stream broke; the others wait until their own timeout. */
  readonly resumes?: true
}

const here: readonly ClientHere[] = [
  {
    title: 'SDK 1.x over HTTP',
    resumes: true,
    connect: ({ url }) => connectSdk1({ transport: 'http', url, isPatient: true }),
  },
  { title: 'SDK 1.x over HTTP+SSE', connect: ({ sse: url }) => connectSdk1({ transport: 'sse', url }) },
  {
    title: 'SDK 2.x (legacy) over HTTP',
    resumes: true,
    connect: ({ url }) => connectSdk2({ transport: 'http', url, isPatient: true }, 'legacy'),
  },
  {
    title: 'SDK 2.x (auto) over HTTP',
    connect: ({ url }) => connectSdk2({ transport: 'http', url }, 'auto'),
  },
  {
    title: 'SDK 2.x of 2026-07-28 over HTTP',
    connect: ({ url }) => connectSdk2({ transport: 'http', url }, { pin: '2026-07-28' }),
  },
  {
    title: 'SDK 2.x over HTTP+SSE',
    connect: ({ sse: url }) => connectSdk2({ transport: 'sse', url }, 'legacy'),
  },
]

describe.each(here)('the $title', ({ connect, resumes }) => {
  test('lists and calls after a kill of the gateway, and learns that the call in flight is lost', async () => {
    const gateway = await killable(fake.url)
    const client = await connect(gateway)
    onTestFinished(() => client.close().catch(() => undefined))
    const before = await client.tools()
    const begun = Promise.withResolvers<void>()
    const inFlight = client.call('slow', { ms: 60_000, steps: 6000 }, () => begun.resolve())
    const ended = inFlight.then(
      ({ isError }) => isError,
      () => true,
    )
    await begun.promise
    await gateway.kill()
    // The client of HTTP+SSE calls at the address of the stream that was cut off until it has another one.
    const called = await vi.waitFor(() => client.call('echo', { text: 'still here' }), WAIT)
    expect(called).toMatchObject({ isError: false, text: '{"text":"still here"}' })
    expect(await client.tools()).toEqual(before)
    if (resumes) expect(await within(ended, 20_000, false)).toBe(true)
  })
})
