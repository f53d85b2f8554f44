import type { OpenCall } from '../bridge/park.ts'
import type { Payload } from '../core/payload.ts'

/** One conversation with a server, of either era. */
export interface Connection {
  /** What the server says of itself, as `server/discover` has it. */
  readonly discovered: Payload
  readonly revision: string
  readonly isClosed: boolean
  /** Whether something is under way on it. */
  readonly isBusy: boolean
  /** Does a call. */
  readonly open: OpenCall
  /** The input schemas of the server's tools by name, as last listed. */
  schemas(): Promise<ReadonlyMap<string, unknown>>
  /** Forgets the schemas, so that they are listed again. */
  forgetSchemas(): void
  close(): Promise<void>
}
