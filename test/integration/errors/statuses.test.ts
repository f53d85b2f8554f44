import { describe, expect, onTestFinished, test } from 'vitest'
import { clientOf, codeOf, gatewayTo, httpServer } from '../../support/journey.ts'
import { scriptedServer, tokenOf } from '../../support/scripted-server.ts'

const statuses = [
  [-32700, 400],
  [-32600, 400],
  [-32602, 400],
  [-32603, 500],
  [-32000, 500],
  [-32003, 429],
  [-32004, 504],
  [-32005, 413],
  [-32006, 503],
  [-32007, 409],
  // 404 means that the session is gone.
  [-32601, 200],
  [-32002, 200],
  [-1, 200],
] as const

const mapped = { features: { errors: { http_status: 'mapped' } } }

function failing(code: number, more: object = {}) {
  return { name: 'error', arguments: { code, message: 'no' }, ...more }
}

describe('the HTTP status of an error within a session', () => {
  test('C180 is its own where that is wanted', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const client = await clientOf(gateway)
    for (const [code, status] of statuses) {
      const reply = await client.request('tools/call', failing(code))
      expect([code, reply.status, reply.error?.['code']]).toEqual([code, status, code])
    }
    expect((await client.request('tools/call', { name: 'echo' })).status).toBe(200)
  })

  test('C180 is 200 where clients are to read the error', async () => {
    const client = await clientOf(await gatewayTo({ one: (await httpServer()).url }))
    for (const [code] of statuses) {
      const reply = await client.request('tools/call', failing(code))
      expect([reply.status, reply.error?.['code']]).toEqual([200, code])
    }
  })

  test('C180 stays 200 for the result of a tool, and for what the gateway refuses by one', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const client = await clientOf(gateway)
    const reply = await client.request('tools/call', { name: 'error', arguments: { code: 'x' } })
    expect([reply.status, codeOf(reply)]).toEqual([200, 'INVALID_INPUT'])
  })

  test.each([
    ['limits', { limits: { timeout: '3s' } }, {}],
    ['limits of the server', {}, { limits: { timeout: '3s' } }],
    ['settings of the tool', {}, { tools: { silent: { timeout: '3s' } } }],
  ])('C194 is 504 for a time-out by the %s, however long that is', async (_where, config, own) => {
    const server = await scriptedServer(
      { tools: {} },
      {
        'tools/list': () => ({ tools: [{ name: 'silent', inputSchema: { type: 'object' } }] }),
        'tools/call': () => undefined,
      },
    )
    onTestFinished(() => server.close())
    const one = { url: server.url, ...own }
    const gateway = await gatewayTo({ one }, { config: { ...config, ...mapped } })
    const client = await clientOf(gateway)
    const reply = await client.request('tools/call', { name: 'silent', arguments: {} }, { timeoutMs: 30_000 })
    expect([reply.status, reply.error?.['code']]).toEqual([504, -32004])
  })

  test('is 200 once something was said', async () => {
    const server = await scriptedServer(
      { tools: {} },
      {
        'tools/list': () => ({ tools: [{ name: 'talking', inputSchema: { type: 'object' } }] }),
        'tools/call': (asked) => {
          const params = { progressToken: tokenOf(asked), progress: 1 }
          asked.say({ method: 'notifications/progress', params })
          return undefined
        },
      },
    )
    onTestFinished(() => server.close())
    const gateway = await gatewayTo({ one: server.url }, { config: { ...mapped, limits: { timeout: '2s' } } })
    const client = await clientOf(gateway)
    const call = { name: 'talking', arguments: {} }
    const reply = await client.request('tools/call', call, { timeoutMs: 30_000, onProgress: () => {} })
    expect([reply.status, reply.error?.['code']]).toEqual([200, -32004])
  })

  test('C145 C180 is 400 for a tool that is not there', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const reply = await (await clientOf(gateway)).request('tools/call', { name: 'no-such' })
    expect(reply.status).toBe(400)
    expect(reply.error).toMatchObject({ code: -32602, message: 'Unknown tool: no-such' })
  })

  test('C100 C180 is 200 for a method that is not there', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const reply = await (await clientOf(gateway)).request('no/such', {})
    expect([reply.status, reply.error?.['code']]).toEqual([200, -32601])
  })

  test('C180 is what 2026-07-28 says for its clients', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const client = await clientOf(gateway, { revision: '2026-07-28', handshake: false })
    expect((await client.request('tools/call', failing(-32603))).status).toBe(200)
    expect((await client.request('tools/call', failing(-32601))).status).toBe(404)
  })
})
