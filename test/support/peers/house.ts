import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { foreignFile } from '../foreign.ts'
import { gatewayProgram } from '../gateway-process.ts'
import { type RunningGateway, startGateway } from '../gateway.ts'
import { isScattered } from '../scattered.ts'
import type { Json } from '../server/json.ts'
import type { Way } from './client.ts'
import { everything, publishedServer, startEverything } from './servers.ts'

/** A server published on npm, unchanged. */
export type Server =
  | 'everything'
  | 'everything-http'
  | 'everything-sse'
  | 'filesystem'
  | 'memory'
  | 'thinking'
  | 'context7'

/** A gateway in front of published servers. */
export interface House {
  /** A folder the file system server may use. */
  readonly folder: string
  /** How to reach one server, or all of them together. */
  way(transport: Way['transport'], server?: Server): Way
  close(): Promise<void>
}

/** Starts a gateway in front of some of the published servers; `more` are settings of every one of them. */
export async function openHouse(chosen: readonly Server[], more: Json = {}): Promise<House> {
  const home = await realpath(await mkdtemp(join(tmpdir(), 'house-')))
  const folder = join(home, 'files')
  await mkdir(folder)
  const closing: (() => Promise<void>)[] = [() => rm(home, { recursive: true, force: true, maxRetries: 5 })]
  const close = async (): Promise<void> => {
    for (const each of closing.toReversed()) await each()
  }
  try {
    const upstreams: Record<string, Json> = {}
    for (const server of chosen) upstreams[server] = { ...(await settingsOf(server, home, closing)), ...more }
    await writeConfig(home, 'all', upstreams)
    for (const server of chosen) await writeConfig(home, server, { [server]: upstreams[server] })
    // Where there are several gateways, what it says by itself reaches clients of all of them.
    const { everything: one } = upstreams
    const placed = isScattered() && one && { everything: { ...one, placement: 'one' } }
    const gateway = await startGateway({
      listen: { legacy_sse: true },
      upstreams: { ...upstreams, ...placed },
    })
    closing.push(gateway.close)
    return { folder, way: (transport, server) => wayTo(gateway, home, transport, server), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function settingsOf(server: Server, home: string, closing: (() => Promise<void>)[]): Promise<Json> {
  const official = (name: string, ...args: string[]): string[] =>
    publishedServer(`@modelcontextprotocol/server-${name}`, ...args)
  switch (server) {
    case 'everything':
      return { command: publishedServer(everything, 'stdio') }
    case 'everything-http':
    case 'everything-sse': {
      const { url, close } = await startEverything(server === 'everything-sse' ? 'sse' : 'streamableHttp')
      closing.push(close)
      // Annotations of a server at a URL are not believed by default, so nearly all of its tools are asked about.
      return { url, tools: { '*': { confirm: 'never' } } }
    }
    case 'filesystem':
      return { command: official('filesystem', join(home, 'files')) }
    case 'memory':
      return { command: official('memory'), env: { MEMORY_FILE_PATH: join(home, 'memory.jsonl') } }
    case 'thinking':
      return { command: official('sequential-thinking') }
    case 'context7':
      return {
        command: [
          process.execPath,
          foreignFile('@upstash/context7-mcp/dist/index.js'),
          '--transport',
          'stdio',
        ],
      }
  }
}

function writeConfig(home: string, name: string, upstreams: Json): Promise<void> {
  return writeFile(join(home, `${name}.config.yaml`), JSON.stringify({ upstreams }))
}

function wayTo({ origin }: RunningGateway, home: string, transport: Way['transport'], server?: Server): Way {
  if (transport === 'stdio') {
    const config = join(home, `${server ?? 'all'}.config.yaml`)
    return { transport, command: [...gatewayProgram(), 'stdio', '--config', config] }
  }
  const path = transport === 'sse' ? 'sse' : 'mcp'
  return { transport, url: server === undefined ? `${origin}/${path}` : `${origin}/${path}/${server}` }
}
