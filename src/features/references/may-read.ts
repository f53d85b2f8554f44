/** The right to read kept data: that to read resources of the server that it came from. */
import type { Call } from '../../core/call.ts'
import { type Reference, type References, unknownReference } from '../../records/references.ts'
import type { Services } from '../feature.ts'
import { UPLOADS } from '../../records/plain-name.ts'

/** Whether a caller may read resources of the server that data came from, now; false if that is not known. */
export async function mayRead(
  { server, id }: Pick<Reference, 'server' | 'id'>,
  call: Call,
  { invoker, servers }: Pick<Services, 'invoker' | 'servers'>,
): Promise<boolean> {
  if (server === UPLOADS) return true
  if (!servers.names().includes(server)) return false
  const target = { upstream: server, method: 'resources/read', name: `ref://${id}` }
  const { inputResponses: _responses, ...rest } = call
  return invoker.isPermitted({ ...rest, method: target.method, target, params: call.params })
}

interface Reading {
  readonly references: References
  mayRead(reference: Reference, call: Call): Promise<boolean>
  /** The place in the arguments, for the error. */
  readonly field?: string
}

/** A reference that a caller may read. @throws RESOURCE_NOT_FOUND otherwise, in the same words */
export async function readableReference(
  call: Call,
  id: string,
  { references, mayRead: isReadable, field }: Reading,
): Promise<Reference> {
  const reference = await references.find(call.principal, id)
  if (reference && (await isReadable(reference, call))) return reference
  throw unknownReference().with({ field })
}
