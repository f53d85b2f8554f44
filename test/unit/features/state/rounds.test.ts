import { CONTEXT_LOST, connectionSlot, type ClientConnection } from '../../../../src/core/slot.ts'
import { describe, expect, test, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { asking, CHANGED, ERROR, ok, SESSION, STATE, Stateful, tool } from './setup.ts'

const asks: Outcome = { kind: 'input_required', inputRequests: {}, requestState: { park: 'p1' } }

/** A server whose connections can be lost, and which asks once for each call if it has to. */
class Server {
  readonly open = new Set<string>()
  isAsking = false

  readonly handle = async (call: Call): Promise<Outcome> => {
    const { requestState } = call
    const connection = connectionSlot.of(call)
    if (requestState['park'] !== undefined) return ok(call)
    if (connection) this.#use(connection)
    return this.isAsking ? asks : ok(call)
  }

  #use({ id, isKnown, mayReplace, onOpen }: ClientConnection): void {
    if (this.open.has(id)) return
    const isLost = isKnown
    const opened = isLost ? `${id}+` : id
    this.open.add(opened)
    onOpen({ id: opened, isLost })
    if (isLost && !mayReplace)
      throw new GatewayError('CONFLICT', 'lost', { reason: CONTEXT_LOST, isUnsent: true, isResult: true })
  }
}

function setup(): { server: Server; at: Stateful } {
  const server = new Server()
  const tools = [tool('look', 'read'), tool('act', 'write')]
  return { server, at: new Stateful({ server: server.handle, settings: { connection: 'on' }, tools }) }
}

describe('session state: calls of several rounds', () => {
  test('go on with the connection of the first round, and the last result tells of it', async () => {
    const { server, at } = setup()
    server.isAsking = true
    const first = await at.outcome({ name: 'act' })
    if (first.kind !== 'input_required') throw new TypeError('it does not ask')
    expect(first.requestState).toMatchObject({ park: 'p1', state: { isKnown: true, context: 'new' } })
    const last = await at.result({ name: 'act' }, { requestState: first.requestState })
    expect(last.meta).toMatchObject({ [CHANGED]: true, [SESSION]: { context: 'new' } })
    expect(server.open.size).toBe(1)
    server.isAsking = false
    await at.result({ name: 'act', session_state: last.token })
    expect(connectionSlot.of(at.seen.at(-1) ?? {})).toMatchObject({ id: [...server.open][0], isKnown: true })
    expect(server.open.size).toBe(1)
  })

  test('that began before a connection was opened use the connection that was chosen', async () => {
    const { server, at } = setup()
    let isFirst = true
    const gated = new Stateful({
      settings: { connection: 'on' },
      tools: [tool('act', 'write')],
      server: async (call) => {
        if (!isFirst) return server.handle(call)
        isFirst = false
        return { kind: 'input_required', inputRequests: {}, requestState: {} }
      },
    })
    const first = await gated.outcome({ name: 'act' })
    if (first.kind !== 'input_required') throw new TypeError('it does not ask')
    const chosen = connectionSlot.of(gated.seen[0] ?? {})?.id
    const last = await gated.result({ name: 'act' }, { requestState: first.requestState })
    expect([...server.open]).toEqual([chosen])
    expect(last.meta[SESSION]).toMatchObject({ context: 'new' })
    expect(at.seen).toEqual([])
  })
})

describe('session state: a lost context', () => {
  test('is replaced for a read, in a new session', async () => {
    const { server, at } = setup()
    const first = await at.result({ name: 'act' })
    server.open.clear()
    const read = await at.result({ name: 'look', session_state: first.token })
    expect(read.meta).toMatchObject({ [CHANGED]: true, [SESSION]: { context: 'lost' } })
    expect(idOf(read.meta)).not.toBe(idOf(first.meta))
    expect(JSON.stringify(read.all['content'])).toContain('was lost')
  })

  test.each(['act', 'unlisted'])('stops the call of %s, whose error leads to the new one', async (name) => {
    const { server, at } = setup()
    const first = await at.result({ name: 'act' })
    server.open.clear()
    const refused = await at.result({ name, session_state: first.token })
    expect(refused.meta[ERROR]).toMatchObject({
      code: 'CONFLICT',
      reason: 'context_lost',
      session_state: refused.token,
    })
    const again = await at.result({ name, session_state: refused.token })
    expect(again.all).toMatchObject({ state_changed: false })
    expect(server.open.size).toBe(1)
  })

  test('is replaced for resources and prompts, which only read', async () => {
    const { server, at } = setup()
    const first = await at.result({ name: 'act' })
    server.open.clear()
    const target = { method: 'resources/read', upstream: 'one', name: 'file:///a' }
    const read = await at.result({ session_state: first.token }, { method: 'resources/read', target })
    expect(read.meta[SESSION]).toMatchObject({ context: 'lost' })
  })
})

describe('session state: an error of a server', () => {
  test('carries the token where the call opened a connection, also as a protocol error', async () => {
    const at = new Stateful({
      settings: { connection: 'on' },
      server: async (call) => {
        const connection = connectionSlot.of(call)
        connection?.onOpen({ id: connection.id, isLost: false })
        const relayed = Payload.of({ code: -32603, message: 'It failed.' })
        throw new GatewayError('UPSTREAM_ERROR', 'It failed.', { relayed })
      },
    })
    const { extra } = await at.failure({})
    expect(extra.relayed?.fields['data']).toMatchObject({
      session_state: expect.any(String),
      state_changed: true,
    })
  })

  test('carries none where nothing changed', async () => {
    const at = new Stateful({
      server: async () => {
        throw new GatewayError('SERVER_UNAVAILABLE', 'It is gone.')
      },
    })
    expect((await at.failure(asking)).data).not.toHaveProperty('session_state')
  })
})

describe('session state: a store that fails', () => {
  const broken = Object.assign(new MemoryStore(), {
    scan: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The store is away.')),
  })

  test('does not fail a call that was made: its result says that the state was not kept', async () => {
    const warn = vi.fn<(event: string, fields?: object) => void>()
    const at = new Stateful({
      store: broken,
      isForModels: true,
      settings: { connection: 'on' },
      server: async (call) => {
        const own = connectionSlot.of(call)
        own?.onOpen({ id: own.id, isLost: false })
        return ok(call)
      },
      deps: { log: { ...silentLog, warn } },
    })
    const { all, meta } = await at.result()
    expect(all).not.toHaveProperty('isError')
    expect(meta).not.toHaveProperty(STATE)
    expect(JSON.stringify(all['content'])).toContain('could not be kept')
    expect(warn).toHaveBeenCalledWith('state.not_kept', { upstream: 'one', reason: 'The store is away.' })
  })
})

describe('session state: the extension', () => {
  test('requests a token with every request', async () => {
    const at = new Stateful({ settings: { connection: 'off' } })
    const client = {
      era: 'modern',
      revision: '2026-07-28',
      capabilities: { extensions: { [STATE]: {} } },
    } as const
    const { meta } = await at.result({}, { client })
    expect(meta).toMatchObject({ [STATE]: expect.any(String), [CHANGED]: false })
    expect(connectionSlot.of(at.seen[0] ?? {})).toBeUndefined()
  })

  test('costs nothing for targets that have no sessions', () => {
    const { instance } = new Stateful()
    expect(instance.calls?.middleware({ method: 'completion/complete', upstream: 'one' })).toBeUndefined()
    expect(
      instance.calls?.middleware({ method: 'tools/call', upstream: 'one', name: 't', isBuiltin: true }),
    ).toBeUndefined()
  })
})

function idOf(meta: Readonly<Record<string, unknown>>): unknown {
  return (meta[SESSION] as { session_id: string }).session_id
}
