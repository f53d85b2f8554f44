import type { Call, Outcome } from '../core/call.ts'
import type { Payload } from '../core/payload.ts'
import { metaKeys } from '../wire/extensions.ts'
import { method } from '../wire/methods.ts'

/** An answer to `initialize` as one to `server/discover`. */
export function asDiscovered(initialized: Payload): Payload {
  return initialized
    .with({ protocolVersion: undefined, serverInfo: undefined })
    .withMeta({ [metaKeys.serverInfo]: initialized.fields.serverInfo })
}

/** A result as an outcome. Older servers end a list with an empty cursor, which newer clients would follow for ever. */
export function done(result: Payload, call: Call): Outcome {
  const { nextCursor } = result.fields
  const isEnd = nextCursor === '' || nextCursor === null
  const isOver = isEnd && method(call.method).list !== undefined
  return { kind: 'result', result: isOver ? result.with({ nextCursor: undefined }) : result }
}
