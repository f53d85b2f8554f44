import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Client } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ToolIndex } from '../../../src/upstream/tool-index.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a refused tool list', () => {
  it.each([
    ['by an error', async () => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'no'))],
    ['by a malformed list', async () => Payload.of({ content: [] })],
  ])('a list refused %s is not requested again on every call', async (_how, answer) => {
    const list = vi.fn<() => Promise<Payload>>(answer)
    const tools = new ToolIndex(list)
    for (let call = 0; call < 3; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(11_000)
    await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('a list is requested again after a lost connection', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const list = vi.fn<() => Promise<Payload>>(() => Promise.reject(lost))
    const tools = new ToolIndex(list)
    for (let call = 0; call < 2; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })
})

describe('tools listed only for clients with elicitation', () => {
  const client = (capabilities: Client['capabilities']): Client => ({
    era: 'modern',
    revision: '2026-07-28',
    capabilities,
  })
  const [plain, asked] = [client({}), client({ elicitation: {} })]
  const listed = (asker: Client | undefined): Payload =>
    Payload.of({ tools: [{ name: 'echo' }, ...(asker?.capabilities.elicitation ? [{ name: 'ask' }] : [])] })
  const indexed = () => {
    const list = vi.fn<(params: Payload, asker?: Client) => Promise<Payload>>(async (_params, asker) =>
      listed(asker),
    )
    return { tools: new ToolIndex(list), list }
  }

  it('such tools are found for these clients in any order', async () => {
    const { tools, list } = indexed()
    expect(await tools.of('ask', plain)).toBeUndefined()
    expect(await tools.of('ask', asked)).toMatchObject({ definition: { name: 'ask' } })
    expect(tools.of('echo', plain)).toMatchObject({ definition: { name: 'echo' } })
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('such tools are found while they are being listed for another client', async () => {
    const { tools } = indexed()
    const found = await Promise.all([plain, asked, plain].map(async (each) => tools.of('ask', each)))
    expect(found[1]).toMatchObject({ definition: { name: 'ask' } })
    expect(tools.of('ask', asked)).toBe(found[1])
  })

  it('unknown tools are not requested on every call, however different clients alternate', async () => {
    const { tools, list } = indexed()
    const askers = [plain, asked, plain, asked, plain, asked]
    for (const each of askers) expect(await tools.of('absent', each)).toBeUndefined()
    expect(list).toHaveBeenCalledTimes(2)
    await Promise.all(askers.map(async (each) => tools.of('absent', each)))
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('such tools are removed when they are no longer listed for these clients', async () => {
    const { tools, list } = indexed()
    await tools.of('ask', asked)
    list.mockImplementation(async () => listed(plain))
    vi.advanceTimersByTime(11_000)
    await tools.of('other', asked)
    expect(await tools.of('ask', asked)).toBeUndefined()
  })
})

describe('a tool that its server no longer lists', () => {
  const toolsOf = (...names: string[]): Payload => Payload.of({ tools: names.map((name) => ({ name })) })
  const first = Payload.of({})

  it('the tool is removed once a complete list lacks it', async () => {
    const tools = new ToolIndex(async () => toolsOf('kept', 'gone'))
    expect(await tools.of('gone')).toBeDefined()
    tools.learn(toolsOf('kept', 'new'), first)
    expect(tools.of('gone')).toBeUndefined()
    expect(tools.of('kept')).toBeDefined()
    expect(tools.of('new')).toBeDefined()
  })

  it.each([
    ['a page', toolsOf('kept').with({ nextCursor: '2' }), first],
    ['the last page', toolsOf('kept'), Payload.of({ cursor: '2' })],
  ])('the tool is kept if only %s was listed', async (_what, listed, asked) => {
    const tools = new ToolIndex(async () => toolsOf('kept', 'gone'))
    await tools.of('gone')
    tools.learn(listed, asked)
    expect(tools.of('gone')).toBeDefined()
  })

  it('the tool is kept if it was listed for another kind of client', async () => {
    const tools = new ToolIndex(async () => toolsOf('kept', 'gone'))
    await tools.of('gone', { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } })
    tools.learn(toolsOf('kept'), first, { era: 'modern', revision: '2026-07-28', capabilities: {} })
    expect(tools.of('gone')).toBeDefined()
  })
})
