/** Computes the compensating call from a rule, the arguments, the result and the snapshot. */
import { displayCall, secretNames } from '../../core/masked-arguments.ts'
import { internalCall } from '../own-calls.ts'
import type { Call, Outcome } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { classify, firstWords } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { MASK } from '../../core/text/redactor.ts'
import { evaluate, type Expression, uses, resultValue, pathsOf } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import type { Compensation } from '../../records/actions.ts'
import type { Services } from '../feature.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import type { Step } from '../../core/json/path.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'
import { settingOf } from '../../core/settings.ts'
import { isSecretName } from '../../core/text/secret.ts'
import { withKeyArgument } from '../../core/tool-call.ts'

/** The result of the read before a call: a value, nothing, or an unknown state. */
export type ReadSnapshot =
  | { readonly kind: 'found'; readonly value: unknown; readonly isRedacted: boolean }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly reason: string }

/** The known facts about a call. */
interface CallFacts {
  /** The names of its arguments that are secrets by the schema of its tool. */
  readonly secrets?: readonly string[]
  readonly args: Readonly<Record<string, unknown>>
  readonly snapshot?: ReadSnapshot | undefined
  /** Its result, once it has ended. */
  readonly result?: { readonly value: unknown; readonly isRedacted: boolean }
}

/** The compensation of a call, from the facts known so far. It may be too large for a record. */
export function compensationFor(rule: UndoRule | undefined, facts: CallFacts): Compensation {
  if (!rule) return none('no undo is configured for it')
  if (rule.kind === 'none') return none('its undo is configured as none')
  const expression = expressionOf(rule, facts.snapshot)
  if (typeof expression === 'string') return none(expression)
  if (!facts.result && uses(expression).has('result')) return none(RESULT_UNKNOWN)
  return compute(expression, rule, facts)
}

/** Whether the compensation depends on the result of the call. */
export function needsResult(rule: UndoRule | undefined, snapshot: ReadSnapshot | undefined): boolean {
  if (!rule || rule.kind === 'none') return false
  const expression = expressionOf(rule, snapshot)
  return typeof expression !== 'string' && uses(expression).has('result')
}

type Rule = Exclude<UndoRule, { readonly kind: 'none' }>

const RESULT_UNKNOWN = 'the data needed to undo it is in its result, which is unknown'

/** The expression that applies, or why there is none. */
function expressionOf(rule: Rule, snapshot: ReadSnapshot | undefined): Expression | string {
  if (rule.kind === 'call') return rule.call
  if (!snapshot) return 'the previous state was not read'
  if (snapshot.kind === 'unreadable') return `the previous state could not be read: ${snapshot.reason}`
  if (snapshot.kind === 'found') return rule.restore
  return rule.absent ?? 'nothing existed before the call, and no undo is configured for that case'
}

/** Replaces bytes that are not text after decoding (Unicode, U+FFFD). */
const REPLACEMENT_CHARACTER = '\uFFFD'

function compute(expression: Expression, { isExact, description }: Rule, facts: CallFacts): Compensation {
  const { args, snapshot, result, secrets } = facts
  try {
    const given = evaluate(expression, {
      args,
      ...(result && { result: result.value }),
      ...(snapshot?.kind === 'found' && { snapshot: snapshot.value }),
    })
    if (snapshot?.kind === 'found' && JSON.stringify(given).includes(REPLACEMENT_CHARACTER))
      return none('the previous state is not text, so it was not read exactly')
    const isRedacted = result?.isRedacted === true || (snapshot?.kind === 'found' && snapshot.isRedacted)
    if (isRedacted && JSON.stringify(given).includes(MASK))
      return none('the data needed to undo it contains a secret of the configuration, which is not kept')
    return {
      kind: isExact ? 'exact' : 'approximate',
      tool: expression.tool,
      arguments: given,
      description: description ?? displayCall(expression.tool, given, { secrets }),
    }
  } catch (error) {
    return none(error instanceof Error ? error.message : String(error))
  }
}

function none(reason: string): Compensation {
  return { kind: 'none', reason }
}

// Reads the state before a call, through the chain, with the caller's rights.

/**
 * Reads the state before a call. The caller sees masked and shortened results, but a compensation must restore the exact
 * state, so the results are taken as they come from the server.
 */
export class SnapshotReader {
  readonly #deps: Pick<Services, 'invoker'>
  /** The servers' results of reading calls, by the calls' log fields. */
  readonly #raw = new WeakMap<Call['logFields'], Payload>()

  constructor(deps: Pick<Services, 'invoker'>) {
    this.#deps = deps
  }

  /** Records the result of a reading call from its server. */
  recordResult(call: Call, outcome: Outcome): void {
    if (outcome.kind === 'result') this.#raw.set(call.logFields, outcome.result)
  }

  /** Reads with the rights of the caller. Never throws. */
  async read(
    call: Call,
    snapshot: Expression,
    given: { readonly upstream: string; readonly args: Readonly<Record<string, unknown>> },
  ): Promise<ReadSnapshot> {
    try {
      const internal = internalCall({
        purpose: 'read',
        principal: call.principal,
        upstream: given.upstream,
        tool: snapshot.tool,
        arguments: evaluate(snapshot, { args: given.args }),
        during: call,
      })
      const outcome = await this.#deps.invoker.call(internal)
      if (outcome.kind !== 'result') return unreadable('the server requests input first')
      return this.#read(outcome.result, this.#raw.get(internal.logFields))
    } catch (error) {
      if (error instanceof Error) return unreadable(error.message)
      return unreadable(asGatewayError(error).message)
    }
  }

  #read(result: Payload, raw: Payload | undefined): ReadSnapshot {
    if (result.fields.isError === true) return readFailure(result)
    if (!raw) return unreadable('it was not read from the server')
    return { kind: 'found', value: resultValue(raw), isRedacted: raw.isRedacted }
  }
}

/**
 * Only an explicit "not found" of the server means that nothing exists: a failed read may hide existing data, which the
 * compensation of a write would then remove.
 */
function readFailure(result: Payload): ReadSnapshot {
  const { _meta: meta } = result.fields
  const error = isObject(meta) ? meta[ERROR_KEY] : undefined
  const { code, message } = isObject(error)
    ? error
    : { code: classify({ text: firstWords(result) }, []).code, message: firstWords(result) }
  if (code === 'RESOURCE_NOT_FOUND') return { kind: 'absent' }
  return unreadable(`${String(code)}: ${String(message)}`)
}

function unreadable(reason: string): ReadSnapshot {
  return { kind: 'unreadable', reason: reason.slice(0, 500) }
}

/*
 * What the tool that undoes a call says about the undoing call: whether it would take it, and which of its arguments are
 * secrets.
 */

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
