import { createHash } from 'node:crypto'

const salt = 'salt-of-a-test'

/** What a configuration holds of an opaque token: its salted hash. */
export function tokenHash(token: string): string {
  const digest = createHash('sha256').update(salt).update(token).digest('hex')
  return `sha256:${salt}:${digest}`
}
