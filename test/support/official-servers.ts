import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { auditLines } from './audit-lines.ts'
import { until } from './condition.ts'
import { connect } from './fake-client.ts'
import { type Finished, type RunningGateway, runCommand, startGateway } from './gateway.ts'
import { publishedServer } from './peers/servers.ts'
import type { Json } from './server/json.ts'

/** A gateway before the official servers of files and of a graph, which its configuration only names. */
export interface OfficialServers {
  readonly gateway: RunningGateway
  /** The folder with its store and audit log, and the folder of the files. */
  readonly home: string
  readonly folder: string
  call(name: string, args: Json, meta?: Json): Promise<Json>
  /** The same for a tool that is undone by a snapshot: also waits until what it left has been read. */
  write(name: string, args: Json, meta?: Json): Promise<Json>
  /** Runs `gatehouse undo`. */
  undo(since: string, ...more: string[]): Promise<Finished>
  /** Waits until actions are in the history. */
  recorded(since: string, count: number): Promise<unknown>
  /** A file with some content, and the time before its first call. */
  file(name: string, content: string): { readonly path: string; readonly since: string }
  close(): Promise<void>
}

/** Opens one with a store and a folder of its own. */
export async function openOfficialServers(): Promise<OfficialServers> {
  const home = realpathSync(mkdtempSync(join(tmpdir(), 'official-')))
  const folder = join(home, 'files')
  mkdirSync(folder)
  const gateway = await startGateway({
    store: join(home, 'store'),
    meta_tools: 'listed',
    observe: { audit: { file: join(home, 'audit.jsonl') } },
    features: { confirm: { level: 'none' } },
    upstreams: {
      files: { command: publishedServer('@modelcontextprotocol/server-filesystem', folder) },
      graph: {
        command: publishedServer('@modelcontextprotocol/server-memory'),
        env: { MEMORY_FILE_PATH: join(home, 'graph.jsonl') },
      },
    },
  })
  const client = await connect({ transport: 'http', url: gateway.url, revision: '2025-11-25' })
  const undo = (since: string, ...more: string[]): Promise<Finished> =>
    runCommand(['undo', '--config', gateway.configFile, '--since', since, ...more])
  const call: OfficialServers['call'] = async (name, args, meta = {}) =>
    (await client.request('tools/call', { name, arguments: args, _meta: meta })).result ?? {}
  const readsSince = (time: string): number =>
    auditLines(join(home, 'audit.jsonl'))
      .filter(({ tool }) => tool === 'read_text_file' || tool === 'open_nodes')
      .filter((line) => String(line['time']) >= time).length
  return {
    gateway,
    home,
    folder,
    undo,
    call,
    write: async (name, args, meta) => {
      const began = new Date().toISOString()
      const result = await call(name, args, meta)
      await until(() => readsSince(began) >= 2, 'the reads before and after the call')
      return result
    },
    recorded: (since, count) =>
      until(async () => {
        const { stdout } = await undo(since, '--dry-run', '--json')
        return (JSON.parse(stdout) as { readonly deeds: readonly unknown[] }).deeds.length === count
      }, 'the actions to be recorded'),
    file: (name, content) => {
      const path = join(folder, name)
      writeFileSync(path, content)
      return { path, since: new Date().toISOString() }
    },
    close: async () => {
      await client.close().catch(() => undefined)
      await gateway.close()
      rmSync(home, { recursive: true, force: true })
    },
  }
}
