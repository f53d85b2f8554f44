/** Who a call is made for. */
export interface Principal {
  /** Stable identity, never a token. */
  readonly id: string
  readonly scopes: ReadonlySet<string>
}

/** Everybody, where no authentication is configured. */
export const anonymous: Principal = { id: 'anonymous', scopes: new Set() }
