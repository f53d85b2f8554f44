import { createServer } from 'node:http'
import { expect, it, onTestFinished } from 'vitest'
import { clientOf, codeOf } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json, objectAt, parse } from '../../support/server/json.ts'

const tool = { name: 'export_report', description: 'Exports.', inputSchema: { type: 'object' } }

async function server(): Promise<ScriptedServer> {
  const started = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [tool] }),
      'tools/call': () => ({ content: [{ type: 'text', text: 'done' }] }),
    },
  )
  onTestFinished(() => started.close())
  return started
}

const callsOf = ({ seen }: ScriptedServer): number =>
  seen.filter((each) => each['method'] === 'tools/call').length

async function gatewayTo(one: Json, features: Json = {}) {
  const gateway = await localGateway({ features, upstreams: { one } })
  onTestFinished(() => gateway.close())
  return gateway
}

const call = { name: 'export_report', arguments: {} }
const costly = {
  tools: { export_report: { cost: { category: 'requires_approval', units: 5, label: 'credits' } } },
}

it('a call whose cost requires approval does not run without it, whatever the other confirmation settings', async () => {
  const one = await server()
  const gateway = await gatewayTo({ url: one.url, ...costly }, { confirm: { level: 'none', wait: 'off' } })
  const mute = await clientOf(gateway)
  const refused = await mute.request('tools/call', call)
  expect(codeOf(refused)).toBe('CONFIRMATION_REQUIRED')
  expect(JSON.stringify(refused.result)).toContain('It costs 5 credits.')
  const forged = await mute.request('tools/call', { ...call, _meta: { user_confirmed: true } })
  expect(forged.result).toMatchObject({ isError: true })
  expect(callsOf(one)).toBe(0)

  const asked: unknown[] = []
  const answer = (params: Json): Json => {
    asked.push(params['message'])
    return { action: 'accept', content: { confirm: true } }
  }
  const person = await clientOf(gateway, { answers: { 'elicitation/create': answer } })
  const made = await person.request('tools/call', call)
  expect(asked).toEqual([expect.stringContaining('It costs 5 credits.')])
  expect(made.result?.['_meta']).toMatchObject({ 'dev.gatehouse/usage': { units: 5, unit_label: 'credits' } })
  expect(callsOf(one)).toBe(1)
})

it('the tool list shows the cost of a tool, and that it requires confirmation', async () => {
  const one = await server()
  const gateway = await gatewayTo({ url: one.url, ...costly })
  const client = await clientOf(gateway)
  const { result } = await client.request('tools/list', {})
  const [listed] = Array.isArray(result?.['tools']) ? result['tools'] : []
  expect(listed).toMatchObject({
    requires_confirmation: true,
    _meta: {
      'dev.gatehouse/cost': { category: 'requires_approval', estimated_units: 5, unit_label: 'credits' },
    },
  })
})

it('a configuration in which no approval is possible is a problem', async () => {
  const one = await server()
  const gateway = await gatewayTo({ url: one.url, ...costly }, { confirm: 'off' })
  expect(gateway.collisions).toEqual([expect.stringContaining('requires approval')])
})

it('an exhausted budget is reported as QUOTA_EXHAUSTED, without a request to the server', async () => {
  const one = await server()
  const priced = { url: one.url, tools: { '*': { cost: '5 credits' } } }
  const gateway = await gatewayTo(priced, { cost: { budget: { units: 7, per: 'day' } } })
  const client = await clientOf(gateway)
  const first = await client.request('tools/call', call)
  expect(first.result?.['_meta']).toMatchObject({
    'dev.gatehouse/usage': { quota: { remaining: 2, of: 'budget' } },
  })
  const second = await client.request('tools/call', call)
  expect(second.error).toMatchObject({
    data: { code: 'QUOTA_EXHAUSTED', details: { resets_at: expect.stringMatching(/T00:00:00.000Z$/) } },
  })
  expect(callsOf(one)).toBe(1)
})

it('the remaining quota that a server reports is in each result', async () => {
  alone('each gateway knows what servers told it')
  let left = 3
  const http = createServer((request, response) => {
    let body = ''
    request.on('data', (part: Buffer) => void (body += part.toString()))
    request.on('end', () => {
      const message = parse(body)
      if (!isObject(message) || message['id'] === undefined) return response.writeHead(202).end()
      const { id, method } = message
      if (method === 'tools/call') {
        response.setHeader('x-ratelimit-remaining', --left)
        response.setHeader('x-ratelimit-reset', Math.floor(Date.now() / 1000) + 60)
      }
      const results: Json = {
        initialize: {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'a', version: '1' },
        },
        'tools/list': { tools: [tool] },
        'tools/call': { content: [] },
      }
      response.setHeader('content-type', 'application/json')
      return response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[String(method)] ?? {} }))
    })
  })
  await new Promise<void>((resolve) => void http.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void http.close())
  onTestFinished(() => http.closeAllConnections())
  const address = http.address()
  const port = isObject(address) ? address['port'] : undefined
  const gateway = await gatewayTo({ url: `http://127.0.0.1:${String(port)}/mcp`, revision: '2025-11-25' })
  const client = await clientOf(gateway)
  for (const remaining of [2, 1]) {
    const { result } = await client.request('tools/call', call)
    const usage = objectAt(objectAt({ ...result }, '_meta'), 'dev.gatehouse/usage')
    expect(usage).toEqual({
      duration_ms: expect.any(Number),
      quota: { remaining, resets_at: expect.stringMatching(/Z$/), of: 'server' },
    })
  }
  const { result: listed } = await client.request('tools/list', {})
  const quota = { remaining: 1, resets_at: expect.stringMatching(/Z$/), of: 'server' }
  expect(listed?.['tools']).toMatchObject([{ _meta: { 'dev.gatehouse/quota': quota } }])
  const manifest: Json = JSON.parse(await (await fetch(`${gateway.origin}/capabilities`)).text())
  expect(manifest['rate_limits']).toEqual({ remaining: 1, resets_at: expect.stringMatching(/Z$/) })
})
