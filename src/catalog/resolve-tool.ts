/**
 * Resolves the tool that a `tools/call` names, once, before the features see the call. A list that cannot be had
 * refuses nothing here: it is noted on the call, and each feature decides whether it goes on without.
 */
import type { Call, Handler, Middleware, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { attempt, untilAborted, within } from '../core/time/waiting.ts'

type FindTool = (call: Call) => Descriptor | undefined | Promise<Descriptor | undefined>

/** Sets `tool` or `toolError` of calls; a list that is not known yet may take so many milliseconds. */
export function resolveTool(find: FindTool, timeout: number): Middleware {
  return (next) => (call) => {
    const found = attempt(() => find(call))
    return found instanceof Promise
      ? awaited(call, { found, timeout, next })
      : next({ ...call, tool: found, toolError: undefined })
  }
}

interface Lookup {
  readonly found: Promise<Descriptor | undefined>
  readonly timeout: number
  readonly next: Handler
}

async function awaited(call: Call, { found, timeout, next }: Lookup): Promise<Outcome> {
  return next({ ...call, ...(await settled(call, found, timeout)) })
}

/** @throws where the call itself has ended */
async function settled(
  { signal }: Call,
  found: Promise<Descriptor | undefined>,
  timeout: number,
): Promise<Pick<Call, 'tool' | 'toolError'>> {
  try {
    const tool = await untilAborted(within<Descriptor | 'late' | undefined>(found, timeout, 'late'), signal)
    return tool === 'late' ? { tool: undefined, toolError: late(timeout) } : { tool, toolError: undefined }
  } catch (error) {
    if (signal.aborted) throw error
    return { tool: undefined, toolError: error instanceof Error ? error : new Error(String(error)) }
  }
}

function late(timeout: number): GatewayError {
  return new GatewayError(
    'OPERATION_TIMEOUT',
    `The server did not list its tools within ${timeout / 1000} s.`,
    {
      isUnsent: true,
      suggestion: 'Try again, or raise limits.timeout for this server.',
    },
  )
}
