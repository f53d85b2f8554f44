import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { everythingOn, filesOfTheirOwner } from '../../support/everything-on.ts'
import { fiveServers, names } from '../../support/five-servers.ts'
import { hasMessageSchemas, MessageSchemas } from '../../support/message-schemas.ts'
import type { RunningGateway } from '../../support/run-gateway.ts'
import { isObject, type Json, objectAt } from '../../support/server/json.ts'
import { type Revision, revisions, traitsOf } from '../../support/server/revisions.ts'

const fakes = { fresh: '2026-07-28', middle: '2025-11-25', old: '2024-11-05' } as const

let folder = ''
let gateway: RunningGateway
let origin = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-messages-'))
  await writeFile(join(folder, 'a.txt'), 'xyzzy and more\n'.repeat(10))
  await writeFile(join(folder, 'big.txt'), 'a line of text\n'.repeat(5000))
  const upstreams = Object.entries(fakes).map(([name, revision]) => {
    const { command, args } = fakeServerCommand({ revision, pageSize: 7 })
    return [name, { command: [command, ...args], roots: 'client' }]
  })
  gateway = await fiveServers(folder, {
    ...everythingOn,
    upstreams: { files: filesOfTheirOwner, everything: { roots: 'client' }, ...Object.fromEntries(upstreams) },
  })
  origin = new URL(gateway.url).origin
}, 60_000)
afterAll(async () => {
  await gateway.close()
  await rm(folder, { recursive: true, force: true })
})

/** A message a client got, and the method it answers. */
interface Recorded {
  readonly message: Json
  readonly asked: string | undefined
}

describe.skipIf(!hasMessageSchemas).each(revisions)('a client of %s', (revision) => {
  const recorded: Recorded[] = []
  let schemas: MessageSchemas

  beforeAll(() => {
    schemas = new MessageSchemas(revision)
  })

  test.each(['', ...names.map((name) => `/${name}`), ...Object.keys(fakes).map((name) => `/${name}`)])(
    'gets only messages of its revision at /mcp%s',
    async (path) => {
      const start = recorded.length
      const client = await connected(revision, path, (message, asked) => void recorded.push({ message, asked }))
      await browse(client)
      if (path === '') await useOwn(client)
      if (path === '/files') await useFiles(client)
      if (path === '/everything') await useEverything(client)
      if (path.slice(1) in fakes) await useFake(client)
      await client.close()
      const found = recorded.slice(start).flatMap(({ message, asked }) =>
        schemas.faults(message, asked).map((fault) => `${asked ?? message['method']}: ${fault}`))
      expect(summary(found)).toEqual([])
      expect(client.violations).toEqual([])
    },
  )
})

function summary(found: string[]): string[] { return [...new Set(found)].slice(0, 60) }

function connected(revision: Revision, path: string, records: (message: Json, asked: string | undefined) => void) {
  const transport = traitsOf(revision).streamable ? 'http' : 'sse'
  const url = `${origin}/${transport === 'sse' ? 'sse' : 'mcp'}${path}`
  const headers = traitsOf(revision).modern ? { 'mcp-protocol-version': revision } : {}
  return connect({
    revision, transport, url, headers, records, logLevel: 'debug',
    answers: {
      'elicitation/create': () => ({ action: 'accept', content: { name: 'Ada', confirm: true } }),
      'sampling/createMessage': () => ({ role: 'assistant', model: 'm', content: { type: 'text', text: 'Paris' } }),
      'roots/list': () => ({ roots: [{ uri: 'file:///srv' }] }),
    },
  })
}

async function all(client: FakeClient, method: string, member: string): Promise<Json[]> {
  const found: Json[] = []
  let cursor: unknown
  do {
    const { result } = await client.request(method, cursor === undefined ? {} : { cursor })
    const items = result?.[member]
    if (Array.isArray(items)) found.push(...items.filter(isObject))
    cursor = result?.['nextCursor']
  } while (cursor !== undefined)
  return found
}

async function browse(client: FakeClient): Promise<void> {
  await all(client, 'tools/list', 'tools')
  const prompts = await all(client, 'prompts/list', 'prompts')
  const resources = await all(client, 'resources/list', 'resources')
  const templates = await all(client, 'resources/templates/list', 'resourceTemplates')
  for (const { name, arguments: args } of prompts) {
    const given = Array.isArray(args) ? args.map((each) => [String(each.name), 'Paris']) : []
    await client.request('prompts/get', { name, arguments: Object.fromEntries(given) })
    await client.request('completion/complete', { ref: { type: 'ref/prompt', name }, argument: { name: given[0]?.[0] ?? 'x', value: '' } })
  }
  for (const { uri } of resources) await client.request('resources/read', { uri })
  for (const { uriTemplate: uri } of templates) await client.request('completion/complete', { ref: { type: 'ref/resource', uri }, argument: { name: 'id', value: '1' } })
  await client.request('tools/call', { name: 'nothing_like_it', arguments: {} })
  await client.request('prompts/get', { name: 'nothing_like_it' })
  await client.request('resources/read', { uri: 'nothing://like/it' })
  await client.request('tools/list', { cursor: 'made up' })
  await client.request('vendor/unknown', {})
  await client.request('skills/list', {})
  await client.request('ai_help', {})
  if (!client.traits.modern) { await client.request('ping'); await client.request('logging/setLevel', { level: 'debug' }) }
}

async function useOwn(client: FakeClient): Promise<void> {
  const call = (name: string, args: Json = {}, meta?: Json) => client.request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) })
  await call('get_manifest'); await call('ai_help'); await call('ai_help', { section: 'nonsense' })
  await call('recommend_servers', { capability: 'wiki' })
  await call('check_permissions', { tool: 'files_read_text_file' })
  await call('negotiate_scopes', { requested_scopes: ['read:files'] })
  const begun = await call('begin_transaction', {})
  const id = objectAt(begun.result, 'structuredContent')['transaction_id']
  await call('files_write_file', { path: join(folder, `tx-${client.traits.revision}.txt`), content: 'x' }, { 'dev.gatehouse/transaction_id': id })
  await call('get_transaction', { transaction_id: id })
  await call('rollback_transaction', { transaction_id: id })
  await call('commit_transaction', { transaction_id: 'nothing' })
  for (const method of ['servers/recommend', 'permissions/check', 'permissions/negotiate', 'transactions/begin', 'get_manifest', 'manifest/get'])
    await client.request(method, { capability: 'wiki', tool: 'files_read_text_file' })
}

async function useFiles(client: FakeClient): Promise<void> {
  const call = (name: string, args: Json = {}, meta?: Json) => client.request('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) })
  const a = join(folder, 'a.txt')
  await call('read_text_file', { path: a }, { 'dev.gatehouse/receipt': true, 'dev.gatehouse/intent': 'look into a folder' })
  await call('read_text_file', { path: join(folder, 'big.txt') })
  await call('read_text_file', { path: join(folder, 'none.txt') })
  await call('read_text_file', { path: 5 })
  await call('read_media_file', { path: a })
  await call('directory_tree', { path: folder }); await call('directory_tree', { path: folder })
  const key = { 'dev.gatehouse/idempotency_key': `key-${client.traits.revision}-0123456789` }
  const b = join(folder, `${client.traits.revision}.txt`)
  await call('write_file', { path: b, content: 'x' }, key); await call('write_file', { path: b, content: 'x' }, key)
  await call('write_file', { path: b, content: 'y' }, key)
  await call('move_file', { source: b, destination: `${b}.moved` })
}

async function useEverything(client: FakeClient): Promise<void> {
  const call = (name: string, args: Json = {}) => client.request('tools/call', { name, arguments: args }, { onProgress: () => undefined, timeoutMs: 30_000 })
  for (const type of ['text', 'text', 'blob']) void type
  await call('echo', { message: 'hi' }); await call('get-annotated-message', { messageType: 'error', includeImage: true })
  await call('get-resource-links', { count: 2 }); await call('get-resource-reference', {}); await call('get-structured-content', { location: 'New York' })
  await call('get-tiny-image'); await call('get-sum', { a: 1, b: 2 })
  await call('trigger-long-running-operation', { duration: 0.2, steps: 2 })
  await call('trigger-elicitation-request'); await call('trigger-sampling-request', { prompt: 'x', maxTokens: 5 })
  await call('get-roots-list')
  await call('simulate-research-query', { topic: 'gates' })
}

async function useFake(client: FakeClient): Promise<void> {
  const call = (name: string, args: Json = {}) => client.request('tools/call', { name, arguments: args }, { onProgress: () => undefined, logLevel: 'debug' })
  for (const name of ['echo', 'all_content', 'vendor', 'structured', 'structured_list', 'headers', 'slow', 'fail', 'error',
    'ask_form', 'ask_url', 'ask_sampling', 'ask_roots', 'ask_two', 'ask_parallel', 'ask_rounds', 'ask_later'])
    await call(name)
  await call('all_content', { unknown: true })
  await call('log', { levels: ['debug', 'emergency'] }); await call('big', { bytes: 50_000 })
  await client.subscribe('fake://watched').catch(() => undefined)
  await call('change', { what: ['tools', 'prompts', 'resources', 'watched', 'vendor'] })
  await call('crash')
}
