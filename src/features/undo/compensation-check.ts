/**
 * Holds the call that undoes another one against the schema of its tool, once its arguments are known: one that its
 * server would refuse when it is needed is no way back.
 */
import type { Call } from '../../core/call.ts'
import { withKeyArgument } from '../../core/key-argument.ts'
import { UnusableSchema, validator } from '../../core/schema.ts'
import { isObject } from '../../core/json.ts'
import { settingOf } from '../../core/tool-settings.ts'
import type { Compensation } from '../../records/deeds.ts'
import type { Deps } from '../feature.ts'

/** Why the call of a way back would be refused; nothing where it fits, or where the server's list cannot be had. */
export async function compensationProblem(
  call: Call,
  way: Compensation,
  { upstream, deps }: { readonly upstream: string; readonly deps: Deps },
): Promise<string | undefined> {
  if (way.kind !== 'exact' && way.kind !== 'approximate') return undefined
  const { tool, arguments: args } = way
  const { principal } = call
  const internal = deps.internal({ purpose: 'compensate', principal, upstream, tool, arguments: args })
  const entry = await Promise.resolve(deps.entry(internal)).catch(() => undefined)
  const schema = entry?.definition.inputSchema
  if (!entry || !isObject(schema)) return undefined
  const keyArgument = settingOf(deps.server(upstream)?.tools ?? {}, tool, 'keyArgument')?.value
  // A compensation has a key, which the tool may want among its arguments.
  const given = withKeyArgument(internal, 'key', keyArgument, entry).params.fields.arguments
  try {
    const [problem] = validator(schema)(given)
    if (!problem) return undefined
    const where = problem.path.length === 0 ? 'its arguments' : problem.path.join('.')
    return `${tool}, which undoes it, would be refused: ${where} ${problem.message}`
  } catch (error) {
    if (error instanceof UnusableSchema) return undefined
    throw error
  }
}
