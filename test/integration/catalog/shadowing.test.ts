import { expect, test } from 'vitest'
import { localGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { open } from '../../support/client/raw.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'

/** A server whose tools can be changed while it runs, and which records its calls. */
async function toolServer(names: string[]): Promise<{ server: ScriptedServer; called: string[] }> {
  const called: string[] = []
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: names.map((name) => ({ name, inputSchema: { type: 'object' } })) }),
      'tools/call': ({ params }) => {
        called.push(String(params['name']))
        return { content: [] }
      },
    },
  )
  return { server, called }
}

async function ask(url: string, method: string, params: Json): Promise<Json> {
  const version = '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
  }
  const name = params['name']
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
    'mcp-method': method,
    ...(typeof name === 'string' && { 'mcp-name': name }),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } })
  const reply = parse(await (await open(url, { method: 'POST', headers, body })).text())
  return isObject(reply) ? reply : {}
}

function namesIn(reply: Json): string[] {
  const { result } = reply
  const tools = isObject(result) && Array.isArray(result['tools']) ? result['tools'] : []
  return tools.flatMap((tool) => (isObject(tool) ? String(tool['name']) : []))
}

test('catalog: no server can claim a name in the namespace of another, even if it lists it later or the other is down', async () => {
  const short = await toolServer(['get_own'])
  const long = await toolServer(['get_c'])
  const names = ['get_own']
  const late = await toolServer(names)
  const upstreams = { a: late.server.url, 'a-b': long.server.url, other: short.server.url }
  const gateway = await localGateway({ upstreams, features: { confirm: 'off' } })
  expect(namesIn(await ask(gateway.url, 'tools/list', {}))).toContain('a_b_get_c')

  names.push('b_get_c')
  const listed = namesIn(await ask(gateway.url, 'tools/list', {}))
  expect(listed.filter((name) => name === 'a_b_get_c')).toHaveLength(1)
  expect(gateway.lines).toContainEqual(
    expect.objectContaining({
      event: 'config.problem',
      message: 'a_b_get_c of a is available at /mcp/a only: at /mcp such names belong to a-b',
    }),
  )
  await ask(gateway.url, 'tools/call', { name: 'a_b_get_c', arguments: {} })
  expect([late.called, long.called]).toEqual([[], ['get_c']])

  await long.server.close()
  const { error } = await ask(gateway.url, 'tools/call', { name: 'a_b_get_c', arguments: {} })
  expect(error ?? {}).toMatchObject({ code: expect.any(Number) })
  expect(late.called).toEqual([])

  await ask(`${gateway.origin}/mcp/a`, 'tools/call', { name: 'b_get_c', arguments: {} })
  expect(late.called).toEqual(['b_get_c'])
  await gateway.close()
  await Promise.all([short.server.close(), late.server.close()])
})
