import { connectionSlot } from '../../../../src/core/slot.ts'
import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { callerHash } from '../../../../src/records/principal.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { alice, asking, bob, CHANGED, ERROR, SESSION, STATE, Stateful } from './setup.ts'

afterEach(() => void vi.useRealTimers())

const SUGGESTION =
  'Start a new session without a state token: make the call again without session_state, or with the new one of this error.'

/** A token of this state with one bit of its bytes flipped. */
function flipped(token: string, at: number): string {
  const bytes = Buffer.from(token, 'base64url')
  const index = at % (bytes.length * 8)
  bytes.writeUInt8(bytes.readUInt8(index >> 3) ^ (1 << (index & 7)), index >> 3)
  return bytes.toString('base64url')
}

describe('session state: a token', () => {
  test.each([
    ['is forged by one bit', (token: string) => flipped(token, 1234), 'invalid'],
    ['is cut', (token: string) => token.slice(0, -4), 'invalid'],
    ['is no base64', () => 'not base64 at all!', 'invalid'],
    ['is empty', () => '', 'invalid'],
    ['is a handle that does not exist', () => `st_${'A'.repeat(22)}`, 'invalid'],
    ['is a number', () => 7, 'type'],
    ['is an object', () => ({}), 'type'],
  ])('that %s is refused with INVALID_INPUT, a way on and a fresh token', async (_what, change, reason) => {
    const at = new Stateful()
    const { token } = await at.result(asking)
    const refused = await at.result({ session_state: change(token) })
    expect(refused.all).toMatchObject({ isError: true })
    expect(refused.meta[ERROR]).toMatchObject({
      code: 'INVALID_INPUT',
      category: 'invalid_input',
      field: 'session_state',
      reason,
      suggestion: SUGGESTION,
      session_state: refused.token,
      state_changed: true,
    })
    expect(refused.meta[CHANGED]).toBe(true)
    expect(at.seen, 'the server').toHaveLength(1)
    const next = await at.result({ session_state: refused.token })
    expect(next.all, 'with the fresh token').not.toHaveProperty('isError')
  })

  test('no bit of it can be changed', async () => {
    const at = new Stateful()
    const { token } = await at.result(asking)
    await fc.assert(
      fc.asyncProperty(fc.nat(), async (bit) => {
        const refused = await at.result({ session_state: flipped(token, bit) })
        expect(refused.meta[ERROR]).toMatchObject({ code: 'INVALID_INPUT', reason: 'invalid' })
      }),
      { numRuns: 60 },
    )
  })

  test.each([
    ['another caller', { principal: bob }],
    ['another server', { target: { method: 'tools/call', upstream: 'two', name: 't' } }],
  ])('of %s is refused like a forged one', async (_what, given) => {
    const at = new Stateful()
    const { token } = await at.result(asking)
    const foreign = await at.result({ session_state: token }, given)
    const forged = await at.result({ session_state: flipped(token, 99) }, given)
    const without = (fields: typeof foreign): object => ({
      ...(fields.meta[ERROR] as object),
      session_state: '',
    })
    expect(without(foreign)).toEqual(without(forged))
    expect(foreign.meta[ERROR]).toMatchObject({ code: 'INVALID_INPUT', reason: 'invalid' })
  })

  test.each([
    ['token', false],
    ['handle', true],
  ])('that expired is refused, and its client hears of it (%s)', async (_kind, isForModels) => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const emit = vi.fn<(note: { method: string; params?: Payload }) => void>()
    const at = new Stateful({ settings: { ttl: 60_000, connection: 'on' }, isForModels, server: opening })
    const { token } = await at.result(isForModels ? {} : asking)
    expect(token.startsWith('st_')).toBe(isForModels)
    vi.advanceTimersByTime(61_000)
    const client = {
      era: 'modern',
      revision: '2026-07-28',
      capabilities: { extensions: { [STATE]: {} } },
    } as const
    const refused = await at.result({ session_state: token }, { emit, client })
    expect(refused.meta[ERROR]).toMatchObject({ code: 'INVALID_INPUT', reason: 'expired' })
    expect(emit.mock.calls.map(([{ method, params }]) => ({ method, ...params?.fields }))).toMatchObject([
      { method: 'notifications/session', type: 'session_expired' },
    ])
  })

  test('over the limit is refused with PAYLOAD_TOO_LARGE, and one at the limit is looked at', async () => {
    const at = new Stateful()
    const error = await at.failure({ session_state: 'A'.repeat(65_537) })
    expect(error).toMatchObject({ code: 'PAYLOAD_TOO_LARGE', category: 'invalid_input', rpc: -32005 })
    expect(error.data).toMatchObject({ suggestion: SUGGESTION, session_state: expect.any(String) })
    const limit = await at.result({ session_state: 'A'.repeat(65_536) })
    expect(limit.meta[ERROR]).toMatchObject({ code: 'INVALID_INPUT' })
  })

  test('in two places with different values is refused', async () => {
    const at = new Stateful()
    const { token } = await at.result(asking)
    const error = await at.failure({ session_state: token, _meta: { session_state: 'another' } })
    expect(error).toMatchObject({ code: 'INVALID_INPUT', extra: { data: { reason: 'mismatch' } } })
  })

  test('is read in all three places, and the server sees none of them', async () => {
    const at = new Stateful()
    const { token } = await at.result(asking)
    for (const params of [
      { session_state: token },
      { _meta: { session_state: token } },
      { _meta: { [STATE]: token } },
    ]) {
      const result = await at.result(params)
      expect(result.meta[CHANGED]).toBe(false)
      const seen = at.seen.at(-1)
      expect(seen?.params.text).not.toContain('session_state')
      expect(JSON.stringify(seen?.meta)).not.toContain('session_state')
    }
  })

  test('that is refused for another method fails with a protocol error that has a fresh token', async () => {
    const at = new Stateful()
    const target = { method: 'resources/read', upstream: 'one', name: 'file:///a' }
    const error = await at.failure({ session_state: 'x' }, { method: 'resources/read', target })
    expect(error.data).toMatchObject({ code: 'INVALID_INPUT', session_state: expect.any(String) })
  })

  test('is renewed once half of its time is over, by a new expiry', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const at = new Stateful({ settings: { ttl: 60_000 } })
    const first = await at.result(asking)
    vi.advanceTimersByTime(20_000)
    const early = await at.result({ session_state: first.token })
    expect(endOf(early.meta)).toBe(endOf(first.meta))
    vi.advanceTimersByTime(15_000)
    const late = await at.result({ session_state: early.token })
    expect(endOf(late.meta)).toBe(endOf(first.meta) + 35_000)
    vi.advanceTimersByTime(50_000)
    expect((await at.result({ session_state: late.token })).all).not.toHaveProperty('isError')
  })

  test('that is renewed is reported to a client that declared the extension, once', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    const emit = vi.fn<(note: { method: string; params?: Payload }) => void>()
    const extensions = { [STATE]: {} }
    const client = { era: 'modern', revision: '2026-07-28', capabilities: { extensions } } as const
    const at = new Stateful({ settings: { ttl: 60_000 } })
    let { token } = await at.result({}, { emit, client })
    for (const wait of [1000, 35_000, 1000]) {
      vi.advanceTimersByTime(wait)
      token = (await at.result({ session_state: token }, { emit, client })).token
    }
    const types = emit.mock.calls.map(([{ params }]) => params?.fields['type'])
    expect(types).toEqual(['session_created', 'session_renewed'])
  })

  test('is sent only if a client requested it, sent one, or the state changed', async () => {
    const at = new Stateful()
    expect((await at.result()).all).not.toHaveProperty('_meta')
    expect((await at.result(asking)).all).toMatchObject({
      session_state: expect.any(String),
      state_changed: false,
    })
  })

  test('stays in _meta alone without compat', async () => {
    const at = new Stateful({ settings: { compat: false } })
    const { all, token } = await at.result(asking)
    expect(token).not.toBe('')
    expect(all).not.toHaveProperty('session_state')
  })
})

function endOf(meta: Readonly<Record<string, unknown>>): number {
  return Date.parse((meta[SESSION] as { expires_at: string }).expires_at)
}

describe('session state: a handle', () => {
  test('is issued to models, stays the same, and is in the text of one result only', async () => {
    const at = new Stateful({ isForModels: true, settings: { connection: 'on' }, server: opening })
    const first = await at.result()
    expect(first.token).toMatch(/^st_[\w-]{22}$/)
    expect(first.all['content']).toMatchObject([
      { text: 'done' },
      {
        text: `To continue in this session, pass _session_state: "${first.token}" to the tools of this server.`,
      },
    ])
    const second = await at.result({ session_state: first.token })
    expect(second.token).toBe(first.token)
    expect(second.all['content']).toHaveLength(1)
    expect(connectionSlot.of(at.seen.at(-1) ?? {})).toMatchObject({
      id: connectionSlot.of(at.seen[0] ?? {})?.id,
      isKnown: true,
    })
  })

  test('belongs to its caller', async () => {
    const at = new Stateful({ isForModels: true, settings: { connection: 'on' }, server: opening })
    const { token } = await at.result()
    const foreign = await at.result({ session_state: token }, { principal: bob })
    expect(foreign.meta[ERROR]).toMatchObject({ code: 'INVALID_INPUT', reason: 'invalid' })
  })

  test('replaces a token that would be too long, and the store holds neither text nor handle in the clear', async () => {
    const store = new MemoryStore()
    const put = vi.spyOn(store, 'put')
    const own = 'o'.repeat(70_000)
    const at = new Stateful({
      store,
      server: async () => ({ kind: 'result', result: Payload.of({ content: [], session_state: own }) }),
    })
    const { token } = await at.result()
    expect(token).toMatch(/^st_/)
    const written = JSON.stringify(put.mock.calls)
    expect(written.length).toBeGreaterThan(70_000)
    expect(written.includes(token)).toBe(false)
    expect(written.includes('o'.repeat(16))).toBe(false)
    await at.result({ session_state: token })
    expect(at.seen.at(-1)?.params.fields['session_state']).toBe(own)
  })

  test('of concurrent calls, the last one decides on each member, and no version is given twice', async () => {
    const at = new Stateful({ isForModels: true, settings: { connection: 'on' }, server: opening })
    const { token } = await at.result()
    const ended = await Promise.all(Array.from({ length: 8 }, () => at.result({ session_state: token })))
    const versions = ended.map(({ meta }) => (meta[SESSION] as { version: number }).version)
    expect(versions.toSorted((one, other) => one - other)).toEqual([2, 3, 4, 5, 6, 7, 8, 9])
  })

  test('is refused over the share of a caller: a token is issued instead, and others are not affected', async () => {
    const store = new MemoryStore()
    for (let number = 0; number < 1000; number++) {
      const caller = number.toString(16).padStart(32, '0')
      await store.put(`states/${number < 999 ? callerHash(alice.id) : caller}:${number}`, '400', 60_000)
    }
    const at = new Stateful({ store, isForModels: true, settings: { connection: 'on' }, server: opening })
    expect((await at.result()).token, 'the last one').toMatch(/^st_/)
    const next = await at.result()
    expect(next.token).not.toMatch(/^st_/)
    expect((await at.result({}, { principal: bob })).token).toMatch(/^st_/)
  })

  test('that is too large to keep is reported as not kept', async () => {
    const own = 'o'.repeat(300_000)
    const at = new Stateful({
      server: async () => ({ kind: 'result', result: Payload.of({ content: [], session_state: own }) }),
    })
    const { all, meta } = await at.result()
    expect(meta).not.toHaveProperty(STATE)
    expect(meta[CHANGED]).toBe(true)
    expect(JSON.stringify(all['content'])).toContain('could not be kept')
    expect(all).not.toHaveProperty('session_state')
  })
})

describe('session state: a server with a state of its own', () => {
  const native = async (call: Call): Promise<Outcome> => {
    const before = Number(call.params.fields['session_state'] ?? 0)
    return {
      kind: 'result',
      result: Payload.of({ content: [], session_state: String(before + 1), state_changed: true }),
    }
  }

  test('gets its own state back, and its client gets a token of the gateway', async () => {
    const at = new Stateful({ server: native })
    const first = await at.result()
    expect(first.token.length).toBeGreaterThan(40)
    expect(first.all['session_state']).toBe(first.token)
    const second = await at.result({ session_state: first.token })
    const seen = at.seen.at(-1)
    expect(seen?.params.fields).toMatchObject({ session_state: '1', _meta: { session_state: '1' } })
    await at.result({ session_state: second.token })
    expect(at.seen.at(-1)?.params.fields['session_state']).toBe('2')
  })

  test('does not get the token of another caller', async () => {
    const at = new Stateful({ server: native })
    const { token } = await at.result()
    const foreign = await at.result({ session_state: token }, { principal: bob })
    expect(foreign.all['isError']).toBe(true)
    expect(at.seen).toHaveLength(1)
  })
})

/** A server that opens the connection a call asks for. */
async function opening(call: Call): Promise<Outcome> {
  const connection = connectionSlot.of(call)
  if (connection && !connection.isKnown) connection.onOpen({ id: connection.id, isLost: false })
  return { kind: 'result', result: Payload.of({ content: [{ type: 'text', text: 'done' }] }) }
}
