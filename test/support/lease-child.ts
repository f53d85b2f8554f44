// A process that contends for a lease with others, and appends to a record under it, until it is killed. The arguments are
// the folder of a store or the URL of Redis, the TTL, and the seed of the jumps of its clock, 0 for none.
import { setTimeout as pause } from 'node:timers/promises'
import { Secret } from '../../src/core/text/secret.ts'
import { enterWorld, world } from '../../src/core/world.ts'
import { Leases } from '../../src/durable/lease.ts'
import { createMembership } from '../../src/durable/members.ts'
import { LmdbStore } from '../../src/store/lmdb/store.ts'
import { RedisStore } from '../../src/store/redis/store.ts'
import { FOREVER } from '../../src/store/store.ts'
import { seeded } from '../simulate/random.ts'
import { appended, LEASED_RECORD, LEASE_NAME } from './lease-field.ts'
import { silentLog } from './silent-log.ts'

const [, , place = '', ttl = '', seed = '0'] = process.argv
const random = seeded(Number(seed))
let offset = 0
enterWorld({ ...world, now: () => Date.now() + offset })
const store = place.startsWith('redis:')
  ? new RedisStore(new Secret(place), silentLog)
  : new LmdbStore(place, silentLog, { clock: () => world.now() })
await store.opened()

/** Sets the clock to any time within an hour, again and again. */
async function jump(): Promise<void> {
  for (;;) {
    await pause(100 + random.next() * Number(ttl))
    offset = Math.round((random.next() - 0.5) * 7_200_000)
  }
}

const membership = createMembership(() => store)
const { ended } = new Leases(store, membership).whileHeld(LEASE_NAME, Number(ttl), {
  run: async (lease) => {
    while (!lease.lost.aborted) {
      const isWritten = await lease
        .update(LEASED_RECORD, (text) => ({
          result: true,
          write: { text: appended(text, lease.token, process.pid), ttl: FOREVER },
        }))
        .catch(() => false)
      if (isWritten) process.stdout.write(`${lease.token}\n`)
      await pause(2)
    }
  },
})
if (seed !== '0') void jump()
// Nothing else keeps a process running that waits for a lease.
setInterval(() => undefined, 60_000)
await ended
