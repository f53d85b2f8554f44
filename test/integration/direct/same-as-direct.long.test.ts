// Servers that bring many packages, or are reached in other ways.
import { calls } from '../../support/direct/exchanges.ts'
import { type DirectPeer, started } from '../../support/direct/peers.ts'
import { describeSameAsDirect } from '../../support/direct/same.ts'
import { foreignFile } from '../../support/foreign.ts'
import { startEverything } from '../../support/peers/servers.ts'

const everything = (transport: 'streamableHttp' | 'sse'): DirectPeer => ({
  name: `everything-${transport.toLowerCase()}`,
  questions: calls(['echo', { message: 'é' }], ['get-sum', { a: 1, b: 2 }], 'get-tiny-image'),
  start: async () => {
    const { url, close } = await startEverything(transport)
    const client =
      transport === 'sse'
        ? ({ revision: '2024-11-05', transport: 'sse', url } as const)
        : ({ revision: '2025-11-25', transport: 'http', url } as const)
    return { client, upstream: { url }, close }
  },
})

describeSameAsDirect([
  everything('streamableHttp'),
  everything('sse'),
  {
    name: 'playwright',
    questions: calls('browser_tabs', 'browser_console_messages'),
    start: () => started([process.execPath, foreignFile('@playwright/mcp/cli.js'), '--headless']),
  },
  {
    name: 'notion',
    questions: [],
    start: () =>
      started([process.execPath, foreignFile('@notionhq/notion-mcp-server/bin/cli.mjs')], '2025-11-25', {
        NOTION_TOKEN: 'ntn_canary5b3f0c9d1e77',
      }),
  },
])
