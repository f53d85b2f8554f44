/** What a person decided on a call that waited for approval. */
export interface ApprovalStep {
  /** The id of the approval. */
  readonly approval: string
  readonly by: string
  /** How the person was known. */
  readonly via: string
  readonly verdict: 'approved' | 'denied'
  /** Who makes the call. */
  readonly caller: string
  readonly upstream: string
  readonly tool: string
  /** The arguments of the call. */
  readonly given: Readonly<Record<string, unknown>>
}
