/** Events are sent no faster than their client reads, on all streams. */
import type { Call, ClientStream } from '../../core/call.ts'
import { untilAborted } from '../../core/time/waiting.ts'

/** Resolves once a client has read what was sent, is gone, or the signal is aborted. Never rejects. */
export async function untilRead(
  stream: Pick<Call, 'drained'> | Pick<ClientStream, 'drained'>,
  signal: AbortSignal,
): Promise<void> {
  const read = stream.drained?.()
  // A client that reads nothing must not hold up the end of its stream.
  if (read) await untilAborted(read, signal).catch(() => undefined)
}
