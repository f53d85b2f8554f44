/** The contract of a spool: it keeps long strings of messages while they arrive, so that no message is held whole. */

/** The maximum size of a message from a server, in bytes; strings that are kept outside of it do not count. */
export const MAX_MESSAGE = 64 * 1024 * 1024

/** Keeps long strings outside of the messages that they are in. A short text stands for each of them there. */
export interface Spool {
  /** From which length a string is kept, in bytes. */
  readonly over: number
  /** Begins to keep a string. */
  begin(): SpooledString
  /** Whether a message, or a part of one, has strings that are kept here. */
  isIn(text: string): boolean
  /** JSON with its strings in it again; they are not kept any longer. @throws UPSTREAM_ERROR if it is too large */
  restored(text: string): Promise<string>
  /** Deletes the strings of a message that nobody waits for. */
  discard(text: string): void
}

/** A string that is arriving. */
export interface SpooledString {
  /** The text that stands for it: letters, digits, `-` and `:`. */
  readonly placeholder: string
  /** Called when more can be written. */
  onDrain: (() => void) | undefined
  /** Adds bytes of the string, in UTF-8; false if nothing should be written until `onDrain`. */
  write(bytes: Uint8Array): boolean
  end(): void
  /** The rest of it never arrives. */
  abort(): void
}
