/** The contract of a connection to a server: MCP over a transport, in either era. */
import type { OpenCall } from '../suspended-calls.ts'
import type { Call } from '../../core/call.ts'
import type { ServerContext } from '../../core/slot.ts'
import type { Payload } from '../../core/payload.ts'
import type { ListedTool } from '../../protocol/found-tool.ts'

/** A connection to a server, of either era. */
export interface UpstreamConnection {
  /** The server's description of itself, in the form of `server/discover`. */
  readonly discovered: Payload
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  /** Whether the server can send input requests on it. */
  readonly canAsk: boolean
  readonly isClosed: boolean
  /** Closed because its server forgot the session, and with it what it kept for the client. */
  readonly hasLostSession?: boolean
  /** What the server keeps for those who use the connection; undefined if it keeps nothing, as over HTTP without sessions. */
  readonly context?: ServerContext | undefined
  /** The id of the process that serves it, if the gateway started one. */
  readonly pid?: number | undefined
  /** Whether requests or subscriptions are active on it. */
  readonly isBusy: boolean
  /** Runs a call. */
  readonly open: OpenCall
  /** The entry of the tool a call names, in the server's list for the client of the call. */
  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined>
  /** Whether the server listed its tools a moment ago, and none has the name in the call. */
  lacks(call: Call): boolean
  /** Whether it is one to another process of the gateway, which has the server. */
  readonly isPlaced?: true
  /** Ends the process that serves it by force, if the gateway started one. */
  kill?(): void
  close(): Promise<void>
}
