// A server of both eras behind the gateway: which of its eras is used for clients of each revision, with the default and
// other settings. The server uses the official SDK 2.x; its tools return the era and process in which they are called.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  fixtureCommand,
  type FixtureEra,
  type FixtureStyle,
  startFixture,
} from '../../fixtures/conformance-server/start.ts'
import { textOf } from '../../support/client/options.ts'
import { until } from '../../support/condition.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { childrenRunning, hasProcessTree } from '../../support/process-tree.ts'
import type { Json } from '../../support/server/json.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const older = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'] as const
const newest = '2026-07-28'

const answers = {
  'elicitation/create': () => ({ action: 'accept', content: { username: 'ada', email: 'ada@example.org' } }),
}

type Reach = 'http' | 'stdio'

/** What a server and its settings may be closed with: the test, or the tests of a file. */
type Closing = (close: () => Promise<void>) => void

/** The settings of the server, which runs until it is closed. */
async function serverOf(
  era: FixtureEra,
  reach: Reach,
  style: FixtureStyle = {},
  closing: Closing = onTestFinished,
): Promise<Json> {
  if (reach === 'stdio') {
    const { command, args, env } = fixtureCommand(era, style)
    return { command: [command, ...args], env }
  }
  const fixture = await startFixture(era, style)
  closing(() => fixture.close())
  return { url: fixture.url }
}

async function said(client: FakeClient, tool: string, args: Json = {}): Promise<string> {
  return textOf(await client.request('tools/call', { name: tool, arguments: args }))
}

async function tools(client: FakeClient): Promise<unknown[]> {
  const { result } = await client.request('tools/list')
  const listed = result?.['tools']
  return Array.isArray(listed) ? listed.map((tool: Json) => tool['name']) : []
}

const config = { listen: { legacy_sse: 'on' } }

/** A gateway in front of this server only, with these server settings. */
async function gatewayOf(server: Json, settings: Json = {}): Promise<GatewayProcess> {
  return gatewayProcessTo({ one: { ...server, ...settings } }, { config })
}

/** One gateway in front of servers that are reached in this way, each by its name. */
async function gatewayOfAll(reach: Reach, closing: Closing): Promise<GatewayProcess> {
  const [both, asking, alone] = await Promise.all([
    serverOf('both', reach, {}, closing),
    serverOf('both', reach, { ASKING: 'requests' }, closing),
    serverOf('modern', reach, {}, closing),
  ])
  const pinned = revisionSettings.map(([revision]) => [`pinned-${revision}`, { ...both, revision }] as const)
  const upstreams = {
    both,
    asking,
    alone,
    shared: { ...both, isolation: 'shared' },
    ...Object.fromEntries(pinned),
  }
  const gateway = await startGatewayProcess({ ...config, features: plainFeatures(undefined), upstreams })
  closing(() => gateway.close())
  return gateway
}

const revisionSettings = [
  ['auto', ['modern', 'modern']],
  ['2026-07-28', ['modern', 'modern']],
  ['2025-11-25', ['legacy', 'legacy']],
] as const

function olderClient(
  gateway: Pick<GatewayProcess, 'url'>,
  revision: (typeof older)[number],
  more = {},
): Promise<FakeClient> {
  const isSse = revision === '2024-11-05'
  const way = isSse ? ({ transport: 'sse', url: gateway.url.replace(/\/mcp(?=\/|$)/, '/sse') } as const) : {}
  return clientOf(gateway, { revision, ...way, ...more })
}

function running(gateway: GatewayProcess): number {
  return childrenRunning(gateway.pid, 'conformance-server').length
}

describe.each(['http', 'stdio'] as const)('a server over %s', (reach) => {
  const ends: (() => Promise<void>)[] = []
  let gateway: GatewayProcess
  beforeAll(async () => {
    gateway = await gatewayOfAll(reach, (close) => void ends.push(close))
  })
  afterAll(() => Promise.all(ends.toReversed().map((close) => close())))
  const at = (name: string) => ({ url: `${gateway.url}/${name}` })

  test.each(older)('serves a client of %s in the older era, lists included', async (revision) => {
    const client = await olderClient(at('both'), revision)
    expect(await said(client, 'test_era')).toBe('legacy')
    const names = await tools(client)
    expect(names).toContain('test_in_legacy')
    expect(names).not.toContain('test_in_modern')
  })

  test('serves clients of both eras side by side, each in its own era', async () => {
    const [old, recent] = [
      await olderClient(at('both'), '2025-11-25'),
      await clientOf(at('both'), { revision: newest }),
    ]
    for (let time = 0; time < 3; time++) {
      const eras = await Promise.all([said(old, 'test_era'), said(recent, 'test_era')])
      expect(eras).toEqual(['legacy', 'modern'])
    }
    expect(await tools(recent)).toContain('test_in_modern')
    expect(await tools(recent)).not.toContain('test_in_legacy')
    expect([...old.violations, ...recent.violations]).toEqual([])
  })

  test('sends an older client requests during a call, which 2026-07-28 does not have', async () => {
    const client = await olderClient(at('asking'), '2025-11-25', { answers })
    expect(await said(client, 'test_elicitation', { message: 'Who?' })).toContain('"username":"ada"')
    expect(client.asked.map(({ method }) => method)).toEqual(['elicitation/create'])
  })

  test('notifies clients of both eras of its changes', async () => {
    const [old, recent] = [
      await olderClient(at('both'), '2025-11-25'),
      await clientOf(at('both'), { revision: newest }),
    ]
    const uri = 'test://watched-resource'
    await old.subscribe(uri)
    const listening = recent.listen({ toolsListChanged: true, resourceSubscriptions: [uri] })
    await listening.acknowledged
    // A process notifies only its own clients; an HTTP server notifies all.
    for (const client of reach === 'http' ? [old] : [old, recent])
      for (const tool of ['test_trigger_tool_change', 'test_trigger_resource_update'])
        await said(client, tool)
    const told = ['notifications/tools/list_changed', 'notifications/resources/updated']
    for (const method of told) {
      await old.until((note) => note.method === method)
      await listening.until((note) => note.method === method)
    }
    await listening.close()
  })

  test.each(revisionSettings)('is used in one era if revision is %s', async (revision, eras) => {
    const pinned = at(`pinned-${revision}`)
    const [old, recent] = [
      await olderClient(pinned, '2025-11-25'),
      await clientOf(pinned, { revision: newest }),
    ]
    expect([await said(old, 'test_era'), await said(recent, 'test_era')]).toEqual(eras)
  })

  test('is used in the modern era if all clients share it, where each request carries the client capabilities', async () => {
    const client = await olderClient(at('shared'), '2025-11-25', { answers })
    expect(await said(client, 'test_era')).toBe('modern')
    expect(await said(client, 'test_elicitation', { message: 'Who?' })).toContain('"username":"ada"')
  })

  test('of 2026-07-28 alone serves older clients too, and is not probed for the other era again', async () => {
    for (let client = 0; client < 3; client++)
      expect(await said(await olderClient(at('alone'), '2025-11-25'), 'test_era')).toBe('modern')
    const isProbe = ({ event, upstream }: Json): boolean =>
      event === 'upstream.older_side' && upstream === 'alone'
    await gateway.logged(isProbe)
    expect(gateway.log().filter(isProbe)).toHaveLength(1)
  })
})

describe('a server whose older era has no sessions', () => {
  test('serves clients without elicitation in the older era, and the others in the modern era', async () => {
    const gateway = await gatewayOf(await serverOf('both', 'http', { OLDER: 'stateless' }))
    const [mute, askable] = [
      await olderClient(gateway, '2025-11-25'),
      await olderClient(gateway, '2025-11-25', { answers }),
    ]
    expect([await said(mute, 'test_era'), await said(askable, 'test_era')]).toEqual(['legacy', 'modern'])
    expect(await said(askable, 'test_elicitation', { message: 'Who?' })).toContain('"username":"ada"')
  })
})

describe.skipIf(!hasProcessTree)('a server of both eras that is started as a child process', () => {
  test('has a process of the older era only while an older client needs one', async () => {
    const gateway = await gatewayOf(await serverOf('both', 'stdio'), { idle: '1s' })
    const recent = await clientOf(gateway, { revision: newest })
    await said(recent, 'test_era')
    expect(running(gateway)).toBe(1)
    const [one, other] = [await olderClient(gateway, '2025-11-25'), await olderClient(gateway, '2025-06-18')]
    const processes = [
      await said(one, 'test_process'),
      await said(other, 'test_process'),
      await said(recent, 'test_process'),
    ]
    expect(new Set(processes).size).toBe(2)
    expect(processes[0]).toBe(processes[1])
    await Promise.all([one.close(), other.close(), recent.close()])
    await until(() => running(gateway) === 0, 'both processes to be left alone')
  })

  test('is shown by explain with both of its revisions', async () => {
    const server = await serverOf('both', 'stdio')
    const file = join(folder(), 'gateway.config.yaml')
    writeFileSync(file, JSON.stringify({ upstreams: { one: server } }))
    const { stdout } = await runCommand(['explain', 'one', '--config', file])
    expect(stdout).toContain('  revision     2026-07-28 (negotiated)\n')
    expect(stdout).toContain(
      '  older        2025-11-25 for older clients, on separate connections (revision: follow)\n',
    )
  })
})
