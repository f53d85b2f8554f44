import { once } from 'node:events'
import { createServer, IncomingMessage, request } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { anonymous } from '../../../../src/core/principal.ts'
import { Bodies } from '../../../../src/downstream/http/body.ts'
import type { HttpContext } from '../../../../src/downstream/http/edge.ts'
import { LegacyHttp } from '../../../../src/downstream/http/endpoint.ts'
import { HttpSessions } from '../../../../src/downstream/http/sessions.ts'
import { LegacySse } from '../../../../src/downstream/http/sse-endpoint.ts'
import { edge } from '../../../support/edge.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { HeldMemory } from '../../../../src/core/holdings.ts'

afterEach(() => void vi.useRealTimers())

const options = { handle: () => new Promise<never>(() => undefined), log: silentLog }

/** A request whose client has disconnected before it is processed. */
async function abandoned(headers: Readonly<Record<string, string>> = {}): Promise<HttpContext> {
  const arrived = Promise.withResolvers<HttpContext>()
  const server = createServer((incoming, outgoing) =>
    arrived.resolve({ incoming, outgoing, upstream: undefined, principal: anonymous, requestId: 'r', edge }),
  )
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const asked = request({ port, host: '127.0.0.1', headers })
  asked.on('error', () => undefined)
  asked.end()
  const exchange = await arrived.promise
  const left = once(exchange.outgoing, 'close')
  asked.destroy()
  await left
  return exchange
}

describe('a client that disconnects during authentication', () => {
  it('no HTTP+SSE stream is left after the disconnect', async () => {
    const sse = new LegacySse(options)
    await sse.stream(await abandoned())
    expect(sse.size).toBe(0)
  })

  it('the session can still expire after the disconnect', async () => {
    const sessions = new HttpSessions({ ...options, held: new HeldMemory() })
    onTestFinished(() => sessions.close())
    const created = sessions.create(anonymous, undefined)
    sessions.keep(created)
    const legacy = new LegacyHttp({ sessions, log: silentLog })
    await legacy.get(await abandoned({ 'mcp-session-id': created.session.id }))
    expect(created.replay.general.hasOutlet).toBe(false)
  })
})

describe('an oversized body', () => {
  it('an oversized body is refused once, even if it ends before the refusal is sent', () => {
    vi.useFakeTimers()
    const incoming = new IncomingMessage(new Socket())
    Object.assign(incoming.headers, { 'content-type': 'application/json', 'content-length': '100' })
    const onError = vi.fn<(error: unknown) => void>()
    new Bodies().readJson(incoming, { limit: 10 }, { onBody: () => expect.unreachable(), onError })
    incoming.emit('data', Buffer.alloc(100))
    incoming.emit('end')
    vi.advanceTimersByTime(5000)
    expect(onError).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ code: 'PAYLOAD_TOO_LARGE' }))
  })
})
