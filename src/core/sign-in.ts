/** A step of a user who signs in to a server. */
export interface SignInStep {
  readonly step: 'begun' | 'finished' | 'failed'
  readonly upstream: string
  /** Who signs in. */
  readonly principal: string
  /** Why it failed: the code of the failure, and that of the authorization server where it gave one. */
  readonly code?: string
  readonly reason?: string | undefined
}
