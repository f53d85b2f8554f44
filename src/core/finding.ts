/** What is wrong with the configuration, at a key of it. */
export interface Finding {
  readonly path: readonly string[]
  readonly message: string
  /** Whether to point at the key rather than the value. */
  readonly at?: 'key'
}
