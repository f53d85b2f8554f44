/** Adds the text of structured content for clients that read text alone. */
import type { Call, Outcome } from '../core/call.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import type { Feature } from './feature.ts'

/** Gives the structured content of a tool's result as text too, for clients and models that read text alone. */
export const structuredText: Feature<Record<never, never>> = {
  name: 'structured_text',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether structured content that stands in no text of a result is added as one. By default `off`, and `on` in the corporate profile.',
    properties: {},
  },
  create: () => ({
    middleware: ({ method }) =>
      method === 'tools/call'
        ? (next) => (call) => next(call).then((outcome) => withText(outcome, call))
        : undefined,
  }),
}

function withText(outcome: Outcome, call: Call): Outcome {
  if (outcome.kind !== 'result' || outcome.result.fields.isError === true) return outcome
  const { result } = outcome
  const structured = result.at('structuredContent')
  if (structured === undefined) return outcome
  const { content } = result.fields
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const { text } = structured
  const same = lazily(() => canonical(structured.value))
  if (blocks.some((block) => isObject(block) && says(block.text, text, same))) return outcome
  call.logFields.set('text_added', true)
  return { kind: 'result', result: result.withItem('content', { type: 'text', text }) }
}

/** Whether a text contains the JSON, or is the same JSON in other characters. */
function says(text: unknown, json: string, same: () => string): boolean {
  if (typeof text !== 'string') return false
  if (/^[[{]/.test(json) && text.includes(json)) return true
  const value = readJson(text)
  return value !== undefined && canonical(value) === same()
}

function lazily<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined
  return () => (made ??= { value: make() }).value
}
