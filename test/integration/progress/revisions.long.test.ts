// A tool that takes over a second, between clients of all revisions and servers of all revisions: unchanged clients of the
// official SDKs, and the published example server, or a strict server of our own for what that does not speak.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fakeServerCommand } from '../../support/fake-server.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { textOf, type Way } from '../../support/peers/client.ts'
import {
  type LastingClient,
  type LastingKind,
  lastingSdk1,
  lastingSdk2,
} from '../../support/peers/lasting.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { type Revision, revisions } from '../../support/server/revisions.ts'

/** A long tool of a server of one revision: calls of it take 2.5 s, well over the second after which they have an id, and report five steps. */
interface LongTool {
  readonly revision: Revision
  readonly command: readonly string[]
  readonly name: string
  readonly args: Json
  readonly text: string
}

const servers: readonly LongTool[] = revisions.map((revision): LongTool => {
  if (revision === '2026-07-28') {
    const { command, args } = fakeServerCommand({ revision })
    return {
      revision,
      command: [command, ...args],
      name: 'slow',
      args: { ms: 2500, steps: 5 },
      text: 'took 5 steps',
    }
  }
  return {
    revision,
    command: publishedServer(everything, 'stdio'),
    name: 'trigger-long-running-operation',
    args: { duration: 2.5, steps: 5 },
    text: 'Long running operation completed. Duration: 2.5 seconds, Steps: 5.',
  }
})

const older = revisions.filter((revision) => revision !== '2026-07-28')
const overHttp: readonly LastingKind[] = [
  lastingSdk1('2024-11-05', 'sse'),
  ...older.map((revision) => lastingSdk1(revision, 'http')),
  ...revisions.map((revision) => lastingSdk2(revision, 'http')),
]
const pairs = [
  ...overHttp.flatMap((client) => servers.map((server) => ({ client, server }))),
  ...servers.map((server) => ({ client: stdioKind(server.revision), server })),
].map((pair) => ({ ...pair, title: pair.client.title, revision: pair.server.revision }))

function stdioKind(revision: Revision): LastingKind {
  return revision === '2026-07-28' ? lastingSdk2(revision, 'stdio') : lastingSdk1(revision, 'stdio')
}

const taskServer = fileURLToPath(new URL('../../fixtures/task-server/main.ts', import.meta.url))
const features = { progress: { tasks: { after: '500ms' } } }
const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
let gateway: RunningGateway

beforeAll(async () => {
  const upstreams = Object.fromEntries(
    servers.map(({ revision, command }) => [nameOf(revision), { command, revision }]),
  )
  const tasks = Object.fromEntries(
    ['core', 'extension'].map((mode) => [
      mode,
      { command: [process.execPath, taskServer], env: { MODE: mode } },
    ]),
  )
  gateway = await startGateway({
    listen: { legacy_sse: true },
    store: 'memory',
    features,
    upstreams: { ...upstreams, ...tasks },
  })
  for (const [name, upstream] of Object.entries(upstreams)) {
    const config = { store: 'memory', features, upstreams: { [name]: upstream } }
    writeFileSync(join(folder, `${name}.yaml`), JSON.stringify(config))
  }
})
afterAll(async () => {
  await gateway.close()
  rmSync(folder, { recursive: true })
})

function nameOf(revision: Revision): string {
  return `v${revision}`
}

function wayTo({ transport }: LastingKind, server: string): Way {
  if (transport === 'stdio')
    return {
      transport,
      command: [...gatewayProgram(), 'stdio', '--config', join(folder, `${server}.yaml`)],
    }
  return { transport, url: `${gateway.origin}/${transport === 'sse' ? 'sse' : 'mcp'}/${server}` }
}

it.each(servers)('the gateway speaks $revision with the server of that revision', async ({ revision }) => {
  const ready = await gateway.logged(
    ({ event, upstream }) => event === 'upstream.ready' && upstream === nameOf(revision),
  )
  expect(ready['revision']).toBe(revision)
})

describe.concurrent.each(pairs)('$title in front of a server of $revision', ({ client: kind, server }) => {
  let client: LastingClient
  let calls: ReturnType<typeof begin>
  beforeAll(async () => {
    client = await kind.connect(wayTo(kind, nameOf(server.revision)))
    calls = begin(client, server)
  })
  afterAll(() => client.close())

  it('gets the result of a call that takes over a second, with the id of its operation', async () => {
    const result = await calls.plain
    expect(textIn(result)).toBe(server.text)
    expect(operationOf(result)).toMatch(/^[\w-]{20,200}$/)
  })

  it('gets its progress, to the last step, with the data that the gateway adds', async () => {
    const { result, heard } = await calls.noted
    expect(textIn(result)).toBe(server.text)
    const values = client.received.map(({ progress }) => Number(progress))
    expect(values).toEqual([...new Set(values)].toSorted((one, other) => one - other))
    expect(values.length).toBeGreaterThanOrEqual(2)
    expect(values.at(-1)).toBe(5)
    // Over these transports the client drops what it reads together with the response.
    expect(heard).toEqual(kind.transport === 'http' ? values : values.slice(0, heard.length))
    expect(heard.length).toBeGreaterThanOrEqual(values.length - 1)
    const operation_id = operationOf(result)
    expect(operation_id).toBeDefined()
    for (const { progress, total, _meta } of client.received) {
      const known = objectAt({ _meta }, '_meta')['dev.gatehouse/progress']
      expect(known).toMatchObject({ type: 'progress', operation_id, progress: Number(progress) / 5 })
      expect(total).toBe(5)
    }
    const last = objectAt(objectAt(client.received.at(-1), '_meta'), 'dev.gatehouse/progress')
    if (values.length > 2) expect(last['estimated_remaining_seconds']).toBe(0)
  })

  it('gets the call as a task if its revision has tasks, and the same result', async () => {
    expect(client.follow !== undefined).toBe(hasTasks(kind))
    const followed = await calls.task
    if (!followed) return
    const { states, result, taskId } = followed
    expect(states[0]).toBe('working')
    expect(states.at(-1)).toBe('completed')
    expect(new Set(states)).toEqual(new Set(['working', 'completed']))
    expect(textIn(result)).toBe(server.text)
    expect(operationOf(result)).toMatch(/^[\w-]{20,200}$/)
    expect(taskId).toMatch(/^[\w-]{20,200}$/)
  })
})

/** Makes all calls of one client at the same time. */
function begin(client: LastingClient, { name, args }: Pick<LongTool, 'name' | 'args'>) {
  const heard: number[] = []
  const noted = client.call(name, args, ({ progress }) => void heard.push(Number(progress)))
  const calls = {
    plain: client.call(name, args),
    noted: noted.then((result) => ({ result, heard })),
    task: client.follow?.(name, args) ?? Promise.resolve(undefined),
  }
  // The tests report what fails.
  for (const call of Object.values(calls)) call.catch(() => undefined)
  return calls
}

/** A tool that its server runs as a task. */
interface TaskTool {
  readonly title: string
  readonly upstream: string
  readonly name: string
  readonly args: Json
  readonly text: string
}

const taskTools: readonly TaskTool[] = [
  {
    title: 'of 2025-11-25 that takes tasks alone',
    upstream: nameOf('2025-11-25'),
    name: 'simulate-research-query',
    args: { topic: 'gates' },
    text: '# Research Report: gates',
  },
  ...(['core', 'extension'] as const).map((mode) => ({
    title: mode === 'core' ? 'of 2025-11-25 with tasks' : 'of 2026-07-28 with the extension for tasks',
    upstream: mode,
    name: 'slow_compute',
    args: { seconds: 2.5, label: 'a sum' },
    text: 'computed a sum',
  })),
]
describe.concurrent.each(overHttp)('$title in front of servers with tasks', (kind) => {
  const opened: { client: LastingClient; calls: ReturnType<typeof begin> }[] = []
  beforeAll(async () => {
    for (const tool of taskTools) {
      const client = await kind.connect(wayTo(kind, tool.upstream))
      opened.push({ client, calls: begin(client, tool) })
    }
  })
  afterAll(() => Promise.all(opened.map(({ client }) => client.close())))

  it.each(taskTools.map((tool, index) => ({ ...tool, index })))(
    'gets the result of a tool $title from a plain call, and as a task if its revision has tasks',
    async ({ index, text }) => {
      const calls = opened[index]?.calls
      if (!calls) throw new TypeError('no calls were begun')
      for (const result of [await calls.plain, (await calls.noted).result]) {
        expect(textIn(result)).toContain(text)
        expect(operationOf(result)).toMatch(/^[\w-]{20,200}$/)
        expect(JSON.stringify(result)).not.toContain('related-task')
      }
      const followed = await calls.task
      expect(followed !== undefined).toBe(hasTasks(kind))
      if (!followed) return
      expect(followed.states.at(-1)).toBe('completed')
      expect(textIn(followed.result)).toContain(text)
      // The ids of both servers are UUIDs or 32 hexadecimal digits: this one is of the gateway.
      expect(followed.taskId).toMatch(/^[\w-]{60,200}$/)
    },
  )
})

it('the strict server of 2026-07-28 noticed no breach of the protocol', async () => {
  const client = await lastingSdk2('2026-07-28', 'http').connect({
    transport: 'http',
    url: `${gateway.origin}/mcp/${nameOf('2026-07-28')}`,
  })
  expect(textIn(await client.call('violations', {}))).toBe('[]')
  await client.close()
})

/** The SDK 2.x follows no tasks of 2025-11-25. */
function hasTasks({ revision, title }: LastingKind): boolean {
  return revision === '2026-07-28' || (revision === '2025-11-25' && title.startsWith('the SDK 1.x'))
}

function textIn({ content }: Json): string {
  return Array.isArray(content) ? textOf(content) : ''
}

function operationOf(result: Json): unknown {
  return objectAt(result, '_meta')['dev.gatehouse/operation_id']
}
