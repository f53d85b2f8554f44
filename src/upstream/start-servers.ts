/** Connects to all servers at the start of a gateway, or of another configuration. */
import type { Call } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { type AttemptResult, type Backoff, retry } from '../core/time/backoff.ts'
import { pause } from '../core/time/waiting.ts'
import type { Upstream } from './upstream.ts'

interface Options {
  readonly ended: AbortSignal
  /** Called when a server that was unreachable at first becomes reachable. */
  onReached(upstream: string): void
  readonly log: Log
}

/**
 * Connects to each server once; unreachable ones are retried in the background until they respond, or until `ended`.
 */
export async function startServers(
  upstreams: Iterable<Upstream>,
  call: Call,
  options: Options,
): Promise<void> {
  const { log } = options
  const starts = [...upstreams].map((upstream) => ({ upstream, call, log, reasons: new Set<string>() }))
  const unreachable = await Promise.all(starts.map(async (each) => ((await connect(each)) ? [] : [each])))
  for (const each of unreachable.flat()) background(keepTrying(each, options), log)
}

interface Start {
  readonly upstream: Upstream
  readonly call: Call
  readonly log: Log
  /** Why it failed, as far as the log says so at `warn`. */
  readonly reasons: Set<string>
}

async function connect({ upstream, call, log, reasons }: Start): Promise<boolean> {
  try {
    await upstream.start(call)
    log.info('upstream.ready', { upstream: upstream.name, ...upstream.status })
    return true
  } catch (error) {
    const { problem, stderr } = upstream.status
    const reason = problem ?? asGatewayError(error).message
    const level = reasons.has(reason) ? 'debug' : 'warn'
    reasons.add(reason)
    log[level]('upstream.unavailable', { upstream: upstream.name, reason, ...(stderr && { stderr }) })
    return false
  }
}

async function keepTrying(start: Start, { ended, onReached }: Options): Promise<void> {
  const { upstream } = start
  await pause(FIRST_START_RETRY_MS, ended).catch(() => undefined)
  const attempt = async (): Promise<AttemptResult> =>
    // A call may have connected in the meantime.
    upstream.status.problem === undefined || (await connect(start)) ? 'done' : 'later'
  if ((await retry(attempt, LATER_START_RETRIES, ended)) === 'done') onReached(upstream.name)
}

/** The delay before a server is retried, in milliseconds, and the later ones. */
const FIRST_START_RETRY_MS = 1000
const LATER_START_RETRIES: Backoff = { firstMs: 2000, maxMs: 30_000 }
