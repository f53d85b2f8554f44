import { describe, expect, test } from 'vitest'
import type { Client } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import type { UpstreamConnection } from '../../../src/upstream/protocol/connection.ts'
import { Eras, type Route } from '../../../src/upstream/negotiate.ts'
import { silentLog } from '../../support/silent-log.ts'
import { toolCall } from '../../support/tool-call.ts'

const connect = () => Promise.reject(new Error('no link'))
const older: Route = { era: 'legacy', revision: '2025-11-25', mirrors: false, connect }
const newest: Route = { era: 'modern', revision: '2026-07-28', mirrors: true, connect, older }

/** A server whose handshake outcome is set by the test. */
class Server {
  readonly opened: string[] = []
  now = 0
  older: 'sessions' | 'stateless' | GatewayError
  /** Lets pending handshakes end. */
  gate: Promise<unknown> = Promise.resolve()
  readonly eras = new Eras(silentLog, () => this.now)

  constructor(older: Server['older'] = 'sessions') {
    this.older = older
  }

  readonly open = async (route: Route, isTrial: boolean): Promise<UpstreamConnection> => {
    this.opened.push(isTrial ? `${route.era}?` : route.era)
    const found = this.older
    await this.gate
    if (route.era === 'legacy' && found instanceof GatewayError) throw found
    return { era: route.era, canAsk: route.era === 'modern' || found === 'sessions' } as UpstreamConnection
  }

  async eraOf(client: Client, way: Route = newest): Promise<string> {
    return (await this.eras.connect(toolCall({ client }), way, this.open)).era
  }
}

const capabilities = { elicitation: {} }

function session(name: string, declared = {}): Client {
  return { era: 'legacy', revision: '2025-06-18', capabilities: declared, session: name }
}

const recent: Client = { era: 'modern', revision: '2026-07-28', capabilities }
const own: Client = { era: 'legacy', revision: '2025-11-25', capabilities: {} }

const refused = new GatewayError('UPSTREAM_ERROR', 'no', { relayed: Payload.of({ code: -32022 }) })
const silent = new GatewayError('SERVER_UNAVAILABLE', 'The server did not respond in time.')

describe.each([
  ['keeps sessions', 'sessions', 'legacy', 'legacy'],
  ['keeps no sessions', 'stateless', 'legacy', 'modern'],
  ['refuses initialize', refused, 'modern', 'modern'],
  ['does not respond to initialize', silent, 'modern', 'modern'],
] as const)('a server of 2026-07-28 whose legacy era %s', (_name, side, mute, askable) => {
  function server(): Server {
    return new Server(side)
  }

  test(`a legacy client uses the ${mute} era, or the ${askable} era with client capabilities`, async () => {
    const at = server()
    expect(await at.eraOf(session('mute'))).toBe(mute)
    expect(await at.eraOf(session('askable', capabilities))).toBe(askable)
    expect(at.eras.route(session('mute'), newest)?.era).toBe(mute)
  })

  test('concurrent callers share one trial of the legacy era', async () => {
    const at = server()
    const gate = Promise.withResolvers<void>()
    at.gate = gate.promise
    const waiting = Promise.all(['a', 'b', 'c'].map((name) => at.eraOf(session(name))))
    gate.resolve()
    expect(await waiting).toEqual([mute, mute, mute])
    expect(at.opened.filter((way) => way === 'legacy?')).toHaveLength(1)
  })

  test('modern clients and the gateway itself never use the legacy era', async () => {
    const at = server()
    expect([await at.eraOf(recent), await at.eraOf(own)]).toEqual(['modern', 'modern'])
    expect(at.opened).toEqual(['modern', 'modern'])
  })
})

test('a server of one era has no alternative', async () => {
  const at = new Server()
  const { older: _none, ...pinned } = newest
  expect([await at.eraOf(session('a'), pinned), await at.eraOf(session('a'), older)]).toEqual([
    'modern',
    'legacy',
  ])
  expect(at.opened).toEqual(['modern', 'legacy'])
})

test('a server that did not respond is tried again for later sessions, and existing sessions stay in their era', async () => {
  const at = new Server(silent)
  expect(await at.eraOf(session('early'))).toBe('modern')
  at.older = 'sessions'
  at.now = 59_000
  expect(await at.eraOf(session('waiting'))).toBe('modern')
  at.now = 61_000
  expect(await at.eraOf(session('late'))).toBe('legacy')
  expect(await at.eraOf(session('early'))).toBe('modern')
  expect(at.eras.route(session('waiting'), newest)?.era).toBe('modern')
})

test('each unanswered handshake doubles the delay, up to an hour', async () => {
  const at = new Server(silent)
  for (let time = 0; time < 600; time++) {
    at.now = time * 60_000
    await at.eraOf(session(`at ${time}`))
  }
  const trials = at.opened.filter((way) => way === 'legacy?').length
  expect(trials).toBeGreaterThan(12)
  expect(trials).toBeLessThan(18)
})

test('a refused handshake is final until the server is negotiated again', async () => {
  const at = new Server(refused)
  await at.eraOf(session('one'))
  at.older = 'sessions'
  at.now = Number.MAX_SAFE_INTEGER
  expect(await at.eraOf(session('two'))).toBe('modern')
  at.eras.forget()
  expect(await at.eraOf(session('two'))).toBe('legacy')
})

test('a server that lost its legacy era is used in the modern era', async () => {
  const at = new Server()
  expect(await at.eraOf(session('one'))).toBe('legacy')
  at.older = refused
  expect(await at.eraOf(session('one'))).toBe('modern')
})

test('a temporarily unavailable server keeps its eras', async () => {
  const at = new Server()
  expect(await at.eraOf(session('one'))).toBe('legacy')
  at.older = silent
  await expect(at.eraOf(session('one'))).rejects.toBe(silent)
  at.older = 'sessions'
  expect(await at.eraOf(session('one'))).toBe('legacy')
})

test.each([
  ['credentials of one caller', new GatewayError('AUTHENTICATION_REQUIRED', 'Who are you?')],
  ['a full connection pool', new GatewayError('OVERLOADED', 'Too many clients.')],
  ['an unreachable server', new GatewayError('SERVER_UNAVAILABLE', 'Refused.', { isUnsent: true })],
])('%s do not determine the eras', async (_name, error) => {
  const at = new Server(error)
  await expect(at.eraOf(session('one'))).rejects.toBe(error)
  at.older = 'sessions'
  expect(await at.eraOf(session('one'))).toBe('legacy')
})
