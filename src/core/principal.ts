import type { Secret } from './secret.ts'

/** Who a call is made for. */
export interface Principal {
  /** Stable identity, never a token. */
  readonly id: string
  /** What the caller may do; absent where nothing limits it. */
  readonly scopes?: ReadonlySet<string>
  /** What the caller's token says of it. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** The caller's own token: only ever exchanged for another (RFC 8693), never passed on. */
  readonly token?: Secret
}

/** Everybody, where no authentication is configured. */
export const anonymous: Principal = { id: 'anonymous' }
