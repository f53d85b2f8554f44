import type { Entry } from '../../src/core/entry.ts'
import { GatewayError } from '../../src/core/error.ts'
import type { Deps } from '../../src/features/feature.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { silentLog } from './silent-log.ts'

/** What a feature under test may use: an empty store, and no servers unless given. */
export function featureDeps(given: Partial<Deps> = {}): Deps {
  return {
    log: silentLog,
    store: new MemoryStore(),
    isGuarded: false,
    call: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no chain here.')),
    servers: () => [],
    server: () => undefined,
    auth: { session: { maxTtl: 8 * 3_600_000, idle: 1_800_000 } },
    entry: (): Entry | undefined => undefined,
    listed: (): Entry | undefined => undefined,
    ...given,
  }
}
