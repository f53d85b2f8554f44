import { tokenHash } from './token-hash.ts'

/** Callers with opaque tokens: the settings of a gateway that knows them, and what each of them sends. */
export function knownCallers<Id extends string>(ids: readonly Id[], scopes?: readonly string[]) {
  const token = (id: Id): string => `a-token-of-at-least-32-characters-${id}`
  const tokens = ids.map((id) => ({ id, hash: tokenHash(token(id)), ...(scopes && { scopes }) }))
  return {
    auth: { opaque: { tokens } },
    token,
    bearer: (id: Id) => ({ authorization: `Bearer ${token(id)}` }),
  }
}
