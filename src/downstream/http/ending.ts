/** Ends responses together: to wake a client for each of them costs more than to write them. */
import type { ServerResponse } from 'node:http'
import { world } from '../../core/world.ts'

/** The end of a response. */
interface Ending {
  readonly outgoing: ServerResponse
  /** The rest of its body. */
  readonly body: string | Uint8Array
  readonly encoding: 'latin1' | 'utf8'
}

/** The responses that this turn of the event loop ends. */
let ending: Ending[] = []

/**
 * Ends a response once this turn of the event loop has read all that arrived. A client that is woken by the first of several
 * responses finds the others there, too. Bytes are written as they are, whatever the encoding.
 */
export function endLater(
  outgoing: ServerResponse,
  body: Ending['body'],
  encoding: Ending['encoding'] = 'utf8',
): void {
  if (ending.push({ outgoing, body, encoding }) === 1) world.setImmediate(endAll)
}

function endAll(): void {
  const responses = ending
  ending = []
  for (const { outgoing, body, encoding } of responses) outgoing.end(body, encoding)
}

/** Whether a response is complete, but has not been written. */
export function isEnding(outgoing: ServerResponse): boolean {
  return ending.some((each) => each.outgoing === outgoing)
}
