// Results that are kept on request, and data that is imported, by unchanged clients of the official SDKs and over HTTP.
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { type Json, parse } from '../../support/server/json.ts'
import { twoFolders } from '../../support/two-folders.ts'

const NOTE = 'A small note, which no gateway would keep without a request.'
const references = { imports: { file: { tool: 'two_write_file', argument: 'content' } } }
const table = Array.from({ length: 300 }, (_none, index) => ({ id: index + 1, name: `row ${index + 1}` }))

let folders: ReturnType<typeof twoFolders>
let root = ''
let gateway: LocalGateway

beforeAll(async () => {
  folders = twoFolders()
  root = folders.root
  writeFileSync(join(root, 'one/note.txt'), NOTE)
  writeFileSync(join(root, 'one/table.json'), JSON.stringify(table))
  gateway = await localGateway({
    features: { references, confirm: { wait: 'off' } },
    upstreams: {
      ...folders.servers,
      all: {
        command: publishedServer(everything),
        features: { progress: { tasks: { answer_within: '1500ms' } } },
      },
      plain: {
        ...folders.servers.one,
        features: { references: 'off' },
      },
    },
  })
})
afterAll(async () => {
  await gateway.close()
  folders.remove()
})

const sum = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

function post(path: string, body: Json, { origin } = gateway): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fetch(`${origin}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
}

describe.each(bothEras)('with $title', ({ title, connect }) => {
  const name = title.replaceAll(/\W+/g, '-')

  it('a result is kept however small it is, and imported by another server that asks first', async () => {
    const client = await connect({ transport: 'http', url: gateway.url })
    try {
      const path = join(root, 'one/note.txt')
      const kept = await client.call('export_result_ref', {
        tool: 'one_read_text_file',
        arguments: { path },
        ref_id: `note-${name}`,
      })
      expect(kept.structured).toMatchObject({
        ref_id: `note-${name}`,
        origin_server: 'one',
        checksum: { algorithm: 'sha256', value: sum(NOTE) },
      })
      expect(kept.text).toContain(`[Kept by the gateway as ref://note-${name}`)
      const target = join(root, 'two', `${name}.txt`)
      const imported = await client.call('import_from_ref', {
        ref_id: `note-${name}`,
        origin_server: 'one',
        tool: 'two_write_file',
        argument: 'content',
        arguments: { path: target },
      })
      expect(imported).toMatchObject({ isError: false })
      expect(imported.structured).toMatchObject({ status: 'imported', checksum_verified: true })
      expect(imported.text).toContain('Successfully wrote')
      expect(readFileSync(target, 'utf8')).toBe(NOTE)
      expect(client.asked).toContain('elicitation/create')
    } finally {
      await client.close()
    }
  })

  it('at the address of one server its tools have their own names', async () => {
    const client = await connect({ transport: 'http', url: `${gateway.url}/one` })
    try {
      const path = join(root, 'one/note.txt')
      const kept = await client.call('export_result_ref', { tool: 'read_text_file', arguments: { path } })
      expect(kept.structured).toMatchObject({ origin_server: 'one', size_bytes: NOTE.length })
      const other = await client.call('import_from_ref', {
        ref_id: String((kept.structured as Json)['ref_id']),
        target_format: 'file',
      })
      expect(other).toMatchObject({ isError: true, text: expect.stringContaining('another server') })
    } finally {
      await client.close()
    }
  })

  it('says what it cannot keep or import', async () => {
    const client = await connect({ transport: 'http', url: gateway.url })
    const refused = async (tool: string, args: Json, text: string): Promise<void> => {
      const result = await client.call(tool, args)
      expect(result).toMatchObject({ isError: true, text: expect.stringContaining(text) })
    }
    try {
      const path = join(root, 'one/note.txt')
      await refused('export_result_ref', {}, 'tool or operation_id must be given')
      await refused('export_result_ref', { tool: 'read_reference' }, 'is a tool of the gateway')
      await refused('export_result_ref', { tool: 'one_read', arguments: 1 }, 'arguments')
      await refused('export_result_ref', { tool: 'plain_read_text_file', arguments: { path } }, 'not kept')
      await refused('export_result_ref', { operation_id: 'forged' }, 'Operation not found')
      await refused('export_result_ref', { tool: 'one_read_text_file', arguments: {} }, 'path')
      const to = { tool: 'two_write_file', argument: 'content' }
      await refused('import_from_ref', { ref_id: 'nothing', ...to }, 'no such reference')
      await refused('import_from_ref', { ref_id: 'nothing' }, 'tool or target_format must say')
      await refused('import_from_ref', { ref_id: 'nothing', target_format: 'pdf' }, 'Use file')
      await refused('import_from_ref', { ref_id: 'x', origin_server: 'far', ...to }, 'access_url must say')
      const far = { ref_id: 'x', origin_server: 'far', access_url: 'https://far.example/x?sig=hidden' }
      const outside = await client.call('import_from_ref', far)
      expect(outside.structured).toMatchObject({ status: 'failed', checksum_verified: false })
      expect(outside.text).toContain('features.references.allow_hosts')
      expect(JSON.stringify([outside, gateway.lines])).not.toContain('hidden')
    } finally {
      await client.close()
    }
  })

  it('the result of an operation is kept once it has ended', async () => {
    const client = await connect({ transport: 'http', url: gateway.url })
    try {
      const call = { tool: 'all_trigger-long-running-operation', arguments: { duration: 4, steps: 4 } }
      const running = await client.call('export_result_ref', call)
      const [, operation = ''] = /operation_id "([^"]+)"/.exec(running.text) ?? []
      const exported = { operation_id: operation, ref_id: `op-${name}` }
      const early = await client.call('export_result_ref', exported)
      expect(early).toMatchObject({ isError: true, text: expect.stringContaining('it is working') })
      expect(early.text).toContain('resume_operation')
      await client.call('resume_operation', { operation_id: operation })
      const kept = await client.call('export_result_ref', exported)
      expect(kept.structured).toMatchObject({ ref_id: `op-${name}`, origin_server: 'all' })
      expect(await client.read(`ref://op-${name}`)).toContain('Long running operation completed')
    } finally {
      await client.close()
    }
  })
})

describe('over HTTP', () => {
  it('an import that needs confirmation fails over HTTP, and nothing is written', async () => {
    const path = join(root, 'one/table.json')
    const kept = await post('/export', { tool: 'one_read_text_file', arguments: { path }, ref_id: 'table' })
    expect(kept.status).toBe(200)
    expect(await kept.json()).toMatchObject({
      ref_id: 'table',
      mime_type: 'application/json',
      checksum: { value: sum(readFileSync(path)) },
    })
    const target = join(root, 'two/rows.json')
    const rows = await post('/import', {
      ref_id: 'ref://table?rows=100-200&as=text',
      target_format: 'file',
      arguments: { path: target },
    })
    const answer = parse(await rows.text())
    // A question cannot be answered over plain HTTP, so the page of the approval says how.
    expect(answer).toMatchObject({ status: 'failed', error: { code: 'CONFIRMATION_REQUIRED' } })
    expect(existsSync(target)).toBe(false)
  })

  it('a result is kept, and imported where a format says so', async () => {
    const { servers } = folders
    const unasked = await localGateway({ features: { references, confirm: 'off' }, upstreams: servers })
    onTestFinished(() => unasked.close())
    const path = join(root, 'one/table.json')
    const exported = { tool: 'one_read_text_file', arguments: { path }, ref_id: 'table' }
    expect((await post('/export', exported, unasked)).status).toBe(200)
    const target = join(root, 'two/imported.json')
    const imported = {
      ref_id: 'ref://table?rows=100-200&as=text',
      target_format: 'file',
      arguments: { path: target },
    }
    const response = await post('/import', imported, unasked)
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ status: 'imported', checksum_verified: true })
    expect(JSON.parse(readFileSync(target, 'utf8'))).toEqual(table.slice(99, 200))
  })

  it('what is wrong with a request has its status', async () => {
    const response = await post('/export', { tool: 7 })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('tool must be a text')
    expect((await post('/import', {})).status).toBe(400)
  })
})
