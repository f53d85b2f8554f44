import { join } from 'node:path'
import { foreignFile } from './foreign.ts'
import { type RunningGateway, startGateway } from './gateway.ts'
import { everything, publishedServer } from './peers/servers.ts'
import { type Json, objectAt } from './server/json.ts'

/** A secret of the configuration, which may stand in no document. */
export const canary = 'ntn_canary5b3f0c9d1e77'

/** The names of the servers of `fiveServers`. */
export const names = ['everything', 'files', 'memory', 'playwright', 'notion'] as const

/** Starts a gateway in front of five servers from npm; `upstreams` adds servers, and settings to those. */
export function fiveServers(folder: string, config: Json = {}): Promise<RunningGateway> {
  const { upstreams: more, ...rest } = config
  const playwright = foreignFile('@playwright/mcp/cli.js')
  const notion = foreignFile('@notionhq/notion-mcp-server/bin/cli.mjs')
  const five: Json = {
    everything: upstream(publishedServer(everything)),
    files: upstream(publishedServer('@modelcontextprotocol/server-filesystem', folder)),
    memory: {
      ...upstream(publishedServer('@modelcontextprotocol/server-memory')),
      env: { MEMORY_FILE_PATH: join(folder, 'memory.jsonl') },
    },
    playwright: upstream([process.execPath, playwright, '--headless']),
    notion: { ...upstream([process.execPath, notion]), env: { NOTION_TOKEN: canary } },
  }
  const own = Object.entries(five).map(([name, values]) => [
    name,
    { ...Object(values), ...objectAt(more, name) },
  ])
  return startGateway({
    store: 'memory',
    ...rest,
    upstreams: { ...Object(more), ...Object.fromEntries(own) },
  })
}

function upstream([command = '', ...args]: readonly string[]): {
  readonly command: string
  readonly args: string[]
} {
  return { command, args }
}
