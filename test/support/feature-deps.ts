import type { Descriptor } from '../../src/core/descriptor.ts'
import { internalCall } from '../../src/gateway/internal-call.ts'
import { GatewayError } from '../../src/core/error.ts'
import type { Deps } from '../../src/features/feature.ts'
import { createMembership } from '../../src/records/members.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { asSent } from '../../src/protocol/projection.ts'
import { silentLog } from './silent-log.ts'

/** What a feature under test may use: an empty store, and no servers unless given. */
export function featureDeps(given: Partial<Deps> = {}): Deps {
  const store = given.store ?? new MemoryStore()
  return {
    log: silentLog,
    store,
    isStoreShared: true,
    isGuarded: false,
    entrances: () => ['stdio'],
    call: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no chain here.')),
    internal: internalCall,
    isPermitted: async () => true,
    membership: createMembership(() => store),
    prove: async ({ nonce }) => `proof of ${nonce}`,
    sign: async (claims) => `signed ${JSON.stringify(claims)}`,
    asSent,
    page: (path) => `http://127.0.0.1:8900${path}`,
    decidesOnPage: () => 'person',
    approvalCommand: (id) => `gatehouse approvals approve ${id}`,
    hasTools: true,
    isAsked: true,
    relay: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'There is no chain here.')),
    isOn: () => true,
    reserved: () => [],
    callerValues: () => [],
    closing: new AbortController().signal,
    servers: () => [],
    server: () => undefined,
    quota: () => undefined,
    remainingQuota: async () => undefined,
    largestRequest: 1_048_576,
    callBounds: () => ({ silence: 30_000, total: 600_000 }),
    auth: { session: { maxTtl: 8 * 3_600_000, idle: 1_800_000 } },
    entry: (): Descriptor | undefined => undefined,
    explained: () => undefined,
    undoRule: () => undefined,
    undoRuleAmong: () => undefined,
    tools: async () => [],
    records: () => ({
      names: [],
      of: () => {
        throw new TypeError('There are no records here.')
      },
      last: () => undefined,
      renew: () => undefined,
      onChange: () => undefined,
    }),
    description: () => {
      throw new TypeError('There are no portraits here.')
    },
    document: (description, _key, make) => make(description),
    exposed: (upstream, tool, isTogether) => (isTogether ? `${upstream}_${tool}` : tool),
    fetchJson: () => Promise.reject(new Error('There is no network here.')),
    listed: (): Descriptor | undefined => undefined,
    ...given,
  }
}
