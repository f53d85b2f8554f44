import type { Call, Notification } from '../core/call.ts'
import type { Payload } from '../core/payload.ts'

/** The progress token of a request, as the text it came in. */
function progressToken(params: Payload): Payload | undefined {
  return params.at('_meta')?.at('progressToken')
}

/**
 * Passes progress on to a call under the client's own token. Values must grow (2025-11-25
 * basic/utilities/progress), so one that does not is left out.
 */
export function progressTo(call: Pick<Call, 'params' | 'emit'>): (note: Notification) => void {
  const token = progressToken(call.params)
  let last = Number.NEGATIVE_INFINITY
  return (note) => {
    const progress = note.params?.fields.progress
    if (!token || typeof progress !== 'number' || progress <= last) return
    last = progress
    call.emit({
      method: note.method,
      ...(note.params && { params: note.params.with({ progressToken: token }) }),
    })
  }
}
