import { describe, expect, it } from 'vitest'
import { ClientSession } from '../../../../src/downstream/session/session.ts'
import type { ResponseSink } from '../../../../src/downstream/session/response-sink.ts'
import type { Call, Handler } from '../../../../src/core/call.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { ACKNOWLEDGED } from '../../../../src/protocol/subscription-filter.ts'
import type { JsonRpcRequest } from '../../../../src/protocol/jsonrpc.ts'
import { fakeClock } from '../../../support/fake-clock.ts'
import { silentLog } from '../../../support/silent-log.ts'

const pass = fakeClock()

const capabilities = { resources: { subscribe: true } }
const wide = { id: 'user:someone', scopes: new Set(['one', 'two']) }
const narrow = { id: 'user:someone', scopes: new Set(['one']) }

/**
 * A session with many scopes, and its subscription calls; the server accepts what is requested, or `taken`, and ends each
 * call after `lasting` milliseconds.
 */
async function session(
  taken?: readonly string[],
  lasting?: number,
): Promise<{ own: ClientSession; listening: Call[] }> {
  const listening: Call[] = []
  const handle: Handler = (call) => {
    if (call.method === 'server/discover')
      return Promise.resolve({ kind: 'result', result: Payload.of({ capabilities }) })
    listening.push(call)
    const { notifications } = call.params.fields
    const told = taken
      ? { ...(isObject(notifications) && notifications), resourceSubscriptions: taken }
      : notifications
    call.emit({ method: ACKNOWLEDGED, params: Payload.of({ ...call.params.fields, notifications: told }) })
    return new Promise((_resolve, reject) => {
      const end = (): void => reject(new Error('gone'))
      call.signal.addEventListener('abort', end)
      if (lasting !== undefined) setTimeout(end, lasting)
    })
  }
  const own = new ClientSession({
    id: 's',
    principal: wide,
    handle,
    send: () => undefined,
    log: silentLog,
  })
  await own.request(asking('initialize', handshake), reply(wide))
  return { own, listening }
}

const handshake = { protocolVersion: '2025-11-25', capabilities: {} }

function asking(method: string, params: Readonly<Record<string, unknown>>): JsonRpcRequest {
  return { kind: 'request', id: '1', method, params: Payload.of(params) }
}

function reply(principal: Principal, sessionToken?: string): ResponseSink {
  const carried = sessionToken === undefined ? undefined : ([['session_token', sessionToken]] as const)
  const request = { requestId: 'r', principal, gatewayMetadata: carried }
  return { request, emit: () => undefined, end: () => undefined }
}

it('a session is refused for a client whose initialize data is too large', async () => {
  const answers: (string | undefined)[] = []
  const own = new ClientSession({
    id: 's',
    principal: wide,
    handle: () => Promise.resolve({ kind: 'result', result: Payload.of({ capabilities }) }),
    send: () => undefined,
    log: silentLog,
  })
  const clientInfo = { name: 'x'.repeat(100_000), version: '1' }
  const end = (answer?: string): void => void answers.push(answer)
  await own.request(asking('initialize', { ...handshake, clientInfo }), { ...reply(wide), end })
  expect(own.revision).toBeUndefined()
  expect(answers).toEqual([expect.stringContaining('PAYLOAD_TOO_LARGE')])
})

it('a subscription the server does not accept is refused and requested again next time', async () => {
  const { own, listening } = await session([])
  for (const times of [1, 2]) {
    const answers: (string | undefined)[] = []
    const end = (answer?: string): void => void answers.push(answer)
    await own.request(asking('resources/subscribe', { uri: 'file:///a' }), { ...reply(wide), end })
    expect(answers).toEqual([expect.stringContaining('did not accept the subscription')])
    expect(listening).toHaveLength(times)
  }
  own.close()
})

describe('subscriptions of a session', () => {
  it("C083 a subscription has the rights of the request's token and not of the handshake", async () => {
    const { own, listening } = await session()
    await own.request(asking('resources/subscribe', { uri: 'file:///a' }), reply(narrow))
    expect(listening.at(-1)?.principal).toBe(narrow)
    own.close()
  })

  it('are made again later each time if they end soon, whatever the client changed before', async () => {
    const { own, listening } = await session(undefined, 10)
    for (let count = 0; count < 8; count++)
      await own.request(asking('resources/subscribe', { uri: `file:///${count}` }), reply(wide))
    expect(listening).toHaveLength(8)
    await pass(300)
    expect(listening).toHaveLength(9)
    for (let seconds = 0; seconds < 60; seconds++) await pass(1000)
    expect(listening.length).toBeGreaterThan(13)
    expect(listening.length).toBeLessThan(17)
    own.close()
  })

  it('C083 a subscription is narrowed by the session token of the request', async () => {
    const { own, listening } = await session()
    await own.request(asking('resources/subscribe', { uri: 'file:///a' }), reply(wide, 'a.b'))
    expect(listening.at(-1)?.meta).toEqual({ 'dev.gatehouse/session_token': 'a.b' })
    own.close()
  })
})
