/** The authenticated caller. */
import { canonical } from './json/json.ts'
import type { Secret } from './text/secret.ts'

/** The identity a call is made for. */
export interface Principal {
  /** A stable identifier, never a token. */
  readonly id: string
  /** The granted scopes; absent for unlimited access. */
  readonly scopes?: ReadonlySet<string>
  /** The scopes outside of the session that narrows them, if the caller is in such a session. */
  readonly outside?: Pick<Principal, 'scopes'>
  /** The claims of the caller's token. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** The caller's own token: only exchanged for another one (RFC 8693), never passed on. */
  readonly token?: Secret
  /** Set in place of a token that another gateway has, which authenticated the caller. */
  readonly hasTokenElsewhere?: true
  /** Set if callers are not distinguished. */
  readonly isEverybody?: true
  /** A person signed in to the pages in a browser; such a principal makes no calls. */
  readonly isSignedIn?: true
}

/** The longest name that a caller can have at its issuer, in characters; OpenID Connect permits 255. */
const MAX_SUBJECT_LENGTH = 507

/**
 * Whether a value can name a caller: other values would name several callers alike, or would not be what a person reads in
 * logs and approvals. A name is a string that is not blank, without control characters and lone surrogates.
 */
export function isSubject(value: unknown): value is string {
  return (
    typeof value === 'string' &&
    value.length <= MAX_SUBJECT_LENGTH &&
    /[^\p{White_Space}\p{Default_Ignorable_Code_Point}]/u.test(value) &&
    !/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/u.test(value)
  )
}

/** The principal of all callers if no authentication is configured. */
export const anonymous: Principal = { id: 'anonymous', isEverybody: true }

/** One caller may use a quarter of each shared limit. */
const SHARE_DIVISOR = 4

/** How much of a shared limit a caller may use; the shared anonymous caller may use all of it. */
export function shareOf({ isEverybody }: Pick<Principal, 'isEverybody'>, limit: number): number {
  return isEverybody ? limit : limit / SHARE_DIVISOR
}

/** Whether a caller has used up its share of a shared limit; the shared anonymous caller may use all of it. */
export function hasReachedShare<Holder>(
  principal: Principal,
  holders: ReadonlyMap<unknown, Holder>,
  idOf: (holder: Holder) => string,
  limit: number,
): boolean {
  const share = shareOf(principal, limit)
  if (principal.isEverybody || holders.size < share) return false
  let count = 0
  for (const holder of holders.values()) if (idOf(holder) === principal.id) count++
  return count >= share
}

// Names of scopes, and limits by caller, server and tool.

// Scope names, and the scopes that the settings of a server know. A scope is one word, because tokens list scopes
// separated by spaces (RFC 6749 section 3.3): a name with a space could never be granted.

/** The JSON Schema of a scope name. */
export const scopeNameSchema = {
  type: 'string',
  pattern: '^[\\x21\\x23-\\x5B\\x5D-\\x7E]+$',
  errorMessage: 'must be a scope, without spaces or quotes',
} as const

/** The JSON Schema of a list of scopes, or a single one. */
export const scopeListSchema = {
  type: ['array', 'string'],
  items: scopeNameSchema,
  pattern: scopeNameSchema.pattern,
  errorMessage: 'must be a list of scopes, without spaces or quotes',
} as const

/** The parts of a server's settings that name scopes. */
interface ScopedServer {
  readonly name: string
  readonly scopes: Readonly<Record<string, unknown>>
  readonly tools: Readonly<Record<string, { readonly scopes?: readonly string[] }>>
}

/** All scopes of a server: the derived ones and the configured ones. */
export function knownScopes({ name, scopes, tools }: ScopedServer): string[] {
  const explicit = Object.values(tools).flatMap((tool) => tool.scopes ?? [])
  const derived = ['read', 'write', 'delete', 'admin', 'execute'].map((kind) => `${kind}:${name}`)
  return [...new Set([...derived, ...Object.keys(scopes), ...explicit])]
}

/** The limits of the calls to a server: one shared by all servers, and one of its own. */
interface LimitScope<Limit> {
  readonly together?: Limit
  readonly alone?: Limit
}

/** The default rate of each caller, if callers are distinguished or the profile is `corporate`. */
export const DEFAULT_RATE = '60/minute'

/**
 * Combines the limits configured for all servers and for one server. A limit of the server applies in addition to the
 * common one, and replaces the default.
 */
export function limitScope<Limit>(
  common: Limit | 'off' | undefined,
  own: Limit | 'off' | undefined,
  fallback: Limit | undefined,
): LimitScope<Limit> {
  if (own === 'off') return {}
  // A setting inherited from the common one is an equal copy of it.
  const isOwn = own !== undefined && canonical(own) !== canonical(common)
  const together = common ?? (isOwn ? undefined : fallback)
  return {
    ...(together !== undefined && together !== 'off' && { together }),
    ...(isOwn && { alone: own }),
  }
}
