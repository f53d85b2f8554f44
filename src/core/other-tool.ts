import type { Call } from './call.ts'
import type { Descriptor } from './entry.ts'
import { Payload } from './payload.ts'

/** The call its caller would make of another tool; with which arguments is not known yet. */
export function callOf(call: Call, { upstream, name }: Pick<Descriptor, 'upstream' | 'name'>): Call {
  const method = 'tools/call'
  return { ...call, method, target: { upstream, method, name }, params: Payload.of({ name }) }
}
