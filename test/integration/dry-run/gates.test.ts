// What each gate decides about a dry run, and that none of them keeps anything.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema, CreateTaskResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { type RunningGateway, runCommand, startGateway } from '../../support/gateway.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { type Json, isObject, objectAt } from '../../support/server/json.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-dry-run-'))
const data = join(root, 'data')
const audit = join(root, 'audit.jsonl')
mkdirSync(data)
let gateway: RunningGateway
let client: Client

beforeAll(async () => {
  gateway = await startGateway({
    store: join(root, 'store'),
    observe: { audit, calls: false },
    limits: { rate: '1000/minute' },
    features: {
      cost: { budget: { units: 5, per: 'day', label: 'credits' } },
      mask: { rules: [{ pattern: 'xyzzy', replace: '[masked]' }] },
      references: 'on',
    },
    upstreams: {
      files: {
        command: publishedServer('@modelcontextprotocol/server-filesystem', data),
        deny: { read_text_file: { path: '**/secret*' } },
        tools: {
          write_file: { cost: '3 credits', confirm: 'Write {path}?' },
          edit_file: { cost: '6 credits' },
          move_file: { approval: 'out_of_band' },
        },
      },
      memory: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(data, 'memory.jsonl') },
        tools: { create_entities: { undo: 'delete_entities(entityNames=$.args.entities[*].name)' } },
      },
      everything: { command: publishedServer(everything) },
    },
  })
  client = new Client({ name: 'trier', version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StreamableHTTPClientTransport(new URL(gateway.url)))
  await call('memory_create_entities', entities, { 'dev.gatehouse/idempotency_key': 'used' })
  await call('begin_transaction', { transaction_id: 'open' })
  // The history of an action is written behind its response.
  await until(async () => (await kept()).some((line) => line.includes('"deed/')), 'the history')
})
afterAll(async () => {
  await client.close()
  await gateway.close()
  rmSync(root, { recursive: true, force: true })
})

const entities = { entities: [{ name: 'a', entityType: 'letter', observations: [] }] }
const others = { entities: [{ name: 'b', entityType: 'letter', observations: [] }] }
const file = { path: join(data, 'a.txt'), content: 'xyzzy' }

interface Answer {
  readonly report: Json | undefined
  /** The code of the error, or the JSON-RPC code. */
  readonly code: unknown
  readonly meta: Json
  readonly text: string
}

async function call(name: string, given: Json, meta: Json = {}): Promise<Answer> {
  const params = { name, arguments: given, _meta: meta }
  const result = await client
    .request({ method: 'tools/call', params }, CallToolResultSchema)
    .catch((error: unknown) => ({ _meta: { 'dev.gatehouse/error': error }, content: [] }))
  const members = objectAt({ ...result }, '_meta')
  const report = members['dev.gatehouse/dry_run']
  const error = members['dev.gatehouse/error']
  const [block] = result.content
  return {
    report: isObject(report) ? report : undefined,
    code: isObject(error) ? error['code'] : undefined,
    meta: members,
    text: block?.type === 'text' ? block.text : '',
  }
}

function tried(name: string, given: Json, values: Json = {}): Promise<Answer> {
  const meta = Object.entries({ dry_run: true, ...values }).map(([key, value]) => [
    `dev.gatehouse/${key}`,
    value,
  ])
  return call(name, given, Object.fromEntries(meta))
}

// What is written whatever is called: heartbeats, turns, the code of the gateway, what servers offer, and the windows of rates, since a dry run counts.
const unrelated =
  /^\{"(?:format|key":"(?:alive:|member|approval:code|contract|event-reachable|last-lists|rate|turn:|audit|key:|page-code:))/

/** Everything that the store keeps of calls. */
async function kept(): Promise<readonly string[]> {
  const { stdout } = await runCommand(['store', 'export', '--config', gateway.configFile])
  return stdout.split('\n').filter((line) => !unrelated.test(line))
}

function stored(): readonly string[] {
  return readdirSync(data).map((name) => `${name} ${readFileSync(join(data, name), 'utf8')}`)
}

interface Case {
  readonly title: string
  readonly tool: string
  readonly arguments: Json
  readonly values?: Json
  readonly report?: Json
  readonly code?: unknown
}

const cases: readonly Case[] = [
  {
    title: 'scopes, confirmation, cost and masked arguments',
    tool: 'files_write_file',
    arguments: file,
    report: {
      would_call: { server: 'files', tool: 'write_file' },
      would_run: true,
      arguments: { path: file.path, content: '[masked]' },
      scopes: ['delete:files'],
      confirmation: { required: true, message: `Write ${file.path}?`, decided_by: 'user', asked_by: 'page' },
      cost: { units: 3, unit_label: 'credits', remaining: 5 },
      idempotency: { outcome: 'no_key' },
    },
  },
  {
    title: 'the approval of other people',
    tool: 'files_move_file',
    arguments: { source: file.path, destination: join(data, 'b.txt') },
    report: { confirmation: { required: true, decided_by: 'others', needed: 1 } },
  },
  {
    title: 'a rule of undo',
    tool: 'memory_create_entities',
    arguments: others,
    report: {
      undo: { how: 'exact', rule: 'delete_entities(entityNames=$.args.entities[*].name)' },
      confirmation: { required: false },
    },
  },
  {
    title: 'a read, which needs no undo',
    tool: 'memory_read_graph',
    arguments: {},
    report: { would_run: true, undo: { how: 'nothing' } },
  },
  {
    title: 'a key that is not used yet',
    tool: 'memory_create_entities',
    arguments: others,
    values: { idempotency_key: 'new' },
    report: { would_run: true, idempotency: { outcome: 'would_run', key: 'new' } },
  },
  {
    title: 'a key whose call has ended',
    tool: 'memory_create_entities',
    arguments: entities,
    values: { idempotency_key: 'used' },
    report: { would_run: false, idempotency: { outcome: 'would_replay', key: 'used' } },
  },
  {
    title: 'a key of another call',
    tool: 'memory_create_entities',
    arguments: others,
    values: { idempotency_key: 'used' },
    code: 'IDEMPOTENCY_CONFLICT',
  },
  {
    title: 'a step of a transaction',
    tool: 'memory_create_entities',
    arguments: others,
    values: { transaction_id: 'open' },
    report: { transaction: { transaction_id: 'open', step_id: 'step-1', kind: 'write' } },
  },
  {
    title: 'a step that could not be undone',
    tool: 'memory_add_observations',
    arguments: { observations: [] },
    values: { transaction_id: 'open' },
    code: 'COMPENSATION_UNAVAILABLE',
  },
  {
    title: 'a step of an unknown transaction',
    tool: 'memory_create_entities',
    arguments: others,
    values: { transaction_id: 'none' },
    code: 'RESOURCE_NOT_FOUND',
  },
  {
    title: 'a cost above the budget',
    tool: 'files_edit_file',
    arguments: { path: file.path, edits: [] },
    code: 429,
  },
  {
    title: 'a denied argument',
    tool: 'files_read_text_file',
    arguments: { path: join(data, 'secret.txt') },
    code: 'PERMISSION_DENIED',
  },
  { title: 'a missing argument', tool: 'files_write_file', arguments: { path: 'a' }, code: 'INVALID_INPUT' },
  {
    title: 'a value among the arguments',
    tool: 'files_write_file',
    arguments: { ...file, dry_run: true },
    code: 'INVALID_INPUT',
  },
  { title: 'an unknown tool', tool: 'files_nothing', arguments: {}, code: -32602 },
  {
    title: 'an unknown reference',
    tool: 'files_write_file',
    arguments: { path: file.path, content: 'ref://res_00000000000000000000000000' },
    code: 'RESOURCE_NOT_FOUND',
  },
  {
    title: 'an unknown session',
    tool: 'memory_read_graph',
    arguments: {},
    values: { session_state: 'forged' },
    code: 'INVALID_INPUT',
  },
  {
    title: 'an intent, a receipt and pages',
    tool: 'memory_read_graph',
    arguments: {},
    values: { intent: 'see what there is', receipt: true, stream: true, session_state: true },
    report: { would_call: { server: 'memory', tool: 'read_graph' } },
  },
  {
    title: 'a tool of the gateway',
    tool: 'begin_transaction',
    arguments: { transaction_id: 'other' },
    report: { would_call: { tool: 'begin_transaction' }, would_run: true },
  },
]

describe('a dry run', () => {
  it('keeps nothing and calls no server, whatever the gates decide', async () => {
    const [before, files] = [await kept(), stored()]
    expect(before.some((line) => line.includes('"call:'))).toBe(true)
    for (const { title, tool, arguments: given, values, report, code } of cases) {
      const answer = await tried(tool, given, values)
      expect.soft(answer.code, title).toBe(code)
      if (report) expect.soft(answer.report, title).toMatchObject(report)
      else expect.soft(answer.report, title).toBeUndefined()
    }
    expect(await kept()).toEqual(before)
    expect(stored()).toEqual(files)
    // The same call without the value changes both.
    await call('memory_create_entities', others, { 'dev.gatehouse/idempotency_key': 'new' })
    expect(await kept()).not.toEqual(before)
    expect(stored()).not.toEqual(files)
  })

  it('shows the data of a reference, and makes no file of it', async () => {
    const source = join(root, 'note.txt')
    writeFileSync(source, 'kept data')
    const added = await runCommand(['refs', 'put', source, '--config', gateway.configFile])
    const [reference = ''] = /ref:\/\/\w+/.exec(added.stdout) ?? []
    const inline = await tried('files_write_file', { path: file.path, content: reference })
    expect(inline.report).toMatchObject({ arguments: { content: 'kept data' } })
    const asFile = await tried('files_read_text_file', { path: reference })
    expect(asFile.report).toMatchObject({ arguments: { path: '<file of note.txt>' } })
  })

  it('is refused if its value is no boolean', async () => {
    expect(await tried('files_write_file', file, { dry_run: 'yes' })).toMatchObject({ code: -32602 })
    expect(readdirSync(data)).not.toContain('a.txt')
  })

  it('can be requested by a header', async () => {
    const headers = { 'X-MCP-Dry-Run': 'true' }
    const other = new Client({ name: 'header', version: '1.0.0' }, { capabilities: {} })
    await other.connect(new StreamableHTTPClientTransport(new URL(gateway.url), { requestInit: { headers } }))
    const result = await other.callTool({ name: 'everything_echo', arguments: { message: 'hello' } })
    expect(result).toMatchObject({ structuredContent: { dry_run: true } })
    await other.close()
  })

  it('is the result of a task for a client that requests one', async () => {
    const params = {
      name: 'everything_echo',
      arguments: { message: 'hello' },
      task: { ttl: 60_000 },
      _meta: { 'dev.gatehouse/dry_run': true },
    }
    const { task } = await client.request({ method: 'tools/call', params }, CreateTaskResultSchema)
    const request = { method: 'tasks/result', params: { taskId: task.taskId } }
    const result = await client.request(request, CallToolResultSchema)
    expect(result.structuredContent).toMatchObject({ dry_run: true, would_call: { tool: 'echo' } })
  })

  it('has a receipt that says so', async () => {
    const { meta } = await tried('everything_echo', { message: 'hello' }, { receipt: true })
    const [, claims = ''] = String(meta['dev.gatehouse/receipt']).split('.')
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
      dry_run: true,
      tool: 'echo',
    })
  })

  it('is marked in the log, the audit log and the metrics', async () => {
    await tried('everything_echo', { message: 'marked' })
    await gateway.logged((line) => line['dry_run'] === 'caller' && line['outcome'] === 'dry_run')
    await until(
      () => auditLines(audit).find((line) => line['dry_run'] === 'caller'),
      'the line in the audit log',
    )
    const page = await (await fetch(`${gateway.origin}/metrics`)).text()
    expect(page).toMatch(/tool="echo".*outcome="dry_run"|outcome="dry_run".*tool="echo"/)
  })
})
