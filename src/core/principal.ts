/** Who calls, after authentication. */
import type { Secret } from './text/secret.ts'

/** Who a call is made for. */
export interface Principal {
  /** Stable identity, never a token. */
  readonly id: string
  /** What the caller may do; absent where nothing limits it. */
  readonly scopes?: ReadonlySet<string>
  /** What the caller may do outside of the session that narrows its scopes, where it is in one. */
  readonly outside?: Pick<Principal, 'scopes'>
  /** What the caller's token says of it. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** The caller's own token: only ever exchanged for another (RFC 8693), never passed on. */
  readonly token?: Secret
  /** Set where callers are not told apart. */
  readonly isEverybody?: true
  /** A person who signed in to the pages in a browser; such a principal makes no calls. */
  readonly isSignedIn?: true
}

/** The one principal of all callers, where no authentication is configured. */
export const anonymous: Principal = { id: 'anonymous', isEverybody: true }

/** One caller may have a quarter of what there is for all. */
const PART = 4

/** Whether a caller has a share of the common limits; the shared anonymous caller has the whole. */
export function hasItsShare<Holder>(
  { id, isEverybody }: Principal,
  holders: ReadonlyMap<unknown, Holder>,
  idOf: (holder: Holder) => string,
  limit: number,
): boolean {
  const share = limit / PART
  if (isEverybody || holders.size < share) return false
  let held = 0
  for (const holder of holders.values()) if (idOf(holder) === id) held++
  return held >= share
}
