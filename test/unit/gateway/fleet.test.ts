// Where a gateway tells the others that they reach it, with each form of a store in Redis.
import { expect, it, onTestFinished } from 'vitest'
import { createSeal } from '../../../src/core/seal.ts'
import { Secret } from '../../../src/core/text/secret.ts'
import { systemNetwork } from '../../../src/downstream/http/network.ts'
import { createMembership } from '../../../src/durable/members.ts'
import { joinFleet } from '../../../src/gateway/fleet.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { silentLog } from '../../support/silent-log.ts'

async function addressWith(url: string): Promise<string | undefined> {
  const store = new MemoryStore()
  const fleet = createMembership(() => store)
  const joined = await joinFleet({
    fleet,
    network: systemNetwork,
    settings: { store: { kind: 'redis', url: new Secret(url) }, fleet: {} },
    variables: { POD_IP: '10.0.0.7' },
    seal: createSeal(Date.now),
    onForwarded: () => undefined,
    onMoved: () => undefined,
    placements: { serve: () => undefined },
    log: silentLog,
  })
  onTestFinished(async () => {
    await joined?.close()
    await fleet.close()
  })
  return (await fleet.find(fleet.id))?.address
}

it.each([
  ['redis://127.0.0.1:6379', '127.0.0.1'],
  ['redis+sentinel://127.0.0.1:26379,localhost:26380/mymaster', '127.0.0.1'],
  ['redis+cluster://[::1]:7000,127.0.0.1:7001', '127.0.0.1'],
  ['rediss://redis:6379', '10.0.0.7'],
  ['redis+sentinel://one:26379,two:26379/mymaster', '10.0.0.7'],
  ['rediss+cluster://127.0.0.1:7000,two:7001', '10.0.0.7'],
])('with %s the others reach it at %s', async (url, host) => {
  expect(await addressWith(url)).toMatch(new RegExp(`^http://${host.replaceAll('.', '\\.')}:\\d+$`))
})
