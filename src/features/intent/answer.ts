import type { Call, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { oneLine } from '../../core/one-line.ts'
import { Payload } from '../../core/payload.ts'
import { ERROR_KEY, NS } from '../../wire/extensions.ts'
import type { Suggestion } from './suggest.ts'

/** Where in the `_meta` of a result a suggestion stands. */
const META_KEY = `${NS}/suggestion`

/** What a tool answered, with the tool that would fit better after it. */
export function advised(outcome: Outcome, suggestion: Suggestion, compat: boolean): Outcome {
  if (outcome.kind === 'input_required') return outcome
  const { result } = outcome
  const { content } = result.fields
  const block = { type: 'text', text: hintOf(suggestion) }
  const told = Array.isArray(content) ? result.withItem('content', block) : result
  const beside = compat && result.fields.suggestion === undefined ? { suggestion } : {}
  return { kind: 'result', result: told.with(beside).withMeta({ [META_KEY]: suggestion }) }
}

/** The answer to a call that was not made, because another tool fits better. */
export function redirected({ requestId }: Call, suggestion: Suggestion, compat: boolean): Outcome {
  const { recommended_tool: tool, reason } = suggestion
  const error = new GatewayError('INVALID_INPUT', 'Not run: another tool fits the stated intent better.', {
    suggestion: `Call ${tool}, or make this call without an intent.`,
    reason: 'redirected',
    details: { recommended_tool: tool },
  })
  const object = { ...error.data, requestId }
  const text = `${error.message} ${hintOf({ recommended_tool: tool, reason })}`
  const result = {
    content: [{ type: 'text', text }],
    isError: true,
    ...(compat && { result: null, suggestion, error: object }),
    _meta: { [META_KEY]: suggestion, [ERROR_KEY]: object },
  }
  return { kind: 'result', result: Payload.of(result) }
}

function hintOf({ recommended_tool: tool, reason }: Suggestion): string {
  return `Hint: ${oneLine(tool)} may fit better. ${oneLine(reason)}`
}
