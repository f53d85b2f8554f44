/** Callers in the store: hashed in keys, without tokens in values. */
import { hash } from 'node:crypto'
import type { Principal } from '../core/principal.ts'

/** A caller as part of store keys: of the same length whatever its id. */
export function callerHash(id: string): string {
  return hash('sha256', id).slice(0, 32)
}

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
