import type { KeptPrincipal } from './principal.ts'

/** What a tool did for a caller, and how it is undone. Kept under `deed/…` as JSON; times are milliseconds since 1970. */
export interface Deed {
  readonly key: string
  readonly startedAt: number
  readonly endedAt?: number
  readonly principal: KeptPrincipal
  /** The client's session, where its revision has sessions. */
  readonly session?: string
  readonly upstream: string
  /** The tool as the server knows it, and what it was called with. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** The step of a transaction it is. */
  readonly transaction?: string
  readonly step?: string
  /** `pending` while the server works on it; what stays so after its gateway ended is not known to have happened. */
  readonly status: 'pending' | 'ok' | 'failed' | 'unknown'
  readonly way: WayBack
}

/** How something that was done is undone: by a call, exactly or about, or not at all. */
export type WayBack =
  | {
      readonly kind: 'exact' | 'approximate'
      readonly tool: string
      readonly arguments: Readonly<Record<string, unknown>>
      readonly description: string
    }
  /** It only read. */
  | { readonly kind: 'nothing' }
  | { readonly kind: 'none'; readonly reason: string }
