import type { Tool } from './client.ts'
import type { Era } from './reply.ts'

/** One stretch of load: which address, as which client, how many calls at once, for how long. */
export interface LoadOrder {
  readonly url: string
  readonly era: Era
  readonly concurrency: number
  readonly bytes: number
  readonly seconds: number
  /** The token calls are made with. */
  readonly token?: string
  /** The tool that is called, `get_text` if absent. */
  readonly tool?: Tool
  /** Each call has an idempotency key of its own. */
  readonly isKeyed?: boolean
}

/** What a stretch of load saw; latencies are milliseconds. */
export interface LoadResult {
  readonly calls: number
  readonly seconds: number
  readonly p50: number
  readonly p99: number
  readonly errors: number
  readonly firstError?: string
}
