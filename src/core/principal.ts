/** Who calls, after authentication. */
import { canonical } from './json/json.ts'
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
const SHARE_DIVISOR = 4

/** Whether a caller has a share of the common limits; the shared anonymous caller has the whole. */
export function hasReachedShare<Holder>(
  { id, isEverybody }: Principal,
  holders: ReadonlyMap<unknown, Holder>,
  idOf: (holder: Holder) => string,
  limit: number,
): boolean {
  const share = limit / SHARE_DIVISOR
  if (isEverybody || holders.size < share) return false
  let count = 0
  for (const holder of holders.values()) if (idOf(holder) === id) count++
  return count >= share
}

// The names of scopes, and limits by caller, server and tool.

// Scopes by name: what a name may consist of, and which ones the settings of a server know. A scope is one word, as
// tokens list scopes with spaces between them (RFC 6749 section 3.3): a name with a space could never be granted.

/** The JSON Schema of the name of a scope. */
export const scopeNameSchema = {
  type: 'string',
  pattern: '^[\\x21\\x23-\\x5B\\x5D-\\x7E]+$',
  errorMessage: 'must be a scope, without spaces or quotes',
} as const

/** The JSON Schema of a list of scopes, or of one. */
export const scopeListSchema = {
  type: ['array', 'string'],
  items: scopeNameSchema,
  pattern: scopeNameSchema.pattern,
  errorMessage: 'must be a list of scopes, without spaces or quotes',
} as const

/** What of a server's settings names scopes. */
interface ScopedServer {
  readonly name: string
  readonly scopes: Readonly<Record<string, unknown>>
  readonly tools: Readonly<Record<string, { readonly scopes?: readonly string[] }>>
}

/** Every scope the configuration of a server knows: those it has by itself, and those that are configured. */
export function knownScopes({ name, scopes, tools }: ScopedServer): string[] {
  const explicit = Object.values(tools).flatMap((tool) => tool.scopes ?? [])
  const derived = ['read', 'write', 'delete', 'admin', 'execute'].map((kind) => `${kind}:${name}`)
  return [...new Set([...derived, ...Object.keys(scopes), ...explicit])]
}

/** What limits the calls to a server: what holds for those to all servers together, and what for its own alone. */
interface LimitScope<Limit> {
  readonly together?: Limit
  readonly alone?: Limit
}

/** How often each caller may call where nothing is configured, and callers are told apart or the profile is `corporate`. */
export const DEFAULT_RATE = '60/minute'

/**
 * Which limits hold, from what is configured for all and for one server. One that is configured for the server
 * stands beside that for all, and in place of the one that holds where nothing is configured.
 */
export function limitScope<Limit>(
  common: Limit | 'off' | undefined,
  own: Limit | 'off' | undefined,
  fallback: Limit | undefined,
): LimitScope<Limit> {
  if (own === 'off') return {}
  // What a server has from that for all is the same list in another copy.
  const isOwn = own !== undefined && canonical(own) !== canonical(common)
  const together = common ?? (isOwn ? undefined : fallback)
  return {
    ...(together !== undefined && together !== 'off' && { together }),
    ...(isOwn && { alone: own }),
  }
}
