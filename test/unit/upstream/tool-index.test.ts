import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Client } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { ToolIndex } from '../../../src/upstream/tool-index.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

describe('a list of tools that is refused', () => {
  it.each([
    ['by an error', async () => Promise.reject(new GatewayError('UPSTREAM_ERROR', 'no'))],
    ['by something that is no list', async () => Payload.of({ content: [] })],
  ])('%s is not asked for again at every call', async (_how, answer) => {
    const list = vi.fn<() => Promise<Payload>>(answer)
    const tools = new ToolIndex(list)
    for (let call = 0; call < 3; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(11_000)
    await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('for a lost connection is asked for again', async () => {
    const lost = new GatewayError('OUTCOME_UNKNOWN', 'lost')
    const list = vi.fn<() => Promise<Payload>>(() => Promise.reject(lost))
    const tools = new ToolIndex(list)
    for (let call = 0; call < 2; call++) await expect(tools.of('t')).rejects.toBeInstanceOf(GatewayError)
    expect(list).toHaveBeenCalledTimes(2)
  })
})

describe('tools that are listed only for clients that can be asked', () => {
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

  it('are found for these, whoever came first', async () => {
    const { tools, list } = indexed()
    expect(await tools.of('ask', plain)).toBeUndefined()
    expect(await tools.of('ask', asked)).toMatchObject({ definition: { name: 'ask' } })
    expect(tools.of('echo', plain)).toMatchObject({ definition: { name: 'echo' } })
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('are found while they are listed for another', async () => {
    const { tools } = indexed()
    const found = await Promise.all([plain, asked, plain].map(async (each) => tools.of('ask', each)))
    expect(found[1]).toMatchObject({ definition: { name: 'ask' } })
    expect(tools.of('ask', asked)).toBe(found[1])
  })

  it('are not looked for at every call, however clients that differ take turns', async () => {
    const { tools, list } = indexed()
    const askers = [plain, asked, plain, asked, plain, asked]
    for (const each of askers) expect(await tools.of('absent', each)).toBeUndefined()
    expect(list).toHaveBeenCalledTimes(2)
    await Promise.all(askers.map(async (each) => tools.of('absent', each)))
    expect(list).toHaveBeenCalledTimes(2)
  })

  it('are gone once they are not listed for these any more', async () => {
    const { tools, list } = indexed()
    await tools.of('ask', asked)
    list.mockImplementation(async () => listed(plain))
    vi.advanceTimersByTime(11_000)
    await tools.of('other', asked)
    expect(await tools.of('ask', asked)).toBeUndefined()
  })
})

describe('a tool that its server does not list any more', () => {
  const toolsOf = (...names: string[]): Payload => Payload.of({ tools: names.map((name) => ({ name })) })
  const first = Payload.of({})

  it('is not known any more once somebody was listed all tools', async () => {
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
  ])('is known where %s alone was listed', async (_what, listed, asked) => {
    const tools = new ToolIndex(async () => toolsOf('kept', 'gone'))
    await tools.of('gone')
    tools.learn(listed, asked)
    expect(tools.of('gone')).toBeDefined()
  })

  it('is known where it was listed for another kind of client', async () => {
    const tools = new ToolIndex(async () => toolsOf('kept', 'gone'))
    await tools.of('gone', { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } })
    tools.learn(toolsOf('kept'), first, { era: 'modern', revision: '2026-07-28', capabilities: {} })
    expect(tools.of('gone')).toBeDefined()
  })
})
