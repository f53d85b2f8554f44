/** Callers in the store: hashed in keys, without tokens in values. */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Principal } from '../core/principal.ts'

/** A caller as part of store keys: of the same length whatever its id. */
export function callerHash(id: string): string {
  const known = hashes.get(id)
  if (known !== undefined) return known
  const hashed = hash('sha256', id).slice(0, 32)
  if (id.length <= MAX_KEPT_ID_LENGTH) hashes.set(id, hashed)
  return hashed
}

/** The hashes of the last callers: each call asks for the one of its caller. */
const MAX_KEPT_HASHES = 500
const MAX_KEPT_ID_LENGTH = 200
const hashes = new LRUCache<string, string>({ max: MAX_KEPT_HASHES })

/** The id of a record of a caller, in a collection that lists all of them: an id alone may be the same for several callers. */
export function ownedId({ id: caller }: Pick<Principal, 'id'>, id: string): string {
  return `${callerHash(caller)}:${id}`
}

/** Names that need no encoding in a key, and cannot be confused with an encoded name. */
const PLAIN_NAME = /^[\w.:@|-]+$/

/** How the keys of all rate limit windows of a caller begin: the rest begins with a closing brace. */
export function windowsOf(id: string): string {
  return `rate:{${PLAIN_NAME.test(id) ? id : encodeURIComponent(id)}`
}

/** A caller as it is stored: without its token. */
export interface StoredPrincipal {
  readonly id: string
  readonly scopes?: readonly string[]
  readonly isEverybody?: true
}

/** The storable part of a caller. */
export function toStoredPrincipal({ id, scopes, isEverybody }: Principal): StoredPrincipal {
  return { id, ...(scopes && { scopes: [...scopes] }), ...(isEverybody && { isEverybody }) }
}

/** A stored caller, for calls that are made on its behalf later. */
export function fromStoredPrincipal({ id, scopes, isEverybody }: StoredPrincipal): Principal {
  return { id, ...(scopes && { scopes: new Set(scopes) }), ...(isEverybody && { isEverybody }) }
}
