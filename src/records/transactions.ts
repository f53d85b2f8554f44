import type { KeptPrincipal } from './principal.ts'

/** Several calls that can be undone together. Kept under `transaction/…` as JSON; times are milliseconds since 1970. */
export interface Transaction {
  readonly id: string
  readonly principal: KeptPrincipal
  readonly description?: string
  readonly status:
    | 'active'
    | 'committing'
    | 'committed'
    | 'rolling_back'
    | 'rolled_back'
    | 'partially_rolled_back'
  /** Why it is rolled back: what the caller said, `timeout`, or who of the operators did it. */
  readonly reason?: string
  readonly startedAt: number
  /** How long it may be idle, in milliseconds, when that is over, and when it is over whatever happens. */
  readonly timeout: number
  readonly expiresAt: number
  readonly endsAt: number
  /** In the order they began. */
  readonly steps: readonly Step[]
  /** What became of the steps that were undone, the last step first. */
  readonly compensations: readonly Compensation[]
  /** Which gateway works on it (`Presence.id`); another one takes over when that one is gone. */
  readonly runner?: string
  /** Somebody has seen that not everything could be undone. */
  readonly acknowledged?: { readonly by: string; readonly at: number }
}

export interface Step {
  readonly id: string
  /** Where its deed is kept: what it did, and how that is undone. */
  readonly deed: string
  readonly upstream: string
  readonly tool: string
  readonly status: 'pending' | 'ok' | 'failed'
}

export interface Compensation {
  readonly step: string
  readonly status: 'compensated' | 'compensation_failed'
  /** The structured error, where it failed. */
  readonly error?: Readonly<Record<string, unknown>>
}
