/** What log lines, the audit log and receipts say of data: which it is, and never the data. */
import type { UsedReference } from '../../core/used-reference.ts'
import type { Reference } from '../../records/references.ts'

type Logged = Readonly<Record<string, unknown>>

/** Data that was kept, or read. */
export function loggedReference({ id, server, name, type, size, sha256 }: Reference | UsedReference): Logged {
  return { id, server, name, type, size, sha256 }
}

/** Data in arguments: where it was, and the call that returned it. */
export function loggedUse(used: UsedReference): Logged {
  const { path, tool, requestId } = used
  return { path, ...loggedReference(used), tool, request_id: requestId }
}
