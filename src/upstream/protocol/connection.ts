/** The contract of a connection to a server: MCP over a transport, in either era. */
import type { OpenCall } from '../suspended-calls.ts'
import type { Call } from '../../core/call.ts'
import type { Payload } from '../../core/payload.ts'
import type { IndexedTool } from '../tool-index.ts'

/** One conversation with a server, of either era. */
export interface UpstreamConnection {
  /** What the server says of itself, as `server/discover` has it. */
  readonly discovered: Payload
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  /** Whether the server can ask the client something on it. */
  readonly canAsk: boolean
  readonly isClosed: boolean
  /** Whether something is under way on it. */
  readonly isBusy: boolean
  /** Does a call. */
  readonly open: OpenCall
  /** What the server's list, as the client of a call gets it, says of the tool the call names. */
  tool(call: Call): IndexedTool | undefined | Promise<IndexedTool | undefined>
  close(): Promise<void>
}
