import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { clientOf, codeOf, folder, gatewayProcessTo } from '../../support/journey.ts'
import { skipWithout } from '../../support/needs.ts'
import { notes } from '../../support/notes.ts'
import { hasRedis, needsRedis, type RedisServer, startRedis } from '../../support/redis-server.ts'

let redis: RedisServer | undefined
beforeAll(async () => {
  if (hasRedis()) redis = await startRedis()
})
afterAll(async () => redis?.stop())

const stores = [
  { title: 'Redis', open: () => redis?.url ?? '' },
  { title: 'a folder', open: () => join(folder(), 'store') },
]
const add = { name: 'add', arguments: { text: 'a' } }

describe.each(stores)('gateways in processes of their own that share $title', ({ title, open }) => {
  beforeEach((context) => {
    if (title === 'Redis') skipWithout(needsRedis, context)
  })

  it('pause and resume writes together, and a killed one is still paused when it is back', async () => {
    const store = open()
    const server = await notes()
    const upstreams = { notes: server.upstream }
    const start = () => gatewayProcessTo(upstreams, { config: { store } })
    const [one, other] = await Promise.all([start(), start()])
    const config = join(folder(), 'gateway.config.yaml')
    writeFileSync(config, JSON.stringify({ store, upstreams }))
    const run = (command: string) => runCommand([command, '--config', config])
    const second = await clientOf(other, { revision: '2026-07-28' })
    expect(await run('pause')).toMatchObject({ code: 0 })
    expect(codeOf(await second.request('tools/call', add))).toBe('WRITES_PAUSED')
    one.signal('SIGKILL')
    await one.ended
    const first = await clientOf(await start())
    for (const client of [first, second])
      expect(codeOf(await client.request('tools/call', add))).toBe('WRITES_PAUSED')
    expect(await run('resume')).toMatchObject({
      code: 0,
      stdout: 'Writes are resumed: all gateways that can read the store accept them again.\n',
    })
    for (const client of [first, second])
      expect((await client.request('tools/call', add)).result?.['isError']).not.toBe(true)
    expect(server.calls).toEqual(['add a', 'add a'])
  })
})
