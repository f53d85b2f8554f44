import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { runCommand } from '../../support/gateway.ts'
import { caller, corporate, localGateway, type LocalGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { scriptedServer, type ScriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'

const KEY = 'dev.gatehouse/contract'
const input = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] }
const get = { name: 'get_note', description: 'Reads a note.', inputSchema: input }
const add = { name: 'add_worklog', description: 'Adds a line.', inputSchema: input }
const log = { name: 'log_work', description: 'Logs work.', inputSchema: input }
const deprecated = 'use log_work, support ends 2099-03-31'

interface Notes extends ScriptedServer {
  tools: Json[]
}

async function notesServer(...tools: Json[]): Promise<Notes> {
  const state = { tools }
  const server = await scriptedServer(
    { tools: {}, prompts: {}, resources: {} },
    {
      'tools/list': () => ({ tools: state.tools }),
      'prompts/list': () => ({ prompts: [] }),
      'resources/list': () => ({ resources: [] }),
      'tools/call': ({ params }) => ({ content: [{ type: 'text', text: String(params['name']) }] }),
    },
  )
  return Object.assign(state, server)
}

const closing: (() => Promise<unknown>)[] = []
afterAll(async () => {
  for (const close of closing.toReversed()) await close().catch(() => undefined)
})

async function started(config: Json): Promise<LocalGateway> {
  const gateway = await localGateway({ ...corporate, limits: { rate: 'off' }, ...config })
  closing.push(() => gateway.close())
  return gateway
}

async function clientOf(
  gateway: LocalGateway,
  path = '/notes',
  revision = '2025-11-25',
): Promise<FakeClient> {
  const era = revision === '2026-07-28' ? revision : '2025-11-25'
  const client = await connect({ transport: 'http', url: gateway.url + path, revision: era, headers: caller })
  closing.push(() => client.close())
  return client
}

function changes(gateway: LocalGateway): readonly Json[] {
  return gateway.lines.filter(({ event }) => event === 'contract.changed')
}

/** The contract version of a server, as a client receives it when it connects. */
async function versionOf(gateway: LocalGateway): Promise<unknown> {
  const { initialized } = await clientOf(gateway)
  const meta = initialized['_meta']
  const found = isObject(meta) ? meta[KEY] : undefined
  return isObject(found) ? found['version'] : undefined
}

/** Changes a server's list, requests it, and waits until the change is recorded. */
async function change(gateway: LocalGateway, server: Notes, ...tools: Json[]): Promise<Json> {
  const before = changes(gateway).length
  const client = await clientOf(gateway)
  await client.request('tools/list')
  server.tools = tools
  await client.request('tools/list')
  await until(() => changes(gateway).length > before, 'a change')
  return changes(gateway).at(-1) ?? {}
}

describe('the contract of a server', () => {
  alone('each gateway has a cache of lists, and finds changes when it lists anew')
  let notes: Notes
  let gateway: LocalGateway
  beforeAll(async () => {
    notes = await notesServer(get)
    closing.push(() => notes.close())
    gateway = await started({ upstreams: { notes: notes.url } })
    await until(async () => (await versionOf(gateway)) !== undefined, 'a version')
  })

  it('C016 has its own version, beside that of the gateway', async () => {
    expect(await versionOf(gateway)).toBe('1.0.0')
    const health = (await (await fetch(`${gateway.origin}/health`)).json()) as Json
    expect(health['version']).toMatch(/^\d+\.\d+\.\d+/)
    const { result } = await (await clientOf(gateway)).request('resources/read', { uri: 'project://version' })
    expect(result).toMatchObject({
      contents: [{ text: health['version'], _meta: { [KEY]: { notes: '1.0.0' } } }],
    })
  })

  it('C019 C213 gets a new patch version if only descriptions changed', async () => {
    const found = await change(gateway, notes, { ...get, description: 'Reads a note, and says more of it.' })
    expect(found).toMatchObject({ upstream: 'notes', before: '1.0.0', after: '1.0.1' })
    expect(await versionOf(gateway)).toBe('1.0.1')
  })

  it('C018 C213 gets a new minor version if a tool was added', async () => {
    expect(await change(gateway, notes, get, add)).toMatchObject({ before: '1.0.1', after: '1.1.0' })
  })

  it('C017 C212 gets a new major version for a breaking change, and an unannounced removal is logged', async () => {
    expect(await change(gateway, notes, add)).toMatchObject({
      before: '1.1.0',
      after: '2.0.0',
      changes: ['tool get_note was removed'],
    })
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ event: 'contract.removed_early', level: 'warn', removed: ['tool get_note'] }),
    )
  })
})

it.each(['2025-11-25', '2026-07-28'])(
  'C217 a client of %s is notified of changed lists, even if the server sends no notification',
  async (revision) => {
    alone('each gateway has a cache of lists, and finds changes when it lists anew')
    const notes = await notesServer(get)
    closing.push(() => notes.close())
    const gateway = await started({ upstreams: { notes: notes.url }, features: { manifest: 'off' } })
    await until(async () => (await versionOf(gateway)) !== undefined, 'a version')
    const client = await clientOf(gateway, '/notes', revision)
    const { tools } = objectAt(client.initialized, 'capabilities')
    expect(tools).toMatchObject({ listChanged: true })
    const listening = revision === '2026-07-28' ? client.listen({ toolsListChanged: true }) : undefined
    await change(gateway, notes, get, add)
    const isIt = ({ method, params }: { method: string; params: Json }): boolean =>
      method === 'notifications/tools/list_changed' && JSON.stringify(params).includes('1.1.0')
    await (listening ? listening.until(isIt) : client.until(isIt))
    await listening?.close()
  },
)

describe('a deprecated tool', () => {
  let notes: Notes
  let gateway: LocalGateway
  beforeAll(async () => {
    notes = await notesServer(add, log)
    closing.push(() => notes.close())
    const tools = { add_worklog: { deprecated } }
    gateway = await started({ upstreams: { notes: { url: notes.url, tools } } })
  })

  it.each(['/notes', ''])(
    'C214 states its deprecation and end date in front of its description, at /mcp%s',
    async (path) => {
      const { result } = await (await clientOf(gateway, path)).request('tools/list')
      const [first, second] = Array.isArray(result?.['tools']) ? result['tools'] : []
      expect(first.description).toMatch(
        /^\[DEPRECATED\] use log_work, support ends 2099-03-31\. Adds a line\./,
      )
      expect(second.description).toMatch(/^Logs work\./)
    },
  )

  it('C216 names its replacement to callers after its server removed it, until its end date', async () => {
    notes.tools = [log]
    const client = await clientOf(gateway)
    await until(async () => {
      const { result } = await client.request('tools/call', { name: 'add_worklog', arguments: { id: '1' } })
      return result?.['isError'] === true
    }, 'an answer that it is gone')
    const { result } = await client.request('tools/call', { name: 'add_worklog', arguments: { id: '1' } })
    expect(result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('Call log_work instead.') }],
      _meta: { 'dev.gatehouse/error': { code: 'UNSUPPORTED_OPERATION', reason: 'deprecated' } },
    })
  })

  it('C216 runs as its successor if configured, with the rules of the successor', async () => {
    const tools = {
      'add-worklog': { deprecated, alias: true },
      old_log: { deprecated: 'use log_work, support ended 2020-01-01', alias: true },
    }
    const server = await notesServer(log)
    closing.push(() => server.close())
    const forwarding = await started({ upstreams: { notes: { url: server.url, tools } } })
    const client = await clientOf(forwarding)
    const { result } = await client.request('tools/call', { name: 'add_worklog', arguments: { id: '1' } })
    expect(result).toMatchObject({ content: [{ text: 'log_work' }] })
    const wrong = await client.request('tools/call', { name: 'add_worklog', arguments: {} })
    expect(JSON.stringify(wrong.result ?? wrong.error)).toContain('INVALID_INPUT')
    const over = await client.request('tools/call', { name: 'old_log', arguments: { id: '1' } })
    expect(over.error).toMatchObject({ code: -32602, message: expect.stringContaining('Unknown tool') })
  })
})

it('C215 C218 gatehouse changelog prints changes and deprecations from the store', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-changelog-'))
  closing.push(async () => rmSync(folder, { recursive: true, force: true }))
  const notes = await notesServer(get)
  closing.push(() => notes.close())
  const config = (tools: Json) => ({
    ...corporate,
    store: join(folder, 'store'),
    upstreams: { notes: { url: notes.url, tools } },
  })
  const run = async (tools: Json, version: string): Promise<void> => {
    const gateway = await localGateway(config(tools))
    await until(async () => (await versionOf(gateway)) === version, version)
    await gateway.close()
  }
  await run({}, '1.0.0')
  notes.tools = [get, add]
  await run({}, '1.1.0')
  await run({ add_worklog: { deprecated } }, '1.2.0')
  const file = join(folder, 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify(config({ add_worklog: { deprecated } })))
  const printed = await runCommand(['changelog', 'notes', '--config', file])
  expect([printed.code, printed.stderr]).toEqual([0, ''])
  expect(printed.stdout).toMatch(
    /^# Changelog\n[^]*## \[1\.2\.0\] - \d{4}-\d\d-\d\d\n\n### Deprecated\n\n- tool `add_worklog` is deprecated: use log_work, support ends 2099-03-31\.\n\n## \[1\.1\.0\][^]*### Added\n\n- tool `add_worklog` was added\.\n\n## \[1\.0\.0\][^]*First seen\./,
  )
  const view = await runCommand(['changelog', '--json', '--config', file])
  expect(JSON.parse(view.stdout)).toMatchObject({ servers: [{ server: 'notes', version: '1.2.0' }] })
  const unknown = await runCommand(['changelog', 'other', '--config', file])
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining('no server is named "other"')])
})
