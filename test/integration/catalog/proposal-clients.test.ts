// Clients written for the proposals of MCP extensions, whose requests have the names and forms of their text.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { clientOf } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const home = mkdtempSync(join(tmpdir(), 'proposals-'))
let gateway: LocalGateway
beforeAll(async () => {
  const memory = {
    command: publishedServer('@modelcontextprotocol/server-memory'),
    env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
  }
  const references = { import: { tool: 'create_entities', argument: 'entities' } }
  gateway = await localGateway({
    features: { references: 'on' },
    upstreams: { notes: memory, graph: { ...memory, features: { references } } },
  })
})
afterAll(async () => {
  await gateway?.close()
  rmSync(home, { recursive: true })
})

type Ask = (params: Json) => Promise<Json>

/** Asks by a method or a tool of any name, at the address of all servers unless it names one. */
async function asking(name: string, as: 'method' | 'tool', path = ''): Promise<Ask> {
  const client = await clientOf({ url: `${gateway.url}${path}` })
  return async (params) => {
    if (as === 'method') return objectAt({ ...(await client.request(name, params)) }, 'result')
    const { result } = await client.request('tools/call', { name, arguments: params })
    return objectAt({ ...result }, 'structuredContent')
  }
}

function post(path: string, body: Json): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${gateway.origin}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
}

describe.each(['method', 'tool'] as const)('as a %s', (as) => {
  it.each([
    ['begin_transaction', 'commit_transaction', { status: 'committed' }],
    ['BEGIN_TRANSACTION', 'COMMIT', { status: 'committed' }],
    ['begin_transaction', 'rollback_transaction', { steps_compensated: [] }],
    ['BEGIN_TRANSACTION', 'ROLLBACK', { steps_compensated: [] }],
  ])('%s and %s', async (begin, end, ended) => {
    const transaction_id = `tx-${as}-${begin}-${end}`
    for (const path of ['', '/graph']) {
      const id = { transaction_id: `${transaction_id}${path.replace('/', '-')}` }
      expect(await (await asking(begin, as, path))(id)).toMatchObject({ ...id, status: 'begun' })
      expect(await (await asking(end, as, path))(id)).toMatchObject({ ...id, ...ended })
    }
  })

  it.each([
    ['get_manifest', {}, { tools: expect.any(Array) }],
    ['capabilities', {}, { tools: expect.any(Array) }],
    ['can_execute', { tool: 'graph_read_graph', scopes_held: [] }, { missing_scopes: ['read:graph'] }],
    ['check_permissions', { tool: 'graph_read_graph' }, { allowed: true }],
    ['negotiate_scopes', { requested_scopes: ['read:graph'] }, { granted_scopes: ['read:graph'] }],
    ['recommend_servers', { capability_needed: 'maps' }, { capability_needed: 'maps' }],
    ['ai_help', {}, { content: expect.any(String) }],
  ] as const)('%s %j', async (name, params, answer) => {
    expect(await (await asking(name, as))({ ...params })).toMatchObject(answer)
  })

  it('subscribe {subscribe: {server, events, filter}} and unsubscribe', async () => {
    const subscription_id = `sub-${as}`
    const subscribe = {
      server: 'graph',
      events: ['create_entities.succeeded'],
      filter: { tool: 'create_entities' },
      subscription_id,
      ttl_seconds: 60,
    }
    const answer = await (await asking('subscribe', as))({ subscribe })
    expect(answer).toMatchObject({ subscription_id, expires_at: expect.any(String) })
    expect(answer['supported_events']).toContain('graph_create_entities.succeeded')
    const ended = await (await asking('unsubscribe', as))({ subscription_id })
    expect(ended).toEqual({ subscription_id, status: 'cancelled' })
  })

  it('import_from_ref {ref_id, origin_server} after export_result_ref', async () => {
    const kept = await (await asking('export_result_ref', as))({ tool: 'graph_read_graph' })
    expect(kept).toMatchObject({ origin_server: 'graph', mime_type: expect.any(String) })
    const { ref_id, origin_server } = kept
    const pointed = `ref://${String(ref_id).replace('ref://', '')}#/entities`
    for (const path of ['', '/graph']) {
      const imported = await (await asking('import_from_ref', as, path))({ ref_id: pointed, origin_server })
      // What the proposal requires of the answer, with the members that the tool gave it.
      expect(imported).toMatchObject({ status: 'imported', ref_id: pointed, checksum_verified: true })
    }
  })
})

describe('over HTTP', () => {
  it('POST /subscribe takes the literal form, and says which servers there are', async () => {
    const body = (server: string): Json => ({ subscribe: { server, events: ['create_entities.succeeded'] } })
    const subscribed = (await (await post('/subscribe', body('notes'))).json()) as Json
    expect(subscribed).toMatchObject({
      supported_events: expect.arrayContaining(['notes_create_entities.succeeded']),
    })
    expect(subscribed).not.toMatchObject({ reason: expect.stringContaining('no events of this name') })
    const refused = await post('/subscribe', body('git-server'))
    expect([refused.status, await refused.text()]).toEqual([
      400,
      expect.stringContaining('one of notes, graph'),
    ])
  })

  it('GET /permissions says that callers without authentication may call everything', async () => {
    const all = (await (await fetch(`${gateway.origin}/permissions`)).json()) as Json
    expect(all).toMatchObject({ is_limited: false })
    expect(all['tools']).toEqual(expect.arrayContaining(['notes_read_graph', 'graph_delete_entities']))
    const one = (await (await fetch(`${gateway.origin}/permissions?upstream=graph`)).json()) as Json
    expect(one['tools']).toContain('delete_entities')
    expect(one['scopes_held']).toContain('delete:graph')
  })
})

it('no list has the other names, and a client of 2026-07-28 can use them too', async () => {
  const client = await clientOf(gateway, { revision: '2026-07-28' })
  const text = JSON.stringify(await client.request('tools/list'))
  for (const name of ['can_execute', 'BEGIN_TRANSACTION', '"subscribe"', '"capabilities"'])
    expect(text).not.toContain(name)
  const asked = await client.request('can_execute', { tool: 'graph_read_graph' })
  expect(asked.result).toMatchObject({ allowed: true })
})
