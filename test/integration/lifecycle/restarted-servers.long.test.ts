// Servers of the official packages restart again and again under clients of both official SDKs, which list and call all the time.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from '@modelcontextprotocol/client'
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as Transport1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { expect, it, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { folder, gatewayTo } from '../../support/journey.ts'
import { publishedServer, startEverything } from '../../support/peers/servers.ts'
import { steadyPort } from '../../support/steady-port.ts'

const RESTARTS = 20
/** Every so many restarts, the process on stdio is killed as well: after five failures in a minute it is not started for a while. */
const KILL_INTERVAL = 6

/** What one client sees, round after round. */
interface Observer {
  readonly missing: string[]
  readonly failures: string[]
  /** How often each list was said to have changed. */
  readonly changes: Map<string, number>
  rounds: number
  calls: number
}

interface SdkClient {
  listTools(): Promise<{ readonly tools: readonly { readonly name: string }[] }>
  callTool(call: { name: string; arguments: Record<string, unknown> }): Promise<unknown>
}

function observing(): Observer {
  return { missing: [], failures: [], changes: new Map(), rounds: 0, calls: 0 }
}

/** Lists and calls until told to stop. */
async function work(client: SdkClient, observer: Observer, expected: readonly string[], signal: AbortSignal) {
  while (!signal.aborted) {
    try {
      const names = new Set((await client.listTools()).tools.map(({ name }) => name))
      observer.missing.push(...expected.filter((name) => !names.has(name)))
    } catch (error) {
      observer.failures.push(`list: ${String(error)}`)
    }
    const message = `round ${observer.rounds}`
    await client.callTool({ name: 'web_echo', arguments: { message } }).then(
      () => observer.calls++,
      (error: unknown) => void observer.failures.push(`call: ${String(error)}`),
    )
    await client.callTool({ name: 'graph_read_graph', arguments: {} }).then(
      () => observer.calls++,
      (error: unknown) => void observer.failures.push(`call: ${String(error)}`),
    )
    observer.rounds++
    await pause(50)
  }
}

it(`servers that restart ${RESTARTS} times keep their clients and their tools`, async () => {
  const port = await steadyPort()
  let web = await startEverything('streamableHttp', port)
  onTestFinished(() => web.close())
  const pids = join(folder(), 'pids')
  const memory = publishedServer('@modelcontextprotocol/server-memory')
  const gateway = await gatewayTo({
    web: { url: web.url, reconnect: '20s' },
    graph: {
      command: ['sh', '-c', `echo $$ >> ${pids}; exec "$0" "$@"`, ...memory],
      env: { MEMORY_FILE_PATH: join(folder(), 'graph.jsonl') },
      reconnect: '20s',
    },
  })
  const url = new URL(gateway.url)
  const first = observing()
  const second = observing()
  const noted = (observer: Observer, list: string) => (): void =>
    void observer.changes.set(list, (observer.changes.get(list) ?? 0) + 1)

  const client1 = new Client1({ name: 'first', version: '1.0.0' })
  client1.setNotificationHandler(ToolListChangedNotificationSchema, noted(first, 'tools'))
  client1.setNotificationHandler(PromptListChangedNotificationSchema, noted(first, 'prompts'))
  client1.setNotificationHandler(ResourceListChangedNotificationSchema, noted(first, 'resources'))
  await client1.connect(new Transport1(url))
  onTestFinished(() => client1.close())
  const client2 = new Client2({ name: 'second', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })
  await client2.connect(new Transport2(url))
  onTestFinished(() => client2.close())

  const expected = (await client1.listTools()).tools.map(({ name }) => name)
  expect(expected).toEqual(expect.arrayContaining(['web_echo', 'graph_read_graph']))
  const end = new AbortController()
  const working = [work(client1, first, expected, end.signal), work(client2, second, expected, end.signal)]
  for (let restart = 0; restart < RESTARTS; restart++) {
    const rounds = [first.rounds, second.rounds]
    await web.close()
    if (restart % KILL_INTERVAL === 0) {
      const lines = existsSync(pids) ? readFileSync(pids, 'utf8').trim().split('\n') : []
      const pid = Number(lines.at(-1))
      if (pid > 0) process.kill(pid, 'SIGKILL')
    }
    await pause(300)
    web = await startEverything('streamableHttp', port)
    await until(
      () => first.rounds > (rounds[0] ?? 0) + 2 && second.rounds > (rounds[1] ?? 0) + 2,
      'calls of both clients',
    )
  }
  end.abort()
  await Promise.all(working)
  for (const observer of [first, second]) {
    expect(observer.missing).toEqual([])
    // A call that was at the server when that ended may have run.
    expect(
      observer.failures.filter((text) => !/may have taken effect|before the response arrived/.test(text)),
    ).toEqual([])
    expect(observer.failures.length).toBeLessThanOrEqual(2 * RESTARTS)
    expect(observer.calls).toBeGreaterThan(RESTARTS * 2)
  }
  const kills = Math.ceil(RESTARTS / KILL_INTERVAL)
  // One notification of each list for each restart.
  for (const [, count] of first.changes) expect(count).toBeLessThanOrEqual(RESTARTS + kills)
}, 280_000)
