/**
 * What the end of a call means for its key, what is added to its response, and how a read verifies a lost
 * call.
 */
import type { Outcome, Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { type Category, GatewayError, isCategory } from '../../core/error.ts'
import { classify, firstWords, type Rule } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Path } from '../../core/json/path.ts'
import { isTaskAccepted, isAnsweredCode, isGatewayRefusal } from '../../core/failure.ts'
import { Payload } from '../../core/payload.ts'
import { validator } from '../../core/schema/schema.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { evaluate, type Expression, parseExpression, resultValue } from '../../core/undo/expression.ts'
import { ERROR_KEY, IDEMPOTENCY_KEY, NS } from '../../protocol/meta-keys.ts'
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
      /** The store did not take the record in time, or not the result. */
      readonly isUnrecorded?: true
    }
  | { readonly kind: 'failed'; readonly error: unknown; readonly startedAt?: number }
  /** For the first caller alone; the others start over. */
  | { readonly kind: 'input_required'; readonly outcome: Outcome }
  /** The key has a record that is not ours. */
  | { readonly kind: 'held_elsewhere'; readonly stored: StoredCall }
  /** The call was not made here: its record changed meanwhile, or no caller waited any more. */
  | { readonly kind: 'abandoned' }

/**
 * The state of a record after its call: `done` is replayed from now on, `unknown` may have run, `executing` continues
 * while the server's questions are answered. `released` deletes the record: nothing was done.
 */
export type NextState = CallRecord['state'] | 'released'

/** The state of a record after an outcome. */
export function classifyCompletion(outcome: Outcome, rules: readonly Rule[]): NextState {
  if (outcome.kind === 'input_required') return outcome.isOpen ? 'executing' : 'released'
  const { result } = outcome
  if (isTaskAccepted(result)) return 'unknown'
  if (result.member('isError') !== true) return 'done'
  const given = structuredOf(result)
  if (given && isRefusal(given)) return 'released'
  const category = isCategory(given?.category)
    ? given.category
    : meaning(firstWords(result), undefined, rules).category
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
    const { category } = meaning(thrown.message, thrown.rpc, rules)
    return isReleased(category) ? 'released' : 'done'
  }
  if (isAnsweredCode(code)) return 'done'
  return isGatewayRefusal(thrown) && !isResumed ? 'released' : 'unknown'
}

/** Refused before anything was done; 502 and 504 are of something between that does not know. */
function stateAfterStatus(status: number): NextState {
  if (status === 401 || status === 403 || status === 429 || status === 503) return 'released'
  return status === 502 || status === 504 ? 'unknown' : 'done'
}

function isReleased(category: Category): boolean {
  return category === 'rate_limited' || category === 'auth_required'
}

/** The structured error of a failed result, where it has one. */
function structuredOf({ fields: { _meta: meta, error, structuredContent } }: Payload) {
  const places = [
    isObject(meta) && meta[ERROR_KEY],
    error,
    isObject(structuredContent) && structuredContent.error,
  ]
  return places.filter(isObject).find(({ category }) => isCategory(category))
}

/** Whether a structured error says that a person has to agree first. */
function isRefusal({ code }: Record<string, unknown>): boolean {
  return typeof code === 'string' && code.startsWith('CONFIRMATION_')
}

function meaning(text: string, rpc: number | undefined, rules: readonly Rule[]): GatewayError {
  const { code, category } = classify({ text: text.slice(0, MAX_TEXT_LENGTH), rpc }, rules)
  return new GatewayError(code, '', { category })
}

/** How much of a text is looked at, in characters. */
const MAX_TEXT_LENGTH = 2000

/** What is said of the key of a call in its answer. */
interface About {
  /** Absent where the caller sent none. */
  readonly key?: string | undefined
  readonly wasReplay: boolean
  /** When the call first began, in milliseconds since 1970. */
  readonly startedAt: number
}

/** Where a result says that it was found out by a read of the gateway, and that it could not be remembered. */
const VERIFIED = `${NS}/verified`
export const UNRECORDED = `${NS}/unrecorded`

const META_KEY = `${NS}/idempotency`

/** A result that says what is known of its key. */
export function annotateReplay(
  result: Payload,
  about: About,
  { compat }: { readonly compat: boolean },
): Payload {
  const said = fieldsOf(about)
  // Who sent no key is only told that nothing was done anew.
  if (about.key === undefined) return about.wasReplay ? result.withMeta({ [META_KEY]: said }) : result
  const whole = result.withMeta({ [META_KEY]: said, ...said })
  return compat ? whole.with({ idempotency: said }) : whole
}

/** A failure of the server that says what is known of the key of its call. */
export function annotateFailure(error: unknown, about: About): unknown {
  if (!(error instanceof GatewayError) || about.key === undefined) return error
  const said = fieldsOf(about)
  const { data, relayed } = error.extra
  if (!relayed) return error.with({ data: { ...data, ...said } })
  const sent = relayed.fields.data
  if (sent !== undefined && !isObject(sent)) return error
  return error.with({ data: { ...data, ...said }, relayed: relayed.with({ data: { ...sent, ...said } }) })
}

function fieldsOf({ key, wasReplay, startedAt }: About): Readonly<Record<string, unknown>> {
  return {
    ...(key !== undefined && { [IDEMPOTENCY_KEY]: key }),
    was_replay: wasReplay,
    original_timestamp: isoTime(startedAt),
  }
}

/**
 * Reads, with the rights of the caller, whether a call whose answer is lost took effect. Resolves with what the read
 * found, or with nothing where the call had no effect. @throws where the read cannot tell
 */
export async function verify(
  call: Call,
  upstream: string,
  written: string,
  deps: Deps,
): Promise<{ readonly value: unknown } | undefined> {
  const expression = parseExpression(written)
  const { find } = expression
  if (!find) throw new Error('it does not say what to look for')
  const given = call.params.fields.arguments
  const outcome = await deps.invoker.call(
    snapshotCall(expression, { call, upstream, args: asArguments(given), deps }),
  )
  if (outcome.kind === 'input_required') throw new Error('the server asks something first')
  if (outcome.result.fields.isError === true) throw new Error('the read failed')
  return look(resultValue(outcome.result), find)
}

/** What a read found, in place of the answer that was lost. */
export function verifiedResult(value: unknown, entry: Descriptor | undefined): Payload {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const result = { content: [{ type: 'text', text }], _meta: { [VERIFIED]: true } }
  return Payload.of(fits(value, entry) ? { ...result, structuredContent: value } : result)
}

interface Around {
  readonly call: Call
  readonly upstream: string
  readonly args: Readonly<Record<string, unknown>>
  readonly deps: Deps
}

function snapshotCall(expression: Expression, { call, upstream, args, deps }: Around): Call {
  return deps.invoker.internal({
    purpose: 'read',
    principal: call.principal,
    upstream,
    tool: expression.tool,
    arguments: evaluate(expression, { args }),
    during: call,
  })
}

function asArguments(given: unknown): Readonly<Record<string, unknown>> {
  return isObject(given) ? given : {}
}

/**
 * Follows a path. It is absent where a list is too short, a value is null, or the last member is missing; where the
 * way there is another than the path says, the read says nothing about it.
 */
function look(result: unknown, { steps }: Path): { readonly value: unknown } | undefined {
  let at = result
  for (const [index, step] of steps.entries()) {
    if (step === null) throw new Error('it looks for several things')
    if (at === null) return undefined
    if (typeof step === 'number') {
      if (!Array.isArray(at)) throw new Error(`there is no list before [${step}]`)
      at = at[step]
      if (at === undefined) return undefined
      continue
    }
    if (!isObject(at)) throw new Error(`there is no object before .${step}`)
    const isLast = index === steps.length - 1
    if (!Object.hasOwn(at, step)) {
      if (isLast) return undefined
      throw new Error(`there is no .${step}`)
    }
    at = at[step]
  }
  if (at === undefined) throw new Error('the read has no result')
  const isEmpty = at === null || at === '' || (Array.isArray(at) && at.length === 0)
  return isEmpty ? undefined : { value: at }
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
