/**
 * Classifies the end of a keyed call, annotates its response, and verifies a lost call with a read.
 */
import { NS } from '../../core/identity.ts'
import { type Call, isOpen, type Outcome } from '../../core/call.ts'
import { internalCall } from '../own-calls.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { type Category, GatewayError, isCategory } from '../../core/error.ts'
import { classify, firstWords, type Rule, isAnsweredCode, isGatewayRefusal } from '../../core/failure.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { validator } from '../../core/schema/schema.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { evaluate, type Expression, parseExpression, resultValue } from '../../core/undo/expression.ts'
import { foundAt } from '../../core/undo/verification.ts'
import { ERROR_KEY, IDEMPOTENCY_KEY } from '../../protocol/meta-keys.ts'
import type { CallRecord, StoredCall } from '../../records/calls.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'invoker'>

/** How a keyed call ends for the callers that wait for it. */
export type Completion =
  | {
      readonly kind: 'completed'
      readonly result: Payload
      readonly startedAt: number
      /** Nothing was done, so the key is free again. */
      readonly isReleased?: true
      /** The store did not accept the record in time, or not the result. */
      readonly isUnrecorded?: true
    }
  | { readonly kind: 'failed'; readonly error: unknown; readonly startedAt?: number }
  /** For the first caller only; the others start over. */
  | { readonly kind: 'input_required'; readonly outcome: Outcome }
  /** The key already has a record: of a call that ended, was lost, or is in flight at another gateway. */
  | { readonly kind: 'held_elsewhere'; readonly stored: StoredCall }
  /** The call was not made here: its record changed in the meantime, or no caller waited any more. */
  | { readonly kind: 'abandoned' }

/**
 * The state of a record after its call: `done` is replayed from now on, `unknown` may have taken effect, `executing`
 * continues while input requests of the server are answered. `released` deletes the record: nothing was done.
 */
export type NextState = CallRecord['state'] | 'released'

/** The state of a record after an outcome. */
export function classifyCompletion(outcome: Outcome, rules: readonly Rule[]): NextState {
  if (outcome.kind !== 'result') return isOpen(outcome) ? 'executing' : 'released'
  const { result } = outcome
  if (result.member('isError') !== true) return 'done'
  const given = structuredOf(result)
  if (given && isRefusal(given)) return 'released'
  const category = isCategory(given?.category)
    ? given.category
    : diagnose(firstWords(result), undefined, rules).category
  return isReleased(category) ? 'released' : 'done'
}

/** The state of a record after a failure. `isResumed`: the server had begun in an earlier round. */
export function classifyFailure(
  thrown: unknown,
  { rules, isResumed }: { readonly rules: readonly Rule[]; readonly isResumed: boolean },
): NextState {
  if (!(thrown instanceof GatewayError)) return 'unknown'
  const { code, extra } = thrown
  if (extra.isUnsent) return isResumed ? 'unknown' : 'released'
  const status = extra.details?.http_status
  if (typeof status === 'number') return stateAfterStatus(status)
  if (extra.relayed) {
    const { category } = diagnose(thrown.message, thrown.rpc, rules)
    return isReleased(category) ? 'released' : 'done'
  }
  if (isAnsweredCode(code)) return 'done'
  return isGatewayRefusal(thrown) && !isResumed ? 'released' : 'unknown'
}

/** The state after an HTTP status: refused before any effect, except 502 and 504 of an intermediary, which are unknown. */
function stateAfterStatus(status: number): NextState {
  if (status === 401 || status === 403 || status === 429 || status === 503) return 'released'
  return status === 502 || status === 504 ? 'unknown' : 'done'
}

function isReleased(category: Category): boolean {
  return category === 'rate_limited' || category === 'auth_required'
}

/** The structured error of a failed result, if it has one. */
function structuredOf({ fields: { _meta: meta, error, structuredContent } }: Payload) {
  const places = [
    isObject(meta) && meta[ERROR_KEY],
    error,
    isObject(structuredContent) && structuredContent.error,
  ]
  return places.filter(isObject).find(({ category }) => isCategory(category))
}

/** Whether a structured error, such as that of a gateway behind this one, says that the call was not made yet. */
function isRefusal({ code }: Record<string, unknown>): boolean {
  return typeof code === 'string' && (code.startsWith('CONFIRMATION_') || code === 'WRITES_PAUSED')
}

function diagnose(text: string, rpc: number | undefined, rules: readonly Rule[]): GatewayError {
  const { code, category } = classify({ text: text.slice(0, MAX_TEXT_LENGTH), rpc }, rules)
  return new GatewayError(code, '', { category })
}

/** How much of a text is examined, in characters. */
const MAX_TEXT_LENGTH = 2000

/** The facts about the key of a call in its response. */
interface ReplayFacts {
  /** Absent if the caller sent none. */
  readonly key?: string | undefined
  readonly wasReplay: boolean
  /** When the call first started, in milliseconds since 1970. */
  readonly startedAt: number
  /** Set if it is the outcome of a call whose answer was lost. */
  readonly isLost?: true
}

/** The `_meta` keys of a result that was found by a verifying read, and of one that could not be recorded. */
const VERIFIED = `${NS}/verified`
export const UNRECORDED = `${NS}/unrecorded`

/** The `_meta` key of the facts about the key of a call. */
export const META_KEY = `${NS}/idempotency`

/** A result annotated with the facts about its key. */
export function annotateReplay(
  result: Payload,
  facts: ReplayFacts,
  { compat }: { readonly compat: boolean },
): Payload {
  const annotations = fieldsOf(facts)
  // A caller without a key only learns that nothing was executed again.
  if (facts.key === undefined) return facts.wasReplay ? result.withMeta({ [META_KEY]: annotations }) : result
  const annotated = result.withMeta({ [META_KEY]: annotations, ...annotations })
  return compat ? annotated.with({ idempotency: annotations }) : annotated
}

/** A failure of the server annotated with the facts about its key. */
export function annotateFailure(error: unknown, facts: ReplayFacts): unknown {
  if (!(error instanceof GatewayError) || (facts.key === undefined && !facts.isLost)) return error
  const annotations = fieldsOf(facts)
  const { data, relayed } = error.extra
  if (!relayed) return error.with({ data: { ...data, ...annotations } })
  const sent = relayed.fields.data
  if (sent !== undefined && !isObject(sent)) return error
  return error.with({
    data: { ...data, ...annotations },
    relayed: relayed.with({ data: { ...annotations, ...sent } }),
  })
}

function fieldsOf({ key, wasReplay, startedAt }: ReplayFacts): Readonly<Record<string, unknown>> {
  return {
    ...(key !== undefined && { [IDEMPOTENCY_KEY]: key }),
    was_replay: wasReplay,
    original_timestamp: isoTime(startedAt),
  }
}

/**
 * Verifies, with the rights of the caller, whether a call with a lost response took effect. Resolves with what the read
 * found, or undefined if the call had no effect. @throws if the read is inconclusive
 */
export async function verify(
  call: Call,
  upstream: string,
  verifyExpression: string,
  deps: Deps,
): Promise<{ readonly value: unknown } | undefined> {
  const expression = parseExpression(verifyExpression)
  const { find } = expression
  if (!find) throw new Error('it does not name what to look for')
  const given = call.params.fields.arguments
  const outcome = await deps.invoker.call(snapshotCall(expression, call, upstream, asObject(given)))
  if (outcome.kind !== 'result') throw new Error('the server requests input first')
  if (outcome.result.fields.isError === true) throw new Error('the read failed')
  return foundAt(resultValue(outcome.result), find)
}

/** What a verifying read found, in place of the lost response. */
export function verifiedResult(value: unknown, entry: Descriptor | undefined): Payload {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const result = { content: [{ type: 'text', text }], _meta: { [VERIFIED]: true } }
  return Payload.of(fits(value, entry) ? { ...result, structuredContent: value } : result)
}

function snapshotCall(
  expression: Expression,
  call: Call,
  upstream: string,
  args: Readonly<Record<string, unknown>>,
): Call {
  return internalCall({
    purpose: 'read',
    principal: call.principal,
    upstream,
    tool: expression.tool,
    arguments: evaluate(expression, { args }),
    during: call,
  })
}

function fits(value: unknown, entry: Descriptor | undefined): boolean {
  const schema = entry?.definition.outputSchema
  if (!isObject(value)) return false
  if (!isObject(schema)) return true
  try {
    return validator(schema)(value).length === 0
  } catch {
    return false
  }
}
