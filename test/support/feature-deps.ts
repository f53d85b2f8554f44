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
    call: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no chain here.')),
    server: () => undefined,
    entry: (): Entry | undefined => undefined,
    ...given,
  }
}
