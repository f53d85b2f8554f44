import { describe, expect, onTestFinished, test } from 'vitest'
import { approvingGateway, bearer, peopleNamed } from '../../support/approving.ts'
import { clientOf, codeOf, gatewayTo, httpServer } from '../../support/journey.ts'
import { openSession, toolCall } from '../../support/raw-session.ts'
import { type ScriptedServer, scriptedServer, tokenOf } from '../../support/scripted-server.ts'

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
  // In a session, 404 would mean that the session is gone.
  [-32601, 200],
  [-32002, 200],
  [-1, 200],
] as const

const mapped = { features: { errors: { http_status: 'mapped' }, validate: { input: 'strict' } } }

function failing(code: number, more: object = {}) {
  return { name: 'error', arguments: { code, message: 'no' }, ...more }
}

describe('the HTTP status of an error within a session', () => {
  test('C180 is that of the error code if it is mapped', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const client = await clientOf(gateway)
    for (const [code, status] of statuses) {
      const reply = await client.request('tools/call', failing(code))
      expect([code, reply.status, reply.error?.['code']]).toEqual([code, status, code])
    }
    expect((await client.request('tools/call', { name: 'echo' })).status).toBe(200)
  })

  test('C180 is 200 if clients read the error', async () => {
    const client = await clientOf(await gatewayTo({ one: (await httpServer()).url }))
    for (const [code] of statuses) {
      const reply = await client.request('tools/call', failing(code))
      expect([reply.status, reply.error?.['code']]).toEqual([200, code])
    }
  })

  test('C180 stays 200 for a tool result, including a refusal that is sent as a tool result', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const client = await clientOf(gateway)
    const reply = await client.request('tools/call', { name: 'error', arguments: { code: 'x' } })
    expect([reply.status, codeOf(reply)]).toEqual([200, 'INVALID_INPUT'])
  })

  test.each([
    ['limits', { limits: { timeout: '3s' } }, {}],
    ['limits of the server', {}, { limits: { timeout: '3s' } }],
    ['settings of the tool', {}, { tools: { silent: { timeout: '3s' } } }],
  ])('C194 is 504 for a timeout by the %s, however long that is', async (_where, config, own) => {
    const server = await quietServer()
    const one = { url: server.url, ...own }
    const gateway = await gatewayTo({ one }, { config: { ...config, ...mapped } })
    const client = await clientOf(gateway)
    const reply = await client.request('tools/call', { name: 'silent', arguments: {} })
    expect([reply.status, reply.error?.['code']]).toEqual([504, -32004])
  })

  test('is 200 once a notification was sent', async () => {
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
    const reply = await client.request('tools/call', call, { onProgress: () => {} })
    expect([reply.status, reply.error?.['code']]).toEqual([200, -32004])
  })

  test('is 504 if the server sends only notifications that the client did not request', async () => {
    const server = await scriptedServer(
      { tools: {} },
      {
        'tools/list': () => ({ tools: [{ name: 'busy', inputSchema: { type: 'object' } }] }),
        'tools/call': (asked) => {
          const progressToken = tokenOf(asked) ?? 1
          let progress = 0
          const timer = setInterval(() => {
            const params = { progressToken, progress: ++progress }
            asked.say({ method: 'notifications/progress', params })
          }, 100)
          onTestFinished(() => clearInterval(timer))
          return undefined
        },
      },
    )
    onTestFinished(() => server.close())
    const gateway = await gatewayTo({ one: server.url }, { config: { ...mapped, limits: { timeout: '2s' } } })
    const client = await clientOf(gateway)
    const reply = await client.request('tools/call', { name: 'busy', arguments: {} })
    expect([reply.status, reply.error?.['code']]).toEqual([504, -32004])
  })

  test('is 200 while an approval is pending for longer than the call timeout', async () => {
    const { gateway } = await approvingGateway({
      config: {
        ...mapped,
        auth: peopleNamed('anna'),
        limits: { timeout: '1s' },
        features: { ...mapped.features, confirm: { wait: '10s' } },
      },
      rules: { approval: 'out_of_band', approvers: ['anna'] },
    })
    const agent = { authorization: `Bearer ${bearer.agent}` }
    const session = await openSession(`${gateway.origin}/mcp`, '2025-11-25', {}, agent)
    const reply = await session.send(toolCall(1, 'wipe'))
    expect([reply.status, reply.headers['content-type']]).toEqual([200, 'text/event-stream'])
    reply.destroy()
  })

  test('C145 C180 is 400 for an unknown tool', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const reply = await (await clientOf(gateway)).request('tools/call', { name: 'no-such' })
    expect(reply.status).toBe(400)
    expect(reply.error).toMatchObject({ code: -32602, message: 'Unknown tool: no-such' })
  })

  test('C100 C180 is 200 for an unknown method', async () => {
    const gateway = await gatewayTo({ one: (await httpServer()).url }, { config: mapped })
    const reply = await (await clientOf(gateway)).request('no/such', {})
    expect([reply.status, reply.error?.['code']]).toEqual([200, -32601])
  })

  /** The error of a server, and the HTTP status and code that a 2026-07-28 client receives. */
  const modernStatuses = [
    [-32700, 200, -32700],
    [-32600, 200, -32600],
    [-32601, 404, -32601],
    [-32602, 200, -32602],
    [-32603, 200, -32603],
    [-32000, 200, -32000],
    [-32003, 200, -32003],
    [-32004, 200, -32004],
    [-32005, 200, -32005],
    [-32006, 200, -32006],
    [-32007, 200, -32007],
    // 2026-07-28 basic: these two are not sent any more, and reserved codes are not forwarded.
    [-32002, 200, -32602],
    [-32042, 200, -32603],
    [-32050, 200, -32603],
    [-1, 200, -1],
  ] as const

  test.each(['mapped', 'compatible'])(
    'C180 is the status of the specification for 2026-07-28 clients, with %s',
    async (kind) => {
      const config = { features: { errors: { http_status: kind } } }
      for (const { url } of [await httpServer(), await httpServer({ revision: '2026-07-28' })]) {
        const client = await clientOf(await gatewayTo({ one: url }, { config }), modern)
        const seen = []
        for (const [code] of modernStatuses) {
          const reply = await client.request('tools/call', failing(code))
          seen.push([code, reply.status, reply.error?.['code']])
        }
        expect(seen).toEqual(modernStatuses)
      }
    },
  )

  test.each(['mapped', 'compatible'])('is 200 for a timeout of a 2026-07-28 call, with %s', async (kind) => {
    const server = await quietServer()
    const config = { features: { errors: { http_status: kind } }, limits: { timeout: '2s' } }
    const client = await clientOf(await gatewayTo({ one: server.url }, { config }), modern)
    const reply = await client.request('tools/call', { name: 'silent', arguments: {} })
    expect([reply.status, reply.error?.['code']]).toEqual([200, -32004])
  })
})

const modern = { revision: '2026-07-28', handshake: false } as const

/** A server with a tool that never answers. */
async function quietServer(): Promise<ScriptedServer> {
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [{ name: 'silent', inputSchema: { type: 'object' } }] }),
      'tools/call': () => undefined,
    },
  )
  onTestFinished(() => server.close())
  return server
}
