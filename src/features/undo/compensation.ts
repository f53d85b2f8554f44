/** Computes the compensating call from a rule, the arguments, the result and the snapshot. */
import type { Call, Outcome } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { classify, firstWords } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { displayCall } from '../../core/tool-call.ts'
import { evaluate, type Expression, uses, resultValue } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import { isKeepable, tooLarge, type Compensation } from '../../records/actions.ts'
import type { Services } from '../feature.ts'

/** What reading before the call gave: what was there, that there was nothing, or that this is unknown. */
export type ReadSnapshot =
  | { readonly kind: 'found'; readonly value: unknown }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly reason: string }

/** What is known of a call. */
interface Known {
  readonly args: Readonly<Record<string, unknown>>
  readonly look?: ReadSnapshot | undefined
  /** What it gave, once it ended. */
  readonly result?: { readonly value: unknown }
}

/** How a call is undone, given what is known of it so far. */
export function compensationFor(rule: UndoRule | undefined, known: Known): Compensation {
  if (!rule) return none('no undo is configured for it')
  if (rule.kind === 'none') return none('it is configured to have no undo')
  const expression = expressionOf(rule, known.look)
  if (typeof expression === 'string') return none(expression)
  if (!known.result && uses(expression).has('result')) return none(RESULT)
  return compute(expression, rule, known)
}

/** Whether it is known only from what comes back how a call is undone. */
export function takesResult(rule: UndoRule | undefined, look: ReadSnapshot | undefined): boolean {
  if (!rule || rule.kind === 'none') return false
  const expression = expressionOf(rule, look)
  return typeof expression !== 'string' && uses(expression).has('result')
}

type Rule = Exclude<UndoRule, { readonly kind: 'none' }>

const RESULT = 'what it takes to undo it is in its result, which is not known'

/** The expression that applies, or why there is none. */
function expressionOf(rule: Rule, look: ReadSnapshot | undefined): Expression | string {
  if (rule.kind === 'call') return rule.call
  if (!look) return 'what was there before was not read'
  if (look.kind === 'unreadable') return `what was there before could not be read: ${look.reason}`
  if (look.kind === 'found') return rule.restore
  return rule.absent ?? 'there was nothing before it, and no undo is configured for that'
}

/** What stands for bytes that are no text once they were read as text (Unicode, U+FFFD). */
const NO_TEXT = '\uFFFD'

function compute(expression: Expression, { isExact, description }: Rule, known: Known): Compensation {
  const { args, look, result } = known
  try {
    const given = evaluate(expression, {
      args,
      ...(result && { result: result.value }),
      ...(look?.kind === 'found' && { snapshot: look.value }),
    })
    if (look?.kind === 'found' && JSON.stringify(given).includes(NO_TEXT))
      return none('what was there before is no text, so it was not read as it is')
    const way: Compensation = {
      kind: isExact ? 'exact' : 'approximate',
      tool: expression.tool,
      arguments: given,
      description: description ?? displayCall(expression.tool, given),
    }
    return isKeepable(way) ? way : tooLarge
  } catch (error) {
    return none(error instanceof Error ? error.message : String(error))
  }
}

function none(reason: string): Compensation {
  return { kind: 'none', reason }
}

// Reads what was there before a call, through the chain, with the caller's rights.

type Deps = Pick<Services, 'invoker'>

/**
 * Reads what is there before a call. The caller sees masked and shortened results, but what is put back must be
 * what was there: so results are taken where they come from the server.
 */
export class SnapshotReader {
  readonly #deps: Deps
  /** What servers sent, by the facts of the calls that read. */
  readonly #raw = new WeakMap<Call['logFields'], Payload>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Takes note of what a call that reads got from its server. */
  heard(call: Call, outcome: Outcome): void {
    if (outcome.kind === 'result') this.#raw.set(call.logFields, outcome.result)
  }

  /** Reads with the rights of the caller. Never throws. */
  async read(
    call: Call,
    snapshot: Expression,
    given: { readonly upstream: string; readonly args: Readonly<Record<string, unknown>> },
  ): Promise<ReadSnapshot> {
    try {
      const internal = this.#deps.invoker.internal({
        purpose: 'read',
        principal: call.principal,
        upstream: given.upstream,
        tool: snapshot.tool,
        arguments: evaluate(snapshot, { args: given.args }),
        during: call,
      })
      const outcome = await this.#deps.invoker.call(internal)
      if (outcome.kind === 'input_required') return unreadable('the server asks something first')
      return this.#read(outcome.result, this.#raw.get(internal.logFields))
    } catch (error) {
      if (error instanceof Error) return unreadable(error.message)
      return unreadable(asGatewayError(error).message)
    }
  }

  #read(told: Payload, raw: Payload | undefined): ReadSnapshot {
    if (told.fields.isError === true) return failed(told)
    if (!raw) return unreadable('it was not read from the server')
    return { kind: 'found', value: resultValue(raw) }
  }
}

/**
 * Only a server that says so says that there is nothing: what it merely failed to read may be there, and the way
 * back from writing it would remove it.
 */
function failed(told: Payload): ReadSnapshot {
  const { _meta: meta } = told.fields
  const error = isObject(meta) ? meta[ERROR_KEY] : undefined
  const { code, message } = isObject(error)
    ? error
    : { code: classify({ text: firstWords(told) }, []).code, message: firstWords(told) }
  if (code === 'RESOURCE_NOT_FOUND') return { kind: 'absent' }
  return unreadable(`${String(code)}: ${String(message)}`)
}

function unreadable(reason: string): ReadSnapshot {
  return { kind: 'unreadable', reason: reason.slice(0, 500) }
}
