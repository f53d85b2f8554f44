import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { type ClientFace, httpFace } from '../../support/proposal-faces.ts'
import { isObject, type Json, objectAt, parse } from '../../support/server/json.ts'

const program = 'test/fixtures/proposal-server/main.ts'

/** The server itself, and the same behind a gateway. */
async function directly(): Promise<ClientFace> {
  const child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const send = async (text: string): Promise<Json> => {
    child.stdin.write(`${text}\n`)
    const { value } = await lines.next()
    const message = parse(String(value))
    return isObject(message) ? message : {}
  }
  return {
    request: (method, params) => send(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })),
    raw: send,
    close: async () => void child.kill(),
  }
}

function configOf(upstream: Json): Json {
  const server = { command: [process.execPath, program], cwd: process.cwd(), ...upstream }
  return { features: { confirm: { accept_bare_flag: true } }, upstreams: { tracker: server } }
}

/** The entries of a list by name. */
function byName(tools: unknown): Readonly<Record<string, Json>> {
  const entries = Array.isArray(tools) ? tools.filter(isObject) : []
  return Object.fromEntries(entries.map((tool) => [String(tool['name']), tool]))
}

let direct: ClientFace
let listed: Readonly<Record<string, Json>>
beforeAll(async () => {
  direct = await directly()
  listed = byName(objectAt(await direct.request('tools/list', {}), 'result')['tools'])
})
afterAll(() => direct.close())

const revisions = ['2025-06-18', '2025-11-25', '2026-07-28'] as const

describe.each([
  { title: 'by default', upstream: {} },
  { title: 'with compat: proposals', upstream: { compat: 'proposals' } },
])('a server that implements the proposals itself, $title', ({ upstream }) => {
  let gateway: RunningGateway
  beforeAll(async () => {
    gateway = await startGateway(configOf(upstream))
  })
  afterAll(() => gateway.close())

  it.each(revisions)('is listed in its own words in %s', async (revision) => {
    const face = await httpFace(gateway.url, revision)
    const tools = byName(objectAt(await face.request('tools/list', {}), 'result')['tools'])
    expect(Object.keys(tools)).toEqual(Object.keys(listed))
    for (const [name, own] of Object.entries(listed)) expect(tools[name]).toMatchObject(own)
  })

  it('has the same words in its manifest', async () => {
    const face = await httpFace(gateway.url, '2025-11-25')
    const { result } = await face.request('tools/call', { name: 'get_manifest', arguments: {} })
    const tools = byName(isObject(result) ? result['tools'] : undefined)
    for (const [
      name,
      { inputSchema, annotations: _hints, required_scopes: scopes, ...own },
    ] of Object.entries(listed)) {
      expect(tools[name]).toMatchObject({ ...own, input_schema: inputSchema })
      if (Array.isArray(scopes))
        expect(tools[name]?.['required_scopes']).toEqual(expect.arrayContaining(scopes))
    }
  })

  it.each(revisions)('answers calls as it does directly in %s', async (revision) => {
    const face = await httpFace(gateway.url, revision)
    const calls: readonly Json[] = [
      { name: 'search_tickets', arguments: { query: 'a' } },
      { name: 'create_ticket', arguments: { title: 'a' } },
      { name: 'delete_ticket', arguments: { ticket_id: 'A' }, user_confirmed: true },
      { name: 'delete_ticket', arguments: { ticket_id: 'NONE' }, user_confirmed: true },
      { name: 'read_invoice', arguments: {}, user_confirmed: true },
    ]
    for (const params of calls) {
      const own = objectAt(await direct.request('tools/call', params), 'result')
      const behind = objectAt(await face.request('tools/call', params), 'result')
      expect(behind).toMatchObject(own)
    }
  })

  it('asks in the words of the server before its tools run, also if they only read', async () => {
    const face = await httpFace(gateway.url, '2025-11-25')
    for (const name of ['delete_ticket', 'read_invoice']) {
      const params = { name, arguments: { ticket_id: 'A' } }
      const own = objectAt(await direct.request('tools/call', params), 'result')
      const behind = objectAt(await face.request('tools/call', params), 'result')
      expect(behind).toMatchObject({ requires_confirmation: true, tool: name })
      expect(behind['confirmation_message']).toMatch(
        new RegExp(`^${String(own['confirmation_message']).replaceAll('?', '\\?')} Run ${name}`),
      )
    }
  })
})

it('a server that implements the proposals sees the intent of a caller with compat: proposals', async () => {
  const params = { name: 'search_tickets', arguments: {}, intent: 'find the invoice of March' }
  const gateway = await startGateway(configOf({ compat: 'proposals' }))
  const face = await httpFace(gateway.url, '2025-11-25')
  const own = objectAt(await direct.request('tools/call', params), 'result')
  expect(own['suggestion']).toBeDefined()
  expect(objectAt(await face.request('tools/call', params), 'result')).toMatchObject(own)
  await gateway.close()
})

it('an untrusted server is quoted beside the question of the gateway, and can only raise a risk', async () => {
  const gateway = await startGateway(configOf({ trust: false }))
  const face = await httpFace(gateway.url, '2025-11-25')
  const tools = byName(objectAt(await face.request('tools/list', {}), 'result')['tools'])
  const quoted = 'Its server says: “This will permanently delete the ticket and all its data. Proceed?”'
  expect(tools['delete_ticket']?.['confirmation_message']).toBe(`Run delete_ticket on tracker? ${quoted}`)
  const { result } = await face.request('tools/call', { name: 'get_manifest', arguments: {} })
  const manifest = byName(isObject(result) ? result['tools'] : undefined)
  expect(manifest['delete_ticket']).toMatchObject({ risk_level: 'destructive', requires_confirmation: true })
  expect(manifest['create_ticket']).toMatchObject({ risk_level: 'reversible' })
  await gateway.close()
})
