import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json } from '../../support/server/json.ts'

const input = { type: 'object', properties: { id: { type: 'string' } }, additionalProperties: false }
const get = { name: 'get_note', description: 'Reads a note.', inputSchema: input }
const create = { name: 'create_note', inputSchema: input }
const remove = {
  name: 'delete_note',
  title: 'Remove a note',
  description: 'Removes a note.',
  inputSchema: input,
  annotations: { idempotentHint: false },
}

let notes: ScriptedServer
let other: ScriptedServer
let strict: LocalGateway
let free: LocalGateway
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-documents-'))
beforeAll(async () => {
  const scripts = (tools: readonly Json[]) => ({
    'tools/list': () => ({ tools }),
    'tools/call': () => ({ content: [{ type: 'text', text: 'done' }] }),
  })
  notes = await scriptedServer({ tools: {} }, scripts([get, create, remove]))
  other = await scriptedServer({ tools: {} }, scripts([]))
  const tools = { delete_note: { confirm: true }, create_note: { confirm: false, rate: '5/minute' } }
  const upstreams = { notes: { url: notes.url, tools }, other: other.url }
  const audit = { file: join(folder, 'audit.jsonl') }
  strict = await localGateway({ ...corporate, observe: { audit }, limits: { timeout: '20s' }, upstreams })
  free = await localGateway({ upstreams, features: 'none' })
})
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close().catch(() => undefined)))
  await Promise.all([strict.close(), free.close()])
  await Promise.all([notes.close(), other.close()])
  rmSync(folder, { recursive: true, force: true })
})

const clients: FakeClient[] = []

async function toolsOf(
  gateway: LocalGateway,
  path: string,
  revision = '2025-11-25',
): Promise<readonly Json[]> {
  const era = revision === '2026-07-28' ? revision : '2025-11-25'
  const client = await connect({ transport: 'http', url: gateway.url + path, revision: era, headers: caller })
  clients.push(client)
  const { result } = await client.request('tools/list')
  return Array.isArray(result?.['tools']) ? result['tools'].filter(isObject) : []
}

async function createNote(): Promise<void> {
  const url = `${strict.url}/notes`
  const client = await connect({ transport: 'http', url, revision: '2025-11-25', headers: caller })
  clients.push(client)
  await client.request('tools/call', { name: 'create_note', arguments: {} })
}

describe.each([
  ['/notes', '2025-11-25'],
  ['/notes', '2026-07-28'],
  ['', '2025-11-25'],
  ['', '2026-07-28'],
])('at /mcp%s the description of tools for a client of %s', (path, revision) => {
  let reading: Json
  let creating: Json
  let removing: Json
  beforeAll(async () => {
    const tools = await toolsOf(strict, path, revision)
    const named = (name: string): Json => tools.find((each) => String(each['name']).endsWith(name)) ?? {}
    ;[reading, creating, removing] = [named('get_note'), named('create_note'), named('delete_note')]
  })

  it('C120 contains purpose, limits, effects and dangers', () => {
    expect(reading['description']).toBe(
      'Reads a note.\n\nRisk: low. It only reads. Timeout: 20 s without a response or progress end it with OPERATION_TIMEOUT.',
    )
    expect(creating['description']).toMatch(/^Create note\.\n\nRisk: medium\.[^]*Limit: 5\/minute\./)
    expect(removing['description']).toMatch(/^Removes a note\.\n\nRisk: high, it can destroy/)
  })

  it('C122 has a title', () => {
    expect([reading, creating, removing].map(({ title }) => title)).toEqual([
      'Get note',
      'Create note',
      'Remove a note',
    ])
  })

  it('C133 contains the changes a tool makes', () => {
    expect(creating['description']).toContain('Side effects: creates a note in notes.')
    expect(removing['description']).toContain('Side effects: deletes a note in notes.')
  })

  it('C134 C137 contains the risk in text and metadata', () => {
    expect(creating['description']).toMatch(/^Risk: medium\b/m)
    expect(removing['description']).toMatch(/^Risk: high\b/m)
  })

  it('C136 C143 has the hints of the protocol', () => {
    expect(reading['annotations']).toMatchObject({ readOnlyHint: true })
    expect(creating['annotations']).toMatchObject({ readOnlyHint: false, destructiveHint: false })
    expect(removing['annotations']).toEqual({
      readOnlyHint: false,
      destructiveHint: true,
      idempotentHint: false,
    })
  })

  it('C138 contains how a call can be repeated', () => {
    for (const { description } of [creating, removing])
      expect(description).toMatch(/^Idempotency: a retry with the same idempotency key has no second effect/m)
  })

  it('C139 contains when to retry', () => {
    for (const { description } of [creating, removing])
      expect(description).toMatch(/^Retry: only after errors of the category transient or rate_limited/m)
  })

  it('C140 contains the timeout and its consequence', () => {
    for (const { description } of [creating, removing])
      expect(description).toContain(
        'Timeout: 20 s without a response or progress end it with OPERATION_TIMEOUT; it may still take effect',
      )
  })

  it('C142 contains the required approval', () => {
    expect(creating['description']).toContain('Approval: not required.')
    expect(removing['description']).toContain('Approval: confirmation is required before it runs.')
  })
})

it('C141 a call is recorded, and its tool description says so', async () => {
  const [tool] = (await toolsOf(strict, '/notes')).filter(({ name }) => name === 'create_note')
  expect(tool?.['description']).toContain('Recorded: each call is a line of the audit log (event call).')
  await createNote()
  await until(
    () => JSON.stringify(auditLines(join(folder, 'audit.jsonl'))).includes('"create_note"'),
    'a line of the audit log',
  )
})

it('an unchanged list is identical to the byte', async () => {
  alone('each gateway counts rates, with a store folder')
  // What is left of a rate of which nothing is used is there for a time that begins with the list.
  await createNote()
  expect(JSON.stringify(await toolsOf(strict, '/notes'))).toBe(
    JSON.stringify(await toolsOf(strict, '/notes')),
  )
})

it('without features tools are described as their server lists them', async () => {
  expect(await toolsOf(free, '/notes')).toEqual([get, create, remove])
})
