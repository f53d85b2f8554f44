/**
 * The codes of the errors of the events extension, in two columns: SEP-3415, and the design sketch that preceded it, which
 * deployed clients such as ChatGPT follow. The gateway uses the first one; a client of the sketch gets the second.
 */
import type { Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { type Column, profileOf } from './clients.ts'

/** The codes of SEP-3415, and the distance to those of the sketch: -32023 is -32011 there, and so on to -32027. */
const FIRST_CODE = -32023
const LAST_CODE = -32027
const DISTANCE = 12

/** A code of either column in that of SEP-3415; other codes are not changed. */
export function inSepColumn(code: number): number {
  const moved = code - DISTANCE
  return moved <= FIRST_CODE && moved >= LAST_CODE ? moved : code
}

/** A failure with the code of a column. */
export function inColumn(error: GatewayError, column: Column): GatewayError {
  const { rpc } = error.extra
  const isOfExtension = rpc !== undefined && rpc <= FIRST_CODE && rpc >= LAST_CODE
  return isOfExtension && column === 'sketch' ? error.with({ rpc: rpc + DISTANCE }) : error
}

/** Answers a method with the errors that the client of each call expects. */
export function withExpectedErrors(name: string, answer: Handler): Handler {
  return async (call) => {
    try {
      return await answer(call)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      // In the sketch a second unsubscription succeeds.
      const isGone = error.rpc === FIRST_CODE && error.extra.data?.kind === 'subscription'
      const { codes } = profileOf(call.client)
      if (name === 'events/unsubscribe' && isGone && codes === 'sketch') {
        return { kind: 'result', result: Payload.of({}) }
      }
      throw inColumn(error, codes)
    }
  }
}
