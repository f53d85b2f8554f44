import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { checkProposals } from '../../support/proposal-client.ts'
import { type ClientFace, httpFace, stdioFace } from '../../support/proposal-faces.ts'
import { alone } from '../../support/scattered.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

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
    { capability: 'design_mockup', server: 'figma', registry_url: 'https://catalog.example.com/figma' },
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

/** The names of the checks that fail, each with what was missing. */
async function missing(face: ClientFace): Promise<Readonly<Record<string, string>>> {
  const results = await checkProposals(face)
  expect(results).toHaveLength(14)
  return Object.fromEntries(
    results.flatMap(({ name, problem }) => (problem === undefined ? [] : [[name, problem]])),
  )
}

const bareFlag = { confirm: { accept_bare_flag: true } }
/** What other clients would notice, or what trusts the word of a client. */
const unlessAsked = ['provenance', 'human in the loop', 'session state', 'structured error']

const kinds = [
  {
    title: 'by default',
    settings: { features: { references: 'on', confirm: { wait: 'off' } } },
    absent: unlessAsked,
  },
  { title: 'with compat: proposals', settings: { compat: 'proposals', features: bareFlag }, absent: [] },
] as const

describe.each(kinds)('a client of the proposals, $title', ({ settings, absent }) => {
  alone('each gateway starts servers over stdio')
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway(configOf(settings))
  })
  afterAll(() => gateway.close())

  it.each(['2025-06-18', '2025-11-25', '2026-07-28'])('finds what it looks for in %s', async (revision) => {
    const found = await missing(await httpFace(gateway.url, revision, headers))
    expect(found).toEqual(Object.fromEntries(absent.map((name) => [name, expect.any(String)])))
  })

  it('finds what it looks for over stdio in 2024-11-05', async () => {
    const { path, remove } = await configFile(configOf(settings))
    const face = await stdioFace(path, '2024-11-05')
    const found = await missing(face)
    expect(found).toEqual(Object.fromEntries(absent.map((name) => [name, expect.any(String)])))
    await face.close()
    await remove()
  })
})

it('with compat: proposals for one server, the others answer as before', async () => {
  const config = configOf({ features: bareFlag })
  const upstreams = { ...Object(config['upstreams']), plain: tickets }
  const two = { ...config, upstreams: { ...upstreams, tickets: { ...tickets, compat: 'proposals' } } }
  const gateway = await startGateway(two)
  const call = { name: 'search_tickets', arguments: {} }
  const [proposals, plain] = await Promise.all(
    ['tickets', 'plain'].map(async (server) => {
      const face = await httpFace(`${gateway.url}/${server}`, '2025-11-25', headers)
      return Object.keys(objectAt(await face.request('tools/call', call), 'result'))
    }),
  )
  for (const name of ['session_state', 'provenance', 'result']) expect(plain).not.toContain(name)
  expect(proposals).toEqual(expect.arrayContaining(['session_state', 'provenance', 'result']))
  await gateway.close()
})
