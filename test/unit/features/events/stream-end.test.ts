import { publish } from '../../../../src/features/offers.ts'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Call, Client } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { withExpectedErrors } from '../../../../src/features/events/dialects/extension.ts'
import { notFound } from '../../../../src/features/events/errors.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { eventsGateway } from '../../../support/events-gateway.ts'
import { fieldsOf } from '../../../support/chain.ts'
import { toolCall } from '../../../support/tool-call.ts'

const tool: Descriptor = {
  upstream: 'one',
  kind: 'tool',
  name: 'add',
  definition: { name: 'add', inputSchema: { type: 'object' } },
  classification: { op: 'write', risk: 'safe', idempotent: false, evidence: [] },
}
const request = { name: 'add.succeeded' }
const modern = { era: 'modern', revision: '2026-07-28', capabilities: {} } as const
const clients: Readonly<Record<string, Client>> = {
  sep: modern,
  both: { ...modern, capabilities: { events: {}, extensions: { 'io.modelcontextprotocol/events': {} } } },
  sketch: { ...modern, capabilities: { events: {} } },
  chatgpt: { ...modern, info: { name: 'ChatGPT', version: '1' } },
  openai: { ...modern, info: { name: 'openai-mcp', version: '1' } },
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a stream whose events end', () => {
  it('is terminated if its caller loses the right', async () => {
    let isPermitted = true
    const { stream } = eventsGateway({ tools: async () => [tool], isPermitted: async () => isPermitted })
    const { sent, ended } = stream(request)
    await vi.advanceTimersByTimeAsync(16_000)
    expect(sent.map(({ what }) => what)).toEqual(['active', 'heartbeat'])
    isPermitted = false
    await vi.advanceTimersByTimeAsync(16_000)
    expect(await ended).toEqual({})
    expect(sent.at(-1)).toMatchObject({
      what: 'terminated',
      params: { error: { code: -32024, data: { reason: 'permission', code: 'PERMISSION_DENIED' } } },
    })
  })

  it('is terminated if its type does not exist any more, but not while its server is away', async () => {
    let tools: () => Promise<Descriptor[]> = async () => [tool]
    const { stream } = eventsGateway({ tools: () => tools() })
    const { sent, ended } = stream(request, { client: clients['sketch'] ?? modern })
    await vi.advanceTimersByTimeAsync(1000)
    tools = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.'))
    await vi.advanceTimersByTimeAsync(40_000)
    expect(sent.map(({ what }) => what)).not.toContain('terminated')
    tools = async () => []
    await vi.advanceTimersByTimeAsync(16_000)
    expect(await ended).toEqual({})
    expect(sent.at(-1)).toMatchObject({ params: { error: { code: -32011, data: { kind: 'event' } } } })
  })

  it.each([
    ['less', ['text'], -32014],
    ['more', ['text', 'list', 'new'], undefined],
  ])('is terminated if its type has an argument %s, but not by additions', async (_what, names, code) => {
    const withArguments = (known: readonly string[]): Descriptor => {
      const properties = Object.fromEntries(known.map((name) => [name, { type: 'string' }]))
      return { ...tool, definition: { name: 'add', inputSchema: { type: 'object', properties } } }
    }
    let tools = [withArguments(['text', 'list'])]
    const { stream } = eventsGateway({ tools: async () => tools })
    const { sent, close } = stream(request, { client: clients['sketch'] ?? modern })
    await vi.advanceTimersByTimeAsync(1000)
    tools = [withArguments(names)]
    await vi.advanceTimersByTimeAsync(40_000)
    const ends = sent.filter(({ what }) => what === 'terminated')
    const data = { feature: 'inputSchema', reason: 'schema_changed' }
    expect(ends).toMatchObject(code === undefined ? [] : [{ params: { error: { code, data } } }])
    close()
  })

  it('goes on after a failure of the store, which it reports once', async () => {
    const store = new MemoryStore()
    const { stream, deps } = eventsGateway({ store })
    const { sent, close } = stream({ name: 'upstream_up' })
    await vi.advanceTimersByTimeAsync(100)
    const get = vi
      .spyOn(store, 'get')
      .mockImplementation(() => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.')))
    await vi.advanceTimersByTimeAsync(5000)
    get.mockRestore()
    publish(deps, 'one', { name: 'upstream_up', data: { server: 'one' } })
    await vi.advanceTimersByTimeAsync(2000)
    expect(sent.map(({ what }) => what)).toEqual(['active', 'error', 'event'])
    expect(sent[1]).toMatchObject({
      params: { error: { code: -32006, data: { code: 'SERVER_UNAVAILABLE' } } },
    })
    close()
  })
})

describe('E30 the codes of errors', () => {
  it.each([
    ['sep', -32024],
    ['both', -32024],
    ['sketch', -32012],
    ['chatgpt', -32012],
    ['openai', -32012],
  ])('end the stream of the client %s in its column', async (name, code) => {
    let isPermitted = true
    const { stream } = eventsGateway({ tools: async () => [tool], isPermitted: async () => isPermitted })
    const { sent, ended } = stream(request, { client: clients[name] ?? modern })
    await vi.advanceTimersByTimeAsync(1000)
    isPermitted = false
    await vi.advanceTimersByTimeAsync(16_000)
    await ended
    expect(sent.at(-1)).toMatchObject({ what: 'terminated', params: { error: { code } } })
  })

  const failing = (name: string, error: Error) => withExpectedErrors(name, () => Promise.reject(error))
  const from = (client: Client | undefined): Call => toolCall({ client: client ?? modern })

  it.each([
    ['sep', 0],
    ['both', 0],
    ['sketch', 12],
    ['chatgpt', 12],
    ['openai', 12],
  ])('are those of the column that the client %s follows', async (name, distance) => {
    for (const code of [-32023, -32024, -32025, -32026, -32027]) {
      const error = new GatewayError('CONFLICT', 'no', { rpc: code, data: { kind: 'event' } })
      const answer = failing('events/poll', error)(from(clients[name]))
      await expect(answer).rejects.toMatchObject({ rpc: code + distance, data: { kind: 'event' } })
    }
    for (const error of [new GatewayError('INVALID_INPUT', 'no'), new Error('bug')])
      await expect(failing('events/poll', error)(from(clients[name]))).rejects.toBe(error)
  })

  it('E24 a second unsubscription succeeds in the sketch alone', async () => {
    const unsubscribe = failing('events/unsubscribe', notFound('subscription'))
    expect(fieldsOf(await unsubscribe(from(clients['sketch'])))).toEqual({})
    await expect(unsubscribe(from(modern))).rejects.toMatchObject({ rpc: -32023 })
    const unknownType = failing('events/unsubscribe', notFound('event'))
    await expect(unknownType(from(clients['sketch']))).rejects.toMatchObject({ rpc: -32011 })
  })
})
