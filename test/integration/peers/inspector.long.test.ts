import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type House, openHouse } from '../../support/peers/house.ts'
import { inspect } from '../../support/peers/inspector.ts'

let house: House
beforeAll(async () => {
  house = await openHouse(['everything', 'context7'])
})
afterAll(() => house.close())

describe.each([
  ['legacy', 'http'],
  ['legacy', 'sse'],
  ['legacy', 'stdio'],
  ['modern', 'http'],
  ['modern', 'stdio'],
] as const)('the MCP Inspector (%s) over %s', (era, transport) => {
  it('calls a tool', async () => {
    const options = ['--tool-name', 'echo', '--tool-args-json', '{"message":"hi"}']
    const found = await inspect(house.way(transport, 'everything'), { era, method: 'tools/call', options })
    expect(found).toMatchObject({ code: 0, result: { content: [{ type: 'text', text: 'Echo: hi' }] } })
  })

  it('lists the tools of the aggregate endpoint', async () => {
    const found = await inspect(house.way(transport), { era, method: 'tools/list' })
    const named = (name: string): unknown => expect.objectContaining({ name })
    expect(found).toMatchObject({
      code: 0,
      result: { tools: expect.arrayContaining([named('everything_echo'), named('context7_query-docs')]) },
    })
  })
})

describe.each(['legacy', 'modern'] as const)('the MCP Inspector (%s)', (era) => {
  it('finds no problem in the tools', async () => {
    const found = await inspect(house.way('http', 'everything'), {
      era,
      method: 'tools/list',
      options: ['--strict'],
    })
    expect(found).toMatchObject({ code: 0, result: { tools: expect.anything() } })
  })

  it('gets a prompt and reads a resource', async () => {
    const way = house.way('http', 'everything')
    const uri = 'demo://resource/dynamic/text/9'
    const read = await inspect(way, { era, method: 'resources/read', options: ['--uri', uri] })
    expect(read).toMatchObject({ code: 0, result: { contents: [{ uri }] } })
    const options = ['--prompt-name', 'args-prompt', '--prompt-args', 'city=Ulm']
    const prompt = await inspect(way, { era, method: 'prompts/get', options })
    expect(prompt).toMatchObject({ code: 0, result: { messages: [{ role: 'user' }] } })
  })
})
