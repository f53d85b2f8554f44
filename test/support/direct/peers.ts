/** The servers that are compared with themselves behind a gateway, and what they are asked. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ConnectOptions } from '../client/options.ts'
import { startFakeServer } from '../fake-server.ts'
import { everything, publishedServer } from '../peers/servers.ts'
import type { Json } from '../server/json.ts'
import { remoteTransport, revisions } from '../server/revisions.ts'
import { calls, type Question, questionsOf } from './exchanges.ts'
import { hostOdd, oddCommand } from './host.ts'
import { odd } from './odd.ts'

/** A server to compare. */
export interface DirectPeer {
  readonly name: string
  /** How many kinds of notifications it sends outside of requests. */
  readonly changes?: number
  readonly questions: readonly Question[]
  /** How it is reached: by a client, which is also told the revision, and by the configuration of a gateway. */
  start(): Promise<Reached>
}

/** A server that can be reached. */
export interface Reached {
  readonly client: Omit<ConnectOptions, 'answers'>
  readonly upstream: Json
  close(): Promise<void>
}

const nothing = (): Promise<void> => Promise.resolve()

/** A server that each client starts. */
export function started(
  [command = '', ...args]: readonly string[],
  revision: ConnectOptions['revision'] = '2025-11-25',
  env?: Readonly<Record<string, string>>,
): Promise<Reached> {
  const own = { command, args, ...(env && { env }) }
  return Promise.resolve({ client: { revision, transport: 'stdio', ...own }, upstream: own, close: nothing })
}

const oddOverHttp: readonly DirectPeer[] = Object.entries(odd).map(([name, server]) => ({
  name: `odd-${name}`,
  changes: server.changes?.length ?? 0,
  questions: questionsOf(server.answers),
  start: async () => {
    const { url, close } = await hostOdd(name)
    // One of them has a tool that providers refuse: the other rows of the table are about the default, `keep`.
    const upstream = { url, ...(name === 'modern' && { schemas: 'repair' }) }
    return { client: { revision: server.revision, transport: 'http', url }, upstream, close }
  },
}))

const oddOverStdio: readonly DirectPeer[] = ['notes', 'modern'].flatMap((name) => {
  const server = odd[name]
  if (!server) return []
  const { command, args } = oddCommand(name)
  const { revision, answers, changes = [] } = server
  // Where there are several gateways, what it says by itself reaches listeners at all of them.
  const start = async (): Promise<Reached> => {
    const { upstream, ...reached } = await started([command, ...args], revision)
    return { ...reached, upstream: { ...upstream, isolation: 'shared', placement: 'one' } }
  }
  return [{ name: `piped-${name}`, changes: changes.length, questions: questionsOf(answers), start }]
})

const fake: readonly DirectPeer[] = revisions.map((revision) => ({
  name: `fake-${revision.slice(0, 4)}-${revision.slice(5, 7)}`,
  questions: [
    ...calls('echo', 'separators', 'all_content', 'vendor', 'structured', 'fail', 'error'),
    { method: 'resources/read', params: { uri: 'fake://static' } },
    { method: 'prompts/get', params: { name: 'greeting', arguments: { name: 'Ann' } } },
  ],
  start: async () => {
    const transport = remoteTransport(revision)
    const server = await startFakeServer({ revision, transport })
    return {
      client: { revision, transport, url: server.url },
      upstream: { url: server.url },
      close: server.close,
    }
  },
}))

const published: readonly DirectPeer[] = [
  {
    name: 'everything',
    questions: [
      ...calls(['echo', { message: 'é' }], ['get-sum', { a: 1, b: 2 }], 'get-tiny-image', [
        'get-structured-content',
        { location: 'Chicago' },
      ]),
      ...calls(
        ['get-annotated-message', { messageType: 'error', includeImage: true }],
        ['get-resource-links', { count: 2 }],
      ),
      { method: 'prompts/get', params: { name: 'simple-prompt' } },
    ],
    start: () => started(publishedServer(everything)),
  },
  {
    name: 'everything-2025-06',
    questions: calls(['echo', { message: 'é' }]),
    start: () => started(publishedServer(everything), '2025-06-18'),
  },
  {
    name: 'files',
    questions: [
      ...calls(
        ['read_text_file', { path: 'a.txt' }],
        ['read_text_file', { path: '/nowhere/b.txt' }],
        ['list_directory', { path: '.' }],
      ),
      ...calls(['get_file_info', { path: 'none' }], 'list_allowed_directories', [
        'search_files',
        { path: '.', pattern: '*.txt' },
      ]),
    ],
    start: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'gatehouse-direct-'))
      await writeFile(join(folder, 'a.txt'), 'token_count: 12\n')
      const reached = await started(publishedServer('@modelcontextprotocol/server-filesystem', folder))
      const cwd = { cwd: folder }
      return {
        client: { ...reached.client, ...cwd },
        upstream: { ...reached.upstream, ...cwd },
        close: () => rm(folder, { recursive: true, force: true }),
      }
    },
  },
  {
    name: 'memory',
    questions: [...calls('read_graph', ['search_nodes', { query: 'x' }], ['open_nodes', { names: [] }])],
    start: async () => {
      const folder = await mkdtemp(join(tmpdir(), 'gatehouse-direct-'))
      const env = { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }
      const reached = await started(publishedServer('@modelcontextprotocol/server-memory'), '2025-11-25', env)
      return { ...reached, close: () => rm(folder, { recursive: true, force: true }) }
    },
  },
  {
    name: 'thinking',
    questions: calls([
      'sequentialthinking',
      { thought: 'a', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
    ]),
    start: () => started(publishedServer('@modelcontextprotocol/server-sequential-thinking')),
  },
]

/** Servers of every revision, over both transports, odd ones and real ones. */
export const directPeers: readonly DirectPeer[] = [...oddOverHttp, ...oddOverStdio, ...fake, ...published]
