/** The name and version of this program, and request ids. */
import { world } from './world.ts'

/** The name and version the gateway identifies itself with. */
export const self = { name: 'gatehouse', title: 'Gatehouse', version: '0.3.0' } as const

/** A new request id. */
export function newRequestId(): string {
  return world.requestId()
}
