import { expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { open } from '../../support/client/raw.ts'

test('a server that lists 100,000 tools has its list truncated with a log line, and other servers are served', async () => {
  const tools = Array.from({ length: 100_000 }, (_, at) => ({
    name: `tool_${at}`,
    inputSchema: { type: 'object' },
  }))
  const endless = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
  const plain = await scriptedServer(
    { tools: {} },
    { 'tools/list': () => ({ tools: [{ name: 'get_it', inputSchema: { type: 'object' } }] }) },
  )
  const gateway = await localGateway({ upstreams: { endless: endless.url, plain: plain.url } })
  const read = async (): Promise<string> =>
    (await open(`${gateway.origin}/llms-full.txt`, { method: 'GET', headers: {} })).text()
  const text = await until(
    async () => {
      const found = await read()
      return found.includes('tool_1999') && found.includes('get_it') ? found : undefined
    },
    'both servers to be described',
    60_000,
  )
  expect(text).not.toContain('tool_2000')
  expect(gateway.lines).toContainEqual(
    expect.objectContaining({ event: 'upstream.list_cut', left_out: 98_000, oversized: 0 }),
  )
  await gateway.close()
  await Promise.all([endless.close(), plain.close()])
})
