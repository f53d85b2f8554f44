/** Answers the calls of other processes to a server that runs in this one. */
import type { Call } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { acceptsTaskSlot, connectionSlot, contextSlot, type Slots } from '../../core/slot.ts'
import { encodeLine, type Line, readCall, type ReceivedCall } from './messages.ts'
import { type PlacedServer, relayedSlot } from './placement.ts'

/** A call that came to another process. */
export interface RelayedRequest {
  readonly principal: Principal
  /** The name of the server in the configuration of this process. */
  readonly upstream: string
  /** As `encodeCall` wrote it. */
  readonly text: string
  /** Aborted when the other process does not wait for it any more. */
  readonly controller: AbortController
  /** Sends a line of the answer. */
  send(line: string): void
}

/** Makes a call and sends its answer. Resolves with false if there is no call in the text; never rejects. */
export async function answerRelayed(
  server: Pick<PlacedServer, 'relayed'>,
  { principal, upstream, text, controller, send }: RelayedRequest,
): Promise<boolean> {
  const received = readCall(text, upstream)
  if (!received) return false
  const tell = (line: Line): void => send(encodeLine(line))
  const { acceptsTask, connection, context, ...call } = received
  const made: Call = {
    ...call,
    principal,
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    logFields: new Map(),
    slots: slotsOf({ acceptsTask, connection, context }, tell),
    emit: (note) => tell({ kind: 'note', note }),
  }
  try {
    tell({ kind: 'outcome', outcome: await server.relayed(made) })
  } catch (error) {
    tell({ kind: 'error', error: asGatewayError(error) })
  }
  return true
}

function slotsOf(
  { acceptsTask, connection, context }: Partial<ReceivedCall>,
  tell: (line: Line) => void,
): Slots {
  let slots = relayedSlot.put(({ era, revision, canAsk, context: kept }) =>
    tell({ kind: 'facts', facts: { era, revision, canAsk, context: kept } }),
  )
  if (acceptsTask) slots = acceptsTaskSlot.put(true, slots)
  if (connection)
    slots = connectionSlot.put(
      { ...connection, onOpen: (opened) => tell({ kind: 'opened', ...opened }) },
      slots,
    )
  if (context?.expected !== undefined) {
    const expected = { id: context.expected, since: 0 }
    slots = contextSlot.put({ expected, mayReplace: context.mayReplace, onUse: () => undefined }, slots)
  }
  return slots
}
