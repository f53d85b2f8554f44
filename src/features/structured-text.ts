/** Adds the text of structured content for clients that only read text. */
import type { Call, Outcome } from '../core/call.ts'
import { exactly, isObject, readJson } from '../core/json/json.ts'
import type { Feature } from './feature.ts'
import { structuredTextSchema } from './settings/upstream.ts'

/** Adds the structured content of a tool's result as text, for clients and models that only read text. */
export const structuredText: Feature<Record<never, never>> = {
  ...structuredTextSchema,
  create: () => ({
    calls: {
      middleware: ({ method }) =>
        method === 'tools/call'
          ? (next) => (call) => next(call).then((outcome) => withText(outcome, call))
          : undefined,
      dryRun: 'absent',
    },
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
  const canonicalJson = lazily(() => exactly(structured.value))
  if (blocks.some((block) => isObject(block) && containsJson(block.text, text, canonicalJson))) return outcome
  call.logFields.set('text_added', true)
  return { kind: 'result', result: result.withItem('content', { type: 'text', text }) }
}

/** Whether a text contains the JSON, or is equal JSON in another notation. */
function containsJson(text: unknown, json: string, canonicalJson: () => string): boolean {
  if (typeof text !== 'string') return false
  if (/^[[{]/.test(json) && text.includes(json)) return true
  const value = readJson(text)
  return value !== undefined && exactly(value) === canonicalJson()
}

function lazily<Value>(make: () => Value): () => Value {
  let cached: { readonly value: Value } | undefined
  return () => (cached ??= { value: make() }).value
}
