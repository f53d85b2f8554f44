/** Logs each success of a tool that writes, with its arguments, without secrets and masked data. */
import type { Call, Middleware, Outcome, Target } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { cleanedValue, Redactor, secretsOf, withoutSecrets } from '../../core/text/redact.ts'
import { callerHash } from '../../records/principal.ts'
import type { Services } from '../feature.ts'
import { successOf } from './event-types.ts'
import type { ServerEvents } from './server-events.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'features'>

/** The longest argument in an event, and all of them together, in characters of JSON. */
const MAX_ARGUMENT_LENGTH = 4000
const MAX_ARGUMENTS_LENGTH = 32_000

/** The middleware that logs the successes of a tool. */
export function logWrites(target: Target, events: ServerEvents, deps: Deps): Middleware {
  const redactor = new Redactor()
  redactor.learn(secretsOf(deps.servers.settings(target.upstream ?? '')))
  const clean = (value: unknown): unknown =>
    cleanedValue(deps.features.masked(value, target), (text) => withoutSecrets(redactor.text(text)))
  return (next) => async (call) => {
    const outcome = await next(call)
    if (!hasWritten(call, outcome)) return outcome
    const { name = '' } = target
    const given = clean(call.params.fields.arguments)
    const data = { tool: name, ...shortened(isObject(given) ? given : {}) }
    try {
      await events.add({ name: successOf(name), by: callerHash(call.principal.id), data })
    } catch (error) {
      // The call has taken effect, so it does not fail.
      const { message: reason } = asGatewayError(error)
      deps.log.warn('events.not_kept', { upstream: target.upstream, tool: name, reason })
    }
    return outcome
  }
}

function hasWritten(call: Call, outcome: Outcome): boolean {
  if (outcome.kind !== 'result' || outcome.result.member('isError') === true || !call.tool) return false
  return asCalled(call.tool, call).classification.op !== 'read'
}

interface ShortenedArguments {
  readonly arguments: Readonly<Record<string, unknown>>
  /** The names of the arguments that were left out. */
  readonly omitted?: readonly string[]
}

function shortened(given: Readonly<Record<string, unknown>>): ShortenedArguments {
  let left = MAX_ARGUMENTS_LENGTH
  const kept: Record<string, unknown> = {}
  const omitted: string[] = []
  for (const [name, value] of Object.entries(given)) {
    const length = (JSON.stringify(value) ?? '').length + name.length
    if (length > Math.min(left, MAX_ARGUMENT_LENGTH)) {
      omitted.push(name.slice(0, 100))
      continue
    }
    left -= length
    kept[name] = value
  }
  return { arguments: kept, ...(omitted.length > 0 && { omitted: omitted.slice(0, 100) }) }
}
