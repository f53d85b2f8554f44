import { randomUUID } from 'node:crypto'

/** Tells the ids of this process from those of others. */
const prefix = randomUUID().slice(0, 8)
let last = 0

/** A new name for a request. */
export function newRequestId(): string {
  return `${prefix}-${++last}`
}
