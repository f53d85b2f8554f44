import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { corporate, type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { open } from '../../support/client/raw.ts'
import { isObject, type Json } from '../../support/server/json.ts'

/** The tools of a published SQLite server, which annotates none of them. */
const tools = [
  {
    name: 'query',
    description: 'Execute a raw SQL query against the database with optional parameter values',
    inputSchema: { type: 'object', properties: { sql: { type: 'string' } }, required: ['sql'] },
  },
  {
    name: 'list_tables',
    description: 'List all user tables in the SQLite database',
    inputSchema: { type: 'object', properties: {} },
  },
]

const token = 'a-token-of-at-least-32-characters-01'
let server: ScriptedServer
let statements: string[]

beforeAll(async () => {
  statements = []
  server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools }),
      'tools/call': ({ params }) => {
        const given = params['arguments']
        statements.push(isObject(given) ? String(given['sql'] ?? params['name']) : '')
        return { content: [] }
      },
    },
  )
})
afterAll(() => server.close())

async function call(gateway: LocalGateway, params: Json, bearer?: string): Promise<string> {
  const version = '2026-07-28'
  const _meta = {
    'io.modelcontextprotocol/protocolVersion': version,
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    ...(isObject(params['_meta']) ? params['_meta'] : {}),
  }
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': version,
    'mcp-method': 'tools/call',
    'mcp-name': String(params['name']),
    ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
  }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { ...params, _meta } })
  return (await open(gateway.url, { method: 'POST', headers, body })).text()
}

const drop = { name: 'query', arguments: { sql: 'DROP TABLE people' } }

describe('a tool that runs the statements of its callers', () => {
  test('judgement: requires confirmation by default, and a tool that lists tables does not', async () => {
    const gateway = await localGateway({
      upstreams: { db: server.url },
      features: { confirm: { wait: 'off' } },
    })
    expect(await call(gateway, drop)).toContain('CONFIRMATION_REQUIRED')
    expect(await call(gateway, { name: 'list_tables', arguments: {} })).not.toContain('CONFIRMATION_REQUIRED')
    expect(statements).toEqual(['list_tables'])
    await gateway.close()
  })

  test.each([{}, { profile: corporate.profile }])(
    'judgement: is refused for a caller with a read scope only, with %o',
    async (more) => {
      const auth = { opaque: { tokens: [{ id: 'reader', hash: tokenHash(token), scopes: ['read:db'] }] } }
      const gateway = await localGateway({ ...more, auth, upstreams: { db: server.url } })
      const before = statements.length
      const refused = await call(gateway, drop, token)
      expect(refused).toContain('SCOPE_INSUFFICIENT')
      expect(refused).toContain('execute:db')
      expect(statements).toHaveLength(before)
      await gateway.close()
    },
  )

  test('judgement: is not read-only, so a transaction refuses it without a compensation', async () => {
    const gateway = await localGateway({ upstreams: { db: server.url }, features: { confirm: 'off' } })
    const id = 'transaction-1'
    await call(gateway, { name: 'begin_transaction', arguments: { transaction_id: id } })
    const step = await call(gateway, { ...drop, _meta: { 'dev.gatehouse/transaction_id': id } })
    expect(step).toContain('COMPENSATION_UNAVAILABLE')
    expect(statements.filter((each) => each.startsWith('DROP'))).toEqual([])
    await gateway.close()
  })
})
