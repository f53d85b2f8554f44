/** The contract of a spool: it keeps long strings of messages while they arrive, so that no message is held whole. */
import { Slot } from './slot.ts'

/** The maximum size of a message from a server, in bytes; strings that are kept outside of it do not count. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024

/** Keeps long strings outside of the messages that they are in. A short text stands for each of them there. */
export interface Spool {
  /** From which length a string is kept, in bytes. */
  readonly over: number
  /** Begins to keep the strings of a message that is arriving. */
  open(): SpooledMessage
  /** Whether a message, or a part of one, has strings that are kept here. */
  isIn(text: string): boolean
  /**
   * JSON with its strings in it again; they are not kept any longer.
   * @throws UPSTREAM_ERROR if it is too large, or why a string could not be kept
   */
  restored(text: string): Promise<string>
  /** Deletes the strings of a message that no request waits for. */
  discard(text: string): void
}

/** A message that is arriving. */
export interface SpooledMessage {
  /** Begins a string; undefined if it has to stay in the message, because it cannot be kept elsewhere. */
  begin(): SpooledString | undefined
  /** All of the message has come. */
  end(): void
  /** The rest of it never comes: its strings are deleted. */
  abort(): void
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
}

/** Keeps the long strings of the result: whoever sets it puts something in their place. */
export const spoolSlot = new Slot<Spool>('spool')

/** Set if the call is for one of several pages, which a layer above puts together. */
export const isPageSlot = new Slot<true>('page')
