import type { Call } from '../core/call.ts'
import { Payload } from '../core/payload.ts'
import { anonymous } from '../core/principal.ts'
import { newRequestId } from '../core/request-id.ts'
import { self } from '../core/self.ts'
import { latestLegacy } from './revisions.ts'

/** A call of the gateway itself, of a client that has nothing: `server/discover` of all servers, unless given. */
export function ownCall(given: Partial<Call> = {}): Call {
  const controller = new AbortController()
  return {
    requestId: newRequestId(),
    method: 'server/discover',
    params: Payload.of({}),
    target: { method: 'server/discover' },
    principal: anonymous,
    client: { era: 'legacy', revision: latestLegacy.name, capabilities: {}, info: self },
    meta: {},
    requestState: {},
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    logFields: new Map(),
    emit: () => undefined,
    ...given,
  }
}
