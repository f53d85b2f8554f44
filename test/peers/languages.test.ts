import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { gatewayProgram } from '../support/gateway-process.ts'
import { configFile } from '../support/gateway-with.ts'
import { type RunningGateway, startGateway } from '../support/gateway.ts'
import { journey, type PeerServer, type Seen, serveOverHttp } from './journey.ts'
import { buildPeers, type Peer } from './toolchains.ts'

const peers = await buildPeers()
const names = Object.keys(peers)

/** Each client in its preferred era, and those that can be configured to use the handshake also in that era. */
const clients = [
  ...names.map((name) => ({ name, era: 'preferred', environment: {} })),
  ...['mcp new', 'fastmcp new', 'rust'].map((name) => ({
    name,
    era: 'handshake',
    environment: { PEER_MODE: 'legacy' },
  })),
  { name: 'go', era: 'handshake', environment: { PEER_REVISION: '2025-06-18' } },
]

const servers = new Map<string, PeerServer>()
let gateway: RunningGateway | undefined

beforeAll(async () => {
  for (const name of names) {
    const built = peers[name]
    if (built && 'peer' in built) servers.set(name, await serveOverHttp(built.peer.server))
  }
  const upstreams = Object.fromEntries(
    [...servers].map(([name, { url }]) => [slug(name), { url, trust: true }] as const),
  )
  if (servers.size > 0) gateway = await startGateway({ upstreams })
}, 180_000)

afterAll(async () => {
  await gateway?.close()
  for (const server of servers.values()) await server.close()
})

describe.each(clients)('the client of $name, era $era', ({ name, era, environment }) => {
  test.for(names)(
    'receives the same from the server of %s through the gateway as directly, over HTTP',
    async (other, { skip }) => {
      const { client } = peerOf(name, skip)
      peerOf(other, skip)
      const url = servers.get(other)?.url ?? ''
      // Rust's 2026-07-28 client accepts no older revision, and the Go server requires a handshake for a first request of
      // that client. They connect only through the gateway, where the client receives the same as from its own server.
      const isApart = name === 'rust' && era === 'preferred' && other === 'go'
      if (isApart)
        await expect(journey(client, [url], environment)).rejects.toThrow('NoCompatibleProtocolVersion')
      const reference = isApart ? (servers.get(name)?.url ?? '') : url
      const [through, direct] = await seenBy({ name, client }, environment, [
        [`${gateway?.url}/${slug(other)}`],
        [reference],
      ])
      expect(through.progress).toEqual([1, 2, 3])
      if (isApart) expect([through.tools, through.questions]).toEqual([direct.tools, direct.questions])
      else expect(through).toEqual(direct)
      expect(direct.tools).toEqual(['add', 'ask', 'count', 'echo', 'fail'])
    },
  )

  test('receives the same from a stdio server through the gateway as directly', async ({ skip }) => {
    const { client } = peerOf(name, skip)
    const other = names[(names.indexOf(name) + 1) % names.length] ?? name
    const server = [...peerOf(other, skip).server, 'stdio']
    const file = await configFile({ upstreams: { peer: { command: server } }, store: 'memory' })
    try {
      const command = [...gatewayProgram(), 'stdio', '--config', file.path]
      const [through, direct] = await seenBy({ name, client }, environment, [command, server])
      expect(through).toEqual(direct)
      expect(direct.progress).toEqual([1, 2, 3])
    } finally {
      await file.remove()
    }
  })
})

/**
 * What a client received through the gateway and directly, in two processes at the same time. Rust's SDK handles each
 * notification in its own task, so that concurrent ones lose their order.
 */
function seenBy(
  { name, client }: { readonly name: string; readonly client: Peer['client'] },
  environment: Readonly<Record<string, string>>,
  [through, direct]: readonly [through: readonly string[], direct: readonly string[]],
): Promise<readonly [through: Seen, direct: Seen]> {
  const ordered = (seen: Seen): Seen =>
    name === 'rust' ? { ...seen, progress: seen.progress.toSorted((one, other) => one - other) } : seen
  const seen = async (target: readonly string[]) => ordered(await journey(client, target, environment))
  return Promise.all([seen(through), seen(direct)])
}

function slug(name: string): string {
  return name.replaceAll(' ', '-')
}

/** The peer of this name; if its language is missing the test is skipped with the reason. */
function peerOf(name: string, skip: (reason: string) => never): Peer {
  const built = peers[name]
  return built && 'peer' in built ? built.peer : skip(built?.missing ?? `there is no peer ${name}`)
}
