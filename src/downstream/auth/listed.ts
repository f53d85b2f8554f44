import { createHash, timingSafeEqual } from 'node:crypto'
import type { ListedToken } from '../../core/auth-settings.ts'
import type { Verified } from './verified.ts'

/** Finds tokens in the configured list of hashes. */
export function createListed(tokens: readonly ListedToken[]): (token: string) => Verified | undefined {
  const entries = tokens.map(({ hash, id, scopes }) => {
    const [, salt = '', digest = ''] = hash.reveal().split(':')
    const principal = { id: `token:${id}`, ...(scopes && { scopes: new Set(scopes) }) }
    return { salt, digest: Buffer.from(digest, 'hex'), verified: { principal, until: Infinity } }
  })
  return (token) => {
    const matches = ({ salt, digest }: (typeof entries)[number]): boolean =>
      timingSafeEqual(createHash('sha256').update(salt).update(token).digest(), digest)
    return entries.find(matches)?.verified
  }
}
