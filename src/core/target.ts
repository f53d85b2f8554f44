/** What a call is for: one method of one server and, where the method has one, the thing it names. */
export interface Target {
  /** The server's name in the configuration; absent while the call is for all of them together. */
  readonly upstream?: string
  readonly method: string
  /** Tool or prompt name, or resource URI, as the server knows it. */
  readonly name?: string
  /** Set where the gateway answers itself instead of a server. */
  readonly isBuiltin?: true
}
