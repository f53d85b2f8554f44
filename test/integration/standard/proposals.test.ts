import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { checkProposals } from '../../support/proposal-client.ts'
import { type ClientFace, httpFace, stdioFace } from '../../support/proposal-faces.ts'
import type { Json } from '../../support/server/json.ts'

const token = 'a-token-of-at-least-32-characters-00'
const headers = { authorization: `Bearer ${token}` }
const scopes = ['read:tickets', 'write:tickets', 'delete:tickets']

/** What the owner of the server says of it: no setting of the gateway itself. */
const tickets: Json = {
  command: [process.execPath, 'test/fixtures/tickets-server/main.ts'],
  cwd: process.cwd(),
  tools: {
    create_ticket: { undo: 'delete_ticket(ticket_id=$.result.ticket.id)' },
    purge_tickets: { scopes: ['admin:tickets'] },
    export_tickets: { latency: 'seconds', cost: '1 export credit' },
    analyze_image: { accepts: ['image/png', 'image/jpeg'], returns: ['application/json'] },
  },
  intent: [
    { when: 'recent incident', on: 'search_tickets', suggest: 'get_recent_incidents', reason: 'By recency.' },
  ],
  recommend: [
    { capability: 'design_mockup', server: 'figma', registry_url: 'https://registry.example.com/figma' },
  ],
  events: {
    'ticket.created': { watch: 'search_tickets(query="")', items: '$.result.tickets', id: '$.id' },
  },
}

function configOf(settings: Json, upstream: Json = {}): Json {
  return {
    auth: {
      opaque: { tokens: [{ id: 'agent', hash: tokenHash(token), scopes }] },
      principal: { id: 'me', scopes },
    },
    limits: { rate: 'off' },
    upstreams: { tickets: { ...tickets, ...upstream } },
    ...settings,
  }
}

async function missing(face: ClientFace): Promise<readonly string[]> {
  const results = await checkProposals(face)
  return results.flatMap(({ name, problem }) => (problem === undefined ? [] : [`${name}: ${problem}`]))
}

const kinds = [
  { title: 'by default', settings: {} },
  {
    title: 'with compat: proposals',
    settings: { compat: 'proposals', features: { references: 'on', confirm: { accept_bare_flag: true } } },
  },
] as const

describe.each(kinds)('a client of the proposals, $title', ({ settings }) => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway(configOf(settings))
  })
  afterAll(() => gateway.close())

  it.each(['2025-06-18', '2025-11-25', '2026-07-28'])(
    'finds everything in its literal place in %s',
    async (revision) => {
      expect(await missing(await httpFace(gateway.url, revision, headers))).toEqual([])
    },
  )

  it('finds everything over stdio in 2024-11-05', async () => {
    const { path, remove } = await configFile(configOf(settings))
    const face = await stdioFace(path, '2024-11-05')
    expect(await missing(face)).toEqual([])
    await face.close()
    await remove()
  })
})
