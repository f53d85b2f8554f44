/**
 * Lists of servers that are away. A server that does not answer, or not in time, is answered for with what it listed last,
 * through the same chain: what callers may not see, what is held and how tools are described applies to it as well. It is
 * marked, and known to the upstream alone (`upstream/last-lists.ts`).
 */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { isUnanswered } from '../core/error.ts'
import { lastKnownSlot } from '../core/slot.ts'
import { within } from '../core/time/waiting.ts'
import { method } from '../protocol/methods.ts'

/** Runs a call about what a server listed last; the server is not asked. */
export function lastKnown(handle: Handler): Handler {
  return (call) => handle(lastKnownSlot.set(call, true))
}

/** Answers the lists and the description of a server that is away, or takes longer than this, with the last ones. */
export function withLastKnown(handle: Handler, timeoutMs: number): Handler {
  const last = lastKnown(handle)
  const answered = async (call: Call): Promise<Outcome> => {
    const answer = handle(call)
    try {
      const outcome = await within(answer, timeoutMs, undefined)
      // Without a last list, there is nothing but to wait.
      return outcome ?? (await last(call).catch(() => answer))
    } catch (error) {
      if (!isUnanswered(error) || call.signal.aborted) throw error
      return last(call).catch(() => Promise.reject(error))
    }
  }
  return (call) => {
    const isList = method(call.method).list !== undefined || call.method === 'server/discover'
    return isList ? answered(call) : handle(call)
  }
}
