/**
 * What the tool that undoes a call says about the undoing call: whether it would take it, and which of its arguments are
 * secrets.
 */
import type { Call } from '../../core/call.ts'
import { internalCall } from '../own-calls.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import type { Step } from '../../core/json/path.ts'
import { secretNames } from '../../core/masked-arguments.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'
import { settingOf } from '../../core/settings.ts'
import { isSecretName } from '../../core/text/secret-names.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import { type Expression, pathsOf } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import type { Compensation } from '../../records/actions.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'servers' | 'invoker'>

interface Context {
  readonly upstream: string
  readonly deps: Deps
}

/**
 * Why a compensation would be rejected; undefined if it is valid, or if the tool list is unavailable. A call
 * that its server would reject is not a compensation.
 */
export async function compensationProblem(
  call: Call,
  way: Compensation,
  { upstream, deps }: Context,
): Promise<string | undefined> {
  if (way.kind !== 'exact' && way.kind !== 'approximate') return undefined
  const { tool, arguments: args } = way
  const internal = compensatingCall(call, { tool, arguments: args }, upstream)
  const entry = await entryOf(internal, deps)
  const schema = entry?.definition.inputSchema
  if (!entry || !isObject(schema)) return undefined
  const keyArgument = settingOf(deps.servers.settings(upstream)?.tools ?? {}, tool, 'keyArgument')?.value
  // A compensation has an idempotency key, which the tool may require among its arguments.
  const given = withKeyArgument(internal, 'key', keyArgument, entry).params.fields.arguments
  try {
    const [problem] = validator(schema)(given)
    if (!problem) return undefined
    const where = problem.path.length === 0 ? 'its arguments' : problem.path.join('.')
    return `${tool}, which undoes it, would reject the call: ${where} ${problem.message}`
  } catch (error) {
    if (error instanceof UnusableSchema) return undefined
    throw error
  }
}

/** The names of arguments that are secrets: of a call by the schema of its tool, and of the calls that undo it. */
export async function secretsOf(
  call: Call,
  rule: UndoRule | undefined,
  context: Context,
): Promise<readonly string[]> {
  const own = secretNames(call.tool?.definition.inputSchema)
  if (!rule || rule.kind === 'none') return own
  const undoing = rule.kind === 'call' ? [rule.call] : [rule.restore, ...(rule.absent ? [rule.absent] : [])]
  const names = undoing.map(async (expression) => {
    const entry = await entryOf(
      compensatingCall(call, { tool: expression.tool, arguments: {} }, context.upstream),
      context.deps,
    )
    return [...secretNames(entry?.definition.inputSchema), ...secretsPassedOn(expression, own)]
  })
  return [...new Set([...own, ...(await Promise.all(names)).flat()])]
}

/** The arguments of an expression to which it passes a secret. */
function secretsPassedOn(expression: Expression, secrets: readonly string[]): readonly string[] {
  const isSecret = (step: Step): boolean =>
    typeof step === 'string' && (secrets.includes(step) || isSecretName(step))
  return [...expression.arguments].flatMap(([name, value]) => {
    const paths = pathsOf({ ...expression, arguments: new Map([[name, value]]) })
    return paths.some(({ steps }) => steps.some(isSecret)) ? [name] : []
  })
}

function compensatingCall(
  { principal }: Call,
  called: { readonly tool: string; readonly arguments: Readonly<Record<string, unknown>> },
  upstream: string,
): Call {
  return internalCall({ purpose: 'compensate', principal, upstream, ...called })
}

/** The list entry of the tool that is called; undefined if it is not known. */
async function entryOf(call: Call, { servers }: Deps): Promise<Descriptor | undefined> {
  return Promise.resolve(servers.tool(call)).catch(() => undefined)
}
