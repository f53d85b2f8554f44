/** Keeps a subscription open across reconnects, and reports changes that may have been missed in between. */
import type { UpstreamCall } from './suspended-calls.ts'
import type { Call, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { ReopenDelays } from '../core/time/back-off.ts'
import { pause } from '../core/time/waiting.ts'
import type { Log } from '../core/log.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { excerpt } from '../core/text/redact.ts'
import { world } from '../core/world.ts'
import { ACKNOWLEDGED, readFilter, reportedChanges } from '../protocol/subscription-filter.ts'
import type { UpstreamConnection } from './protocol/connection.ts'
import { isPassing } from './failures.ts'

/** Runs a subscription over successive connections. */
export async function listenOn(
  working: UpstreamCall,
  connect: (call: Call) => Promise<UpstreamConnection>,
  retired: AbortSignal,
  log: Log,
): Promise<Outcome> {
  const controller = new AbortController()
  const stop = (): void => controller.abort()
  for (const signal of [working.signal, retired]) signal.addEventListener('abort', stop)
  let isAcknowledged = false
  let discovered: Payload | undefined
  const connected = async (call: Call): Promise<UpstreamConnection> => {
    const connection = await connect(call)
    discovered = connection.discovered
    return connection
  }
  const reconnecting: UpstreamCall = {
    get call() {
      return working.call
    },
    get signal() {
      return controller.signal
    },
    progress: working.progress,
    requestInput: (question, options) => working.requestInput(question, options),
    notify: (note) => {
      if (note.method !== ACKNOWLEDGED) return working.notify(note)
      if (isAcknowledged) return notifyChanges(working, discovered)
      isAcknowledged = true
      working.notify(note)
    },
  }
  // A subscriber to several servers does not wait for one that is unavailable.
  const acknowledgeLists = (): void => {
    const { resourceSubscriptions: _uris, ...lists } = readFilter(working.call.params)
    if (!isAcknowledged)
      reconnecting.notify({ method: ACKNOWLEDGED, params: Payload.of({ notifications: lists }) })
  }
  try {
    return await keepListening(
      reconnecting,
      connected,
      { cancelled: working.signal, retired, log },
      acknowledgeLists,
    )
  } finally {
    for (const signal of [working.signal, retired]) signal.removeEventListener('abort', stop)
  }
}

/** The delay before the first reconnect, in milliseconds. */
const FIRST_RETRY_MS = 250

interface ListenContext {
  /** Aborted when the last subscriber is gone. */
  readonly cancelled: AbortSignal
  /** Aborted when the server is to be closed. */
  readonly retired: AbortSignal
  readonly log: Log
}

async function keepListening(
  working: UpstreamCall,
  connect: (call: Call) => Promise<UpstreamConnection>,
  { cancelled, retired, log }: ListenContext,
  onLost: () => void,
): Promise<Outcome> {
  const delays = new ReopenDelays(FIRST_RETRY_MS)
  for (;;) {
    const start = world.monotonic()
    try {
      if (retired.aborted) return { kind: 'result', result: Payload.of({}) }
      const connection = await connect(working.call)
      const outcome = await connection.open(working)
      if (!connection.isClosed) return outcome
    } catch (error) {
      if (retired.aborted && !cancelled.aborted) return { kind: 'result', result: Payload.of({}) }
      if (cancelled.aborted || !isPassing(error)) throw error
      log.debug('upstream.listen_again', { error: excerpt(String(error)) })
    }
    onLost()
    await pause(delays.after(start), working.signal).catch(() => undefined)
    if (cancelled.aborted) throw new GatewayError('CANCELLED', 'The subscription was cancelled.')
  }
}

/** Anything may have changed while the server was unavailable. */
function notifyChanges(working: UpstreamCall, discovered: Payload | undefined): void {
  const capabilities = discovered?.fields.capabilities
  const filter = readFilter(working.call.params)
  for (const method of reportedChanges(filter, isObject(capabilities) ? capabilities : undefined))
    working.notify({ method })
}
