import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { textOf } from '../../support/peers/client.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

const servers = ['everything', 'everything-http'] as const

let house: House
beforeAll(async () => {
  house = await openHouse(servers)
})
afterAll(() => house.close())

describe.concurrent.each(servers)('a client of the SDK 1.x that runs a task of %s', (server) => {
  it('C117 polls it to its end and gets its result', async () => {
    const client = await connected(house, server)
    // The list shows the client which tools run as tasks.
    await client.listTools()
    const seen: string[] = []
    const args = { name: 'simulate-research-query', arguments: { topic: 'gates' } }
    let text = ''
    for await (const step of client.experimental.tasks.callToolStream(args, CallToolResultSchema)) {
      seen.push(step.type === 'taskStatus' ? step.task.status : step.type)
      if (step.type === 'result') text = textOf(CallToolResultSchema.parse(step.result).content)
    }
    expect(seen[0]).toBe('taskCreated')
    expect(seen.slice(-2)).toEqual(['completed', 'result'])
    expect(text).toContain('Research Report: gates')
    const { tasks } = await client.experimental.tasks.listTasks()
    expect(tasks).toMatchObject([{ status: 'completed' }])
    await client.close()
  })
})

// The servers take seconds for a task, so all of them work at the same time.
it.concurrent.each(servers)('the created task of %s is forwarded as the server sent it', async (server) => {
  const way = house.way('http', server)
  if (way.transport === 'stdio') throw new TypeError('this client comes over HTTP')
  const client = await connect({ revision: '2025-11-25', transport: 'http', url: way.url })
  const call = { name: 'simulate-research-query', arguments: { topic: 'gates' }, task: { ttl: 60_000 } }
  const { result } = await client.request('tools/call', call)
  expect(result).toHaveProperty('task')
  expect(Object.keys(result ?? {}).filter((key) => key !== '_meta')).toEqual(['task'])
  const { result: echo } = await client.request('tools/call', { name: 'echo', arguments: { message: 'x' } })
  expect(echo).toEqual({ content: [{ type: 'text', text: 'Echo: x' }] })
  await client.close()
})

describe.concurrent.each([
  ['2026-07-28', 'everything'],
  ['2026-07-28', 'everything-http'],
  ['2025-06-18', 'everything'],
] as const)('a client of %s, which does not support such tasks, with %s', (revision, server) => {
  it('gets the result of a tool that only runs as a task, and answers its questions', async () => {
    const way = house.way('http', server)
    if (way.transport === 'stdio') throw new TypeError('this client comes over HTTP')
    const accept = { action: 'accept', content: { interpretation: 'snakes' } }
    const client = await connect({
      revision,
      transport: 'http',
      url: way.url,
      capabilities: { elicitation: {} },
      answers: { 'elicitation/create': () => accept },
    })
    const args = { name: 'simulate-research-query', arguments: { topic: 'python', ambiguous: true } }
    const reply = await client.request('tools/call', args)
    expect(reply.text).toContain('Research Report: python (snakes)')
    expect(client.violations).toEqual([])
    await client.close()
  })
})

async function connected(gateway: House, server: (typeof servers)[number]): Promise<Client> {
  const way = gateway.way('http', server)
  const client = new Client({ name: 'peer', version: '1.0.0' })
  if (way.transport !== 'stdio') await client.connect(new StreamableHTTPClientTransport(new URL(way.url)))
  return client
}
