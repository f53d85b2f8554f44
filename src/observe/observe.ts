import type { Call, Outcome, Policy } from '../core/call.ts'
import { asGatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'

/** The outermost frame: one log line for each call. */
export function observe(log: Log): Policy {
  return (next) => async (call) => {
    const start = performance.now()
    try {
      const outcome = await next(call)
      log.info('call', line(call, start, outcome))
      return outcome
    } catch (thrown) {
      const error = asGatewayError(thrown)
      const fields = { ...line(call, start), outcome: error.code, rpc: error.rpc, reason: error.message }
      if (error.code === 'SERVER_ERROR') log.error('call', { ...fields, cause: stackOf(thrown) })
      else log.info('call', fields)
      throw thrown
    }
  }
}

function line(call: Call, start: number, outcome?: Outcome): Record<string, unknown> {
  const { target, principal, client, facts } = call
  const fields: Record<string, unknown> = {
    method: call.method,
    upstream: target.upstream,
    name: target.name,
    principal: principal.id,
    revision: client.revision,
    outcome: outcome && outcomeOf(outcome),
    ms: Math.round((performance.now() - start) * 100) / 100,
  }
  for (const [name, value] of facts) fields[name] = value
  return fields
}

function outcomeOf(outcome: Outcome): string {
  if (outcome.kind === 'ask') return 'ask'
  return outcome.result.fields.isError === true ? 'tool_error' : 'ok'
}

function stackOf(thrown: unknown): string | undefined {
  return thrown instanceof Error ? thrown.stack : String(thrown)
}
