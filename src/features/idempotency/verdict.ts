import { isTaskAccepted } from '../../core/answer.ts'
import type { Outcome } from '../../core/call.ts'
import { type Category, GatewayError, isCategory } from '../../core/error.ts'
import { classify, firstWords, type Rule } from '../../core/failure.ts'
import { isObject } from '../../core/json.ts'
import { isAnsweredCode, isGatewayRefusal } from '../../core/own-refusal.ts'
import type { Payload } from '../../core/payload.ts'
import { ERROR_KEY } from '../../wire/extensions.ts'

/**
 * What the end of a call means for its key: it was done, and is told again from now on; nothing was done, so anybody
 * may begin anew; nobody knows; or the server goes on while its questions are answered.
 */
export type CompletionClass = 'done' | 'released' | 'unknown' | 'open'

/** What a call that ended well means for its key. */
export function classifyCompletion(outcome: Outcome, rules: readonly Rule[]): CompletionClass {
  if (outcome.kind === 'input_required') return outcome.isOpen ? 'open' : 'released'
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

/** What a failure means for a key. `isResumed`: the server had begun in an earlier round. */
export function classifyFailure(
  thrown: unknown,
  { rules, isResumed }: { readonly rules: readonly Rule[]; readonly isResumed: boolean },
): CompletionClass {
  if (!(thrown instanceof GatewayError)) return 'unknown'
  const { code, extra } = thrown
  if (extra.isUnsent) return isResumed ? 'unknown' : 'released'
  const status = extra.details?.http_status
  if (typeof status === 'number') return verdictOfStatus(status)
  if (extra.relayed) {
    const { category } = meaning(thrown.message, thrown.rpc, rules)
    return isReleased(category) ? 'released' : 'done'
  }
  if (isAnsweredCode(code)) return 'done'
  return isGatewayRefusal(thrown) && !isResumed ? 'released' : 'unknown'
}

/** Refused before anything was done; 502 and 504 are of something between that does not know. */
function verdictOfStatus(status: number): CompletionClass {
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
