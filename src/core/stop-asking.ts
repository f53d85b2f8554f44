/**
 * The line of configuration by which people are asked about a tool no more. People are told it where they decide,
 * models never: they could write it themselves.
 */

/** What to write where. */
export interface StopAsking {
  /** The place in the configuration, with dots between its keys. */
  readonly under: string
  /** A line of YAML. */
  readonly write: string
}
