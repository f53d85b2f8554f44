import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RunningGateway, startGateway } from '../gateway.ts'
import { isScattered } from '../scattered.ts'
import { type Addition, readAdditions } from './additions.ts'
import { type Answer, answersOf, differences } from './exchanges.ts'
import type { DirectPeer, Reached } from './peers.ts'

/**
 * Tests that each server says the same to its clients and, through one gateway with default settings, to those of that. With
 * `isWhole`, each row of the table has to explain something.
 */
export function describeSameAsDirect(peers: readonly DirectPeer[], { isWhole = false } = {}): void {
  const additions = readAdditions()
  const reached = new Map<string, Reached>()
  const compared: (readonly [direct: readonly Answer[], through: readonly Answer[]])[] = []
  let gateway: RunningGateway | undefined
  beforeAll(async () => {
    await Promise.all(peers.map(async ({ name, start }) => void reached.set(name, await start())))
    const upstreams = Object.fromEntries([...reached].map(([name, { upstream }]) => [name, upstream]))
    // A server that starts slowly is not answered for with what it said last.
    const listen = { legacy_sse: true, aggregate_timeout: '30s' }
    gateway = await startGateway({ store: 'memory', listen, upstreams })
  })
  afterAll(async () => {
    await gateway?.close()
    await Promise.all([...reached.values()].map(({ close }) => close()))
  })

  test.concurrent.for(peers)(
    '$name says the same as direct',
    async ({ name, questions, changes }, { expect: expects }) => {
      const server = reached.get(name)
      if (!server || !gateway) throw new Error('not started')
      const { command: _command, cwd: _cwd, env: _env, ...client } = server.client
      const transport = client.transport === 'stdio' ? 'http' : client.transport
      const url = `${gateway.origin}${transport === 'sse' ? '/sse' : '/mcp'}/${name}`
      const direct = await answersOf(server.client, questions, changes)
      const through = await answersOf({ ...client, transport, url }, questions, changes)
      compared.push([direct, through])
      expects(direct.length).toBeGreaterThan(questions.length)
      expects(differences(direct, through, additions)).toEqual([])
    },
  )

  test.runIf(isWhole)('each row of the table explains a difference', () => {
    const pairs = compared.flatMap(([direct, through]) =>
      direct.map((own, index) => [[own], through.slice(index, index + 1)] as const),
    )
    const explains = (row: Addition): boolean => {
      const others = additions.filter((each) => each !== row)
      return pairs.some(([direct, through]) => differences(direct, through, others).length > 0)
    }
    expect(compared).toHaveLength(peers.length)
    // What a gateway says by itself, the one says that noticed it.
    const isOfOne = ({ how }: Addition): boolean => how === 'sent' && isScattered()
    const idle = additions.filter((row) => !explains(row) && !isOfOne(row))
    expect(idle.map(({ path, how }) => `${path.join('.')} ${how}`)).toEqual([])
  })
}
