/** Callers as the store keeps them: hashed in keys, without tokens in values. */
import { hash } from 'node:crypto'
import type { Principal } from '../core/principal.ts'

/** A caller as it stands in keys of the store: as short as any other, whatever its id. */
export function callerHash(id: string): string {
  return hash('sha256', id).slice(0, 32)
}

/** A caller as it is kept: without its token. */
export interface KeptPrincipal {
  readonly id: string
  readonly scopes?: readonly string[]
  readonly isEverybody?: true
}

/** What of a caller can be kept. */
export function keepPrincipal({ id, scopes, isEverybody }: Principal): KeptPrincipal {
  return { id, ...(scopes && { scopes: [...scopes] }), ...(isEverybody && { isEverybody }) }
}

/** A caller that was kept, for calls that are made for it later on. */
export function keptPrincipal({ id, scopes, isEverybody }: KeptPrincipal): Principal {
  return { id, ...(scopes && { scopes: new Set(scopes) }), ...(isEverybody && { isEverybody }) }
}
