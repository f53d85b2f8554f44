/** The name and version of this program, and ids of requests. */
import { randomUUID } from 'node:crypto'

/** The name and version the gateway gives as its own. */
export const self = { name: 'gatehouse', title: 'Gatehouse', version: '0.3.0' } as const

/** Tells the ids of this process from those of others. */
const prefix = randomUUID().slice(0, 8)
let last = 0

/** A new name for a request. */
export function newRequestId(): string {
  return `${prefix}-${++last}`
}
