import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { type Json, textAt } from '../../support/server/json.ts'
import { type Revision, revisions, traitsOf } from '../../support/server/revisions.ts'

type Ask = readonly [method: string, params?: Json]

let folder = ''
let gateway: RunningGateway | undefined
const commands = new Map<string, readonly string[]>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'gatehouse-transparent-'))
  await mkdir(join(folder, 'files'))
  await writeFile(join(folder, 'files', 'a.txt'), 'text\n')
  commands.set('files', publishedServer('@modelcontextprotocol/server-filesystem', join(folder, 'files')))
  commands.set('memory', publishedServer('@modelcontextprotocol/server-memory'))
  for (const revision of revisions) {
    const { command, args } = fakeServerCommand({ revision })
    commands.set(`fake-${revision}`, [command, ...args])
  }
  const settings = [...commands].map(([name, command]) => {
    return [name, { command, ...(name === 'memory' && { env: memory('through') }) }] as const
  })
  gateway = await startGateway({
    store: 'memory',
    listen: { legacy_sse: 'on' },
    features: 'none',
    upstreams: Object.fromEntries(settings),
  })
}, 60_000)
afterAll(async () => {
  await gateway?.close()
  await rm(folder, { recursive: true, force: true })
})

/** Each has its own graph, filled by the same calls. */
function memory(who: string): Record<string, string> {
  return { MEMORY_FILE_PATH: join(folder, `${who}.jsonl`) }
}

const lists: readonly Ask[] = [
  ['tools/list'],
  ['prompts/list'],
  ['resources/list'],
  ['resources/templates/list'],
]

describe.each(revisions)('without features, a client of %s', (revision) => {
  const servers = [`fake-${revision}`, ...(traitsOf(revision).modern ? [] : ['files', 'memory'])]
  test.each(servers)('gets the exact bytes that %s sends', async (name) => {
    const direct = await directly(revision, name)
    const through = await throughGateway(revision, name)
    // In an event stream these are escaped: some readers end lines at them.
    const separators = traitsOf(revision).streamable && name.startsWith('fake') ? [call('separators')] : []
    const asks = [...lists, ...asksOf(name), ...separators]
    for (const ask of asks)
      expect([ask, await resultOf(through, ask)]).toEqual([ask, await resultOf(direct, ask)])
    expect(direct.violations).toEqual([])
    expect(through.violations).toEqual([])
    await Promise.all([direct.close(), through.close()])
  })
})

/** The text of a result as received, or the error. */
async function resultOf(client: FakeClient, [method, params]: Ask): Promise<unknown> {
  const { text, error } = await client.request(method, params)
  return error ?? textAt(text, ['result'])
}

function directly(revision: Revision, name: string): Promise<FakeClient> {
  const [command = '', ...args] = commands.get(name) ?? []
  return connect({ revision, transport: 'stdio', command, args, env: memory('directly') })
}

function throughGateway(revision: Revision, name: string): Promise<FakeClient> {
  const { streamable, modern } = traitsOf(revision)
  const transport = streamable ? 'http' : 'sse'
  const url = `${new URL(gateway?.url ?? '').origin}/${streamable ? 'mcp' : 'sse'}/${name}`
  return connect({ revision, transport, url, headers: modern ? { 'mcp-protocol-version': revision } : {} })
}

function call(name: string, args: Json = {}): Ask {
  return ['tools/call', { name, arguments: args }]
}

function asksOf(name: string): readonly Ask[] {
  const path = join(folder, 'files', 'a.txt')
  const entity = { name: 'Ada', entityType: 'person', observations: ['counts'] }
  if (name === 'files') {
    return [
      call('read_text_file', { path }),
      call('write_file', { path, content: 'more\n' }),
      call('list_directory', { path: join(folder, 'files') }),
      call('get_file_info', { path }),
      call('read_text_file', { path: join(folder, 'nowhere') }),
      call('read_text_file', {}),
    ]
  }
  if (name === 'memory') {
    return [
      call('create_entities', { entities: [entity] }),
      call('read_graph'),
      call('search_nodes', { query: 'Ada' }),
      call('delete_entities', { entityNames: ['Ada'] }),
      ['resources/read', { uri: 'nothing://here' }],
    ]
  }
  return [
    call('echo', { big: 2 ** 60, text: 'é 😀' }),
    ...['vendor', 'all_content', 'structured', 'structured_list', 'fail', 'error'].map((each) => call(each)),
    ['resources/read', { uri: 'fake://static' }],
    ['resources/read', { uri: 'fake://pixel' }],
    ['resources/read', { uri: 'fake://nowhere' }],
    ['prompts/get', { name: 'greet', arguments: { name: 'Ada' } }],
    ['prompts/get', { name: 'greet' }],
    [
      'completion/complete',
      { ref: { type: 'ref/prompt', name: 'greet' }, argument: { name: 'name', value: 'A' } },
    ],
    ['vendor/unknown', {}],
  ]
}
