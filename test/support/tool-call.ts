import type { Call } from '../../src/core/call.ts'
import { Payload } from '../../src/core/payload.ts'
import { anonymous } from '../../src/core/principal.ts'

/** A call of the tool `t` of the server `one`, apart from what is given. */
export function toolCall(given: Partial<Call> = {}): Call {
  const controller = new AbortController()
  return {
    requestId: 'r1',
    method: 'tools/call',
    params: Payload.of({ name: 't', arguments: {} }),
    target: { method: 'tools/call', upstream: 'one', name: 't' },
    principal: anonymous,
    client: { era: 'modern', revision: '2026-07-28', capabilities: {} },
    meta: {},
    requestState: {},
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    logFields: new Map(),
    emit: () => undefined,
    ...given,
  }
}
